"""JavaScript and TypeScript: relative specifiers, ``paths`` of tsconfig.json, packages of the same repository."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from codequarry.pipelines.modules.resolve.families import (
    ModuleName,
    Repository,
    as_written,
    dotted,
    join,
    parents,
    with_origins,
    without_suffix,
)
from codequarry.pipelines.syntax.facts.table import SourceModule
from codequarry.schemas.records import Import

_SUFFIXES = (".ts", ".tsx", ".mts", ".cts", ".d.ts", ".js", ".jsx", ".mjs", ".cjs")
_COMPILED = {".js": (".ts", ".tsx", ".d.ts"), ".jsx": (".tsx",), ".mjs": (".mts",), ".cjs": (".cts",)}
"""Source suffixes by the suffix of a specifier, which may name the compiler's output."""
_COMMENT_OR_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")
_ENTRY_FIELDS = ("source", "types", "typings", "module", "main")
_MAX_CONFIG_BYTES = 1 << 20


@dataclass(frozen=True)
class _Aliases:
    """Rules of a tsconfig.json for specifiers that are not relative."""

    base: str | None
    """Folder that such specifiers may be relative to."""
    paths: tuple[tuple[str, tuple[str, ...]], ...]
    """(pattern, paths from the repository's root); a ``*`` in both stands for the same text."""


class EcmascriptModules:
    """The JavaScript and TypeScript files of a repository."""

    def __init__(self, repository: Repository) -> None:
        self._modules = repository.of("javascript", "typescript", "tsx")
        self._aliases = {
            folder: aliases
            for folder, data in repository.configs_called("tsconfig.json", "jsconfig.json").items()
            if (aliases := _aliases(folder, _object(data)))
        }
        packages = {folder: _object(data) for folder, data in repository.configs_called("package.json").items()}
        self._packages = {str(data["name"]): (folder, data) for folder, data in packages.items() if data.get("name")}

    def name(self, module: SourceModule) -> ModuleName:
        """Return the dotted path; ``index`` gets the name of its folder."""
        stem = without_suffix(module.path)
        folder, _, last = stem.rpartition("/")
        name = dotted(folder if last == "index" and folder else stem)
        return ModuleName(name, name.rpartition(".")[0])

    def entries(self, module: SourceModule) -> Iterable[tuple[str, Import]]:
        """Yield one entry for each specifier."""
        return as_written(module)

    def resolve(self, module: SourceModule, imported: Import) -> set[str]:
        """Return the file of the specifier; for an index file, also the files that define the imported names."""
        found = self._direct(module, imported)
        barrels = {path for path in found if without_suffix(path).rpartition("/")[2] == "index"}
        return with_origins(found, barrels, imported, self._direct, self._modules)

    def _direct(self, module: SourceModule, imported: Import) -> set[str]:
        specifier = imported.source.partition("?")[0]
        folders = parents(module.path)
        if specifier.startswith("."):
            candidates = [join(folders[0], specifier)]
        else:
            candidates = [*self._by_alias(folders, specifier), *self._by_package(specifier)]
        files = (self._file(path) for path in candidates if path is not None)
        return {next((file for file in files if file), "")} - {""}

    def _file(self, path: str) -> str:
        """Return the module of a path without suffix, with one, or of a folder; "" for none."""
        stem, dot, suffix = path.rpartition(".")
        exact = [path, *(stem + other for other in _COMPILED.get(dot + suffix, ()))]
        index = f"{path}/index" if path else "index"
        names = (*exact, *(path + suffix for suffix in _SUFFIXES), *(index + suffix for suffix in _SUFFIXES))
        return next((name for name in names if name in self._modules), "")

    def _by_alias(self, folders: list[str], specifier: str) -> Iterator[str | None]:
        """Yield paths of a specifier by the nearest tsconfig.json with aliases."""
        aliases = next((self._aliases[folder] for folder in folders if folder in self._aliases), None)
        if aliases is None:
            return
        for pattern, targets in aliases.paths:
            before, star, after = pattern.partition("*")
            if star and specifier.startswith(before) and specifier.endswith(after):
                inner = specifier[len(before) : len(specifier) - len(after)]
                yield from (target.replace("*", inner, 1) for target in targets)
            elif specifier == pattern:
                yield from targets
        if aliases.base is not None:
            yield join(aliases.base, specifier)

    def _by_package(self, specifier: str) -> Iterator[str | None]:
        """Yield paths of a specifier in the package of the repository that it names."""
        parts = specifier.split("/")
        scoped = 2 if specifier.startswith("@") else 1
        folder, data = self._packages.get("/".join(parts[:scoped]), (None, {}))
        if folder is None:
            return
        inner = "/".join(parts[scoped:])
        if inner:
            yield from (join(folder, inner), join(folder, f"src/{inner}"))
        else:
            entries = [data.get(field) for field in _ENTRY_FIELDS] + list(_strings(data.get("exports")))
            yield from (join(folder, entry) for entry in entries if isinstance(entry, str))
            yield from (join(folder, "src"), join(folder, "."))


def _aliases(folder: str, config: dict[str, Any]) -> _Aliases | None:
    options = config.get("compilerOptions")
    if not isinstance(options, dict):
        return None
    base = options.get("baseUrl")
    base = join(folder, base) if isinstance(base, str) else None
    listed = options.get("paths")
    paths = []
    for pattern, targets in listed.items() if isinstance(listed, dict) else ():
        inside = [join(base if base is not None else folder, each) for each in _strings(targets)]
        paths.append((pattern, tuple(path for path in inside if path is not None)))
    # The longest prefix before the star wins, as in the compiler.
    paths.sort(key=lambda item: (-len(item[0].partition("*")[0]), item[0]))
    return _Aliases(base, tuple(paths)) if paths or base is not None else None


def _strings(value: object) -> Iterator[str]:
    """Yield strings of a JSON value, down to four levels."""
    level = [value]
    for _ in range(4):
        yield from (each for each in level if isinstance(each, str))
        level = [
            inner
            for each in level
            if isinstance(each, (dict, list))
            for inner in (each.values() if isinstance(each, dict) else each)
        ]


def _object(data: bytes) -> dict[str, Any]:
    """Return a JSON object that may have comments and trailing commas; empty when it is invalid."""
    text = data[:_MAX_CONFIG_BYTES].decode("utf-8-sig", "replace")
    plain = _COMMENT_OR_STRING.sub(lambda match: match[0] if match[0].startswith('"') else " ", text)
    try:
        value = json.loads(_TRAILING_COMMA.sub(r"\1", plain))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}

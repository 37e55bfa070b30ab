"""Languages whose imports name types by package, wherever the file is: Java, Kotlin, Scala, C#, PHP.

An import of a whole package stands for those of its files whose types the importing file mentions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from codequarry.pipelines.modules.resolve.families import (
    ModuleName,
    Repository,
    as_written,
    dotted,
    join,
    nearest,
    parents,
    without_suffix,
)
from codequarry.pipelines.syntax.facts.table import SourceModule
from codequarry.schemas.records import Import

_MEMBERS = 3
"""Most names that may follow a type in an import: nested types and their members."""
_QUOTED = re.compile(r"""(["'])([^"']+)\1""")


class PackageModules:
    """The files of one or more such languages, which share their packages."""

    def __init__(self, repository: Repository, *languages: str) -> None:
        self._modules = repository.of(*languages)
        self._mentioned = repository.mentioned
        self._types: dict[str, set[str]] = {}
        self._packages: dict[str, dict[str, set[str]]] = {}
        for path, module in self._modules.items():
            for name in module.facts.defined:
                self._types.setdefault(name, set()).add(path)
                package, _, own = name.rpartition(".")
                self._packages.setdefault(package, {}).setdefault(own, set()).add(path)

    def name(self, module: SourceModule) -> ModuleName:
        """Return the package with the name of the file, and the package."""
        stem = without_suffix(module.path)
        package = module.facts.package
        if not package:
            name = dotted(stem)
            return ModuleName(name, name.rpartition(".")[0])
        return ModuleName(f"{package}.{stem.rpartition('/')[2]}", package)

    def entries(self, module: SourceModule) -> Iterable[tuple[str, Import]]:
        """Yield one entry for each imported name."""
        return as_written(module)

    def resolve(self, module: SourceModule, imported: Import) -> set[str]:
        """Return the files of the type, of the type that has the member, or of the package."""
        if quoted := _QUOTED.search(imported.source):
            return self._included(module, quoted[2])
        name = imported.source.replace("\\", ".").strip(".")
        for full in (name, *self._relative(module, name)):
            if found := self._resolve_name(module, full):
                return found
        return set()

    def _resolve_name(self, module: SourceModule, name: str) -> set[str]:
        whole = name.removesuffix(".*")
        if whole in self._packages and whole not in self._types:
            own = self._packages[whole]
            mentioned = self._mentioned(module.path) & own.keys()
            return {path for mention in mentioned for path in nearest(own[mention], module.path)}
        for _ in range(1 + _MEMBERS):
            if whole in self._types:
                return nearest(self._types[whole], module.path)
            whole = whole.rpartition(".")[0]
        return set()

    @staticmethod
    def _relative(module: SourceModule, name: str) -> Iterator[str]:
        """Yield names that a Scala import may have relative to the packages around the file."""
        if module.lang == "scala":
            package = module.facts.package
            while package:
                yield f"{package}.{name}"
                package = package.rpartition(".")[0]

    def _included(self, module: SourceModule, path: str) -> set[str]:
        """Return the file that PHP's ``require`` names, relative to the file, its parent folder or the root."""
        wanted = path.lstrip("/")
        places = (join(folder, wanted) for folder in (*parents(module.path)[:2], ""))
        return {next((place for place in places if place and place in self._modules), "")} - {""}

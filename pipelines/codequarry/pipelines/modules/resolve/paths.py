"""Languages whose imports name files by path: C and C++, Ruby, Lua, Zig, Bash; and those without imports of files."""

from __future__ import annotations

import re
from collections.abc import Iterable

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

_LUA_ROOTS = ("lua", "src", "lib")
_EXPANDED = re.compile(r"""^.*[)}]/|^\$\w+/""")


class PathModules:
    """Files that are named by their path; their imports resolve to nothing, unless a subclass says how."""

    def __init__(self, repository: Repository, *languages: str) -> None:
        self._modules = repository.of(*languages)
        self._by_name: dict[str, list[str]] = {}
        for path in self._modules:
            self._by_name.setdefault(path.rpartition("/")[2], []).append(path)

    def name(self, module: SourceModule) -> ModuleName:
        """Return the dotted path."""
        name = dotted(without_suffix(module.path))
        return ModuleName(name, name.rpartition(".")[0])

    def entries(self, module: SourceModule) -> Iterable[tuple[str, Import]]:
        """Yield one entry for each path."""
        return as_written(module)

    def resolve(self, module: SourceModule, imported: Import) -> set[str]:
        """Return no files: imports of these languages, such as targets and schemas, are not files."""
        del module, imported
        return set()

    def _first(self, folders: Iterable[str], path: str) -> set[str]:
        """Return the file that a relative path names from the first matching folder."""
        places = (join(folder, path) for folder in folders)
        return {next((place for place in places if place and place in self._modules), "")} - {""}

    def _ending(self, path: str) -> set[str]:
        """Return files whose path ends with all parts of another."""
        tail = f"/{path}"
        return {each for each in self._by_name.get(path.rpartition("/")[2], ()) if f"/{each}".endswith(tail)}


class CModules(PathModules):
    """C and C++: ``#include``."""

    def resolve(self, module: SourceModule, imported: Import) -> set[str]:
        """Return the header beside the file, else from the root, else the only one with this path at its end.

        With angle brackets only headers below an ``include`` folder count: most such headers are the system's.
        """
        path = imported.source.strip("<>").removeprefix("./")
        if imported.source.startswith("<"):
            return _single(nearest(self._ending(f"include/{path}"), module.path))
        return self._first((parents(module.path)[0], ""), path) or _single(nearest(self._ending(path), module.path))


class RubyModules(PathModules):
    """Ruby: ``require`` from a ``lib`` folder, ``require_relative`` from the file."""

    def name(self, module: SourceModule) -> ModuleName:
        """Return the dotted path below the last ``lib`` folder."""
        whole = dotted(without_suffix(module.path))
        name = f".{whole}".rpartition(".lib.")[2].removeprefix(".")
        return ModuleName(name, name.rpartition(".")[0])

    def resolve(self, module: SourceModule, imported: Import) -> set[str]:
        """Return the file, named with or without its suffix."""
        path = imported.source if imported.source.endswith(".rb") else f"{imported.source}.rb"
        if path.startswith("."):
            return self._first(parents(module.path)[:1], path)
        roots = [f"{folder}/lib" if folder else "lib" for folder in parents(module.path)]
        return self._first([*roots, ""], path) or _single(self._ending(f"lib/{path}"))


class LuaModules(PathModules):
    """Lua: ``require`` with dots, from a source root."""

    def name(self, module: SourceModule) -> ModuleName:
        """Return the dotted path below the last source root; a folder's ``init.lua`` gets the folder's name."""
        name = dotted(without_suffix(module.path))
        for root in _LUA_ROOTS:
            name = f".{name}".rpartition(f".{root}.")[2].removeprefix(".")
        if name.endswith(".init"):
            return ModuleName(name.removesuffix(".init"), name.removesuffix(".init").rpartition(".")[0])
        return ModuleName(name, name.rpartition(".")[0])

    def resolve(self, module: SourceModule, imported: Import) -> set[str]:
        """Return the file, or the ``init.lua`` of the folder.

        They are searched in source roots, then from the repository's root inwards.
        """
        path = imported.source.replace(".", "/")
        above = parents(module.path)
        roots = [join(folder, root) or "" for folder in above for root in _LUA_ROOTS]
        for folder in (*roots, *reversed(above)):
            if found := self._first([folder], f"{path}.lua") or self._first([folder], f"{path}/init.lua"):
                return found
        return _single(self._ending(f"{path}.lua") | self._ending(f"{path}/init.lua"))


class ZigModules(PathModules):
    """Zig: ``@import`` of a file; names that build.zig defines are not paths."""

    def resolve(self, module: SourceModule, imported: Import) -> set[str]:
        """Return the file, relative to the importing one."""
        return self._first(parents(module.path)[:1], imported.source) if imported.source.startswith(".") else set()


class ShellModules(PathModules):
    """Bash: ``source`` and ``.``; parts that are expanded at run time are ignored."""

    def resolve(self, module: SourceModule, imported: Import) -> set[str]:
        """Return the file from the script's folder or one above it, else the only one with this path at its end."""
        path = _EXPANDED.sub("", imported.source.strip("\"'")).removeprefix("./").strip("\"'")
        return self._first(parents(module.path), path) or _single(self._ending(path))


def _single(found: set[str]) -> set[str]:
    """Return a set of one; empty for more, which would be a guess."""
    return found if len(found) == 1 else set()

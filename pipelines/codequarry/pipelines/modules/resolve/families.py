"""Resolution of imports to files and names of files as modules: one family of rules for each kind of language.

A family knows all modules of its languages in one repository. Its answers do not depend on the order of the modules,
and it never fails on odd input: imports without a match stay unresolved.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from codequarry.pipelines.syntax.facts.table import SourceModule
from codequarry.schemas.records import Import

Resolve = Callable[[SourceModule, Import], set[str]]
_MAX_STEPS = 8
"""Most files through which a name may be re-exported."""


class ModuleName(NamedTuple):
    """Name of a file as a module."""

    module: str
    package: str


@dataclass(frozen=True)
class Repository:
    """Input of the families; constant while they resolve."""

    modules: Mapping[str, SourceModule]
    """Source files by path."""
    paths: frozenset[str]
    """Every path of the census, whether or not it is indexed: an empty ``__init__.py`` is not."""
    configs: Callable[[], Mapping[str, bytes]]
    """Returns the contents of go.mod, package.json, tsconfig.json, jsconfig.json and Cargo.toml, by path."""
    mentioned: Callable[[str], frozenset[str]]
    """Identifiers that a file uses without defining them, by path."""

    def of(self, *languages: str) -> dict[str, SourceModule]:
        """Return modules of some languages, by path and in its order."""
        return {path: self.modules[path] for path in sorted(self.modules) if self.modules[path].lang in languages}

    def configs_called(self, *names: str) -> dict[str, bytes]:
        """Return configurations with one of these file names, by folder."""
        return {
            posixpath.dirname(path): data
            for path, data in sorted(self.configs().items())
            if posixpath.basename(path) in names
        }


class Family(Protocol):
    """The rules of one kind of language."""

    def name(self, module: SourceModule) -> ModuleName:
        """Return the name of a file as a module."""
        ...

    def entries(self, module: SourceModule) -> Iterable[tuple[str, Import]]:
        """Yield (text of the ``imports`` column, import to resolve) for all imports of a file."""
        ...

    def resolve(self, module: SourceModule, imported: Import) -> set[str]:
        """Return paths of the imported modules; empty when they are not in this repository."""
        ...


def as_written(module: SourceModule) -> Iterable[tuple[str, Import]]:
    """Yield the entries of languages whose imports need no names beside their source."""
    return ((one.source, one) for one in module.facts.imports)


def parents(path: str) -> list[str]:
    """Return folders that hold a path, the nearest first, the root ("") last.

    >>> parents("a/b/c.py")
    ['a/b', 'a', '']
    """
    parts = path.split("/")[:-1]
    return ["/".join(parts[:count]) for count in range(len(parts), -1, -1)]


def join(folder: str, path: str) -> str | None:
    """Join and normalize a folder and a relative path; None when the result leaves the repository.

    >>> join("a/b", "../c.js"), join("a", "../../c.js")
    ('a/c.js', None)
    """
    joined = posixpath.normpath(posixpath.join(folder, path))
    return None if joined.startswith(("../", "/")) or joined == ".." else "" if joined == "." else joined


def nearest(paths: Iterable[str], path: str) -> set[str]:
    """Return those of some paths that share the most folders with a path."""
    own = path.split("/")[:-1]
    shared: dict[str, int] = {}
    for other in paths:
        theirs = other.split("/")[:-1]
        differs = (at for at, (mine, its) in enumerate(zip(own, theirs, strict=False)) if mine != its)
        shared[other] = next(differs, min(len(own), len(theirs)))
    most = max(shared.values(), default=0)
    return {other for other, count in shared.items() if count == most}


def without_suffix(path: str) -> str:
    """Return a path without the suffix of its file name, and without the ``.d`` of TypeScript declarations.

    >>> without_suffix("a/b.spec.ts"), without_suffix("a/b.d.ts"), without_suffix("bin/.profile")
    ('a/b.spec', 'a/b', 'bin/.profile')
    """
    return posixpath.splitext(path)[0].removesuffix(".d")


def dotted(path: str) -> str:
    """Return a path without suffix as a dotted name."""
    return path.strip("/").replace("/", ".")


def with_origins(
    found: set[str], barrels: set[str], imported: Import, resolve: Resolve, modules: Mapping[str, SourceModule]
) -> set[str]:
    """Return the modules found for an import, and those that define the names which barrels among them re-export.

    Args:
        found: Paths of the modules found.
        barrels: Files that re-export names of others, such as ``__init__`` and ``index``.
        imported: The import.
        resolve: Resolution without origins.
        modules: Modules of the repository by path.

    Returns:
        Paths of all these modules.
    """
    names = [there for there, _ in imported.names if there != "*"]
    return found.union(*(_passed_on(modules[path], name, resolve, modules) for path in barrels for name in names))


def _passed_on(barrel: SourceModule, name: str, resolve: Resolve, modules: Mapping[str, SourceModule]) -> set[str]:
    """Return the modules from which a file re-exports a name; empty when it defines the name itself."""
    found: set[str] = set()
    open_names = [(barrel, name)]
    seen: set[tuple[str, str]] = set()
    for _ in range(_MAX_STEPS):
        following: list[tuple[SourceModule, str]] = []
        for holder, wanted in open_names:
            for target, inner in _origins(holder, wanted, resolve, modules):
                if (target, inner) in seen:
                    continue
                seen.add((target, inner))
                found.add(target)
                following.append((modules[target], inner))
        open_names = following
    return found


def _origins(
    holder: SourceModule, wanted: str, resolve: Resolve, modules: Mapping[str, SourceModule]
) -> Iterable[tuple[str, str]]:
    """Yield (path, name there) for each import of a file that brings in a name."""
    for one in holder.facts.imports:
        for there, here in one.names:
            if here == wanted:
                targets = resolve(holder, Import(one.source, ((there, here),)))
                yield from ((target, there) for target in targets)
            elif here == "*":
                targets = resolve(holder, Import(one.source, (("*", "*"),)))
                yield from ((target, wanted) for target in targets if wanted in modules[target].facts.exports)

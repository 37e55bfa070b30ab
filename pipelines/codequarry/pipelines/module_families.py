"""Which file an import means, and what a file is called as a module: one family of rules for each kind of language.

A family knows all modules of its languages in one repository. It answers for any order in which they are given, and
never fails on odd input: what it cannot place, it does not resolve.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from codequarry.pipelines.module_table import SourceModule
from codequarry.schemas.records import Import

Resolve = Callable[[SourceModule, Import], set[str]]
_MAX_STEPS = 8
"""Files through which a name may be passed on."""


class ModuleName(NamedTuple):
    """What a file is called."""

    module: str
    package: str


@dataclass(frozen=True)
class Repository:
    """What families look at. Not changed while they do."""

    modules: Mapping[str, SourceModule]
    """By path."""
    paths: frozenset[str]
    """Every path of the census, whether or not it is indexed: an empty ``__init__.py`` is not."""
    configs: Mapping[str, bytes]
    """Contents of go.mod, package.json, tsconfig.json, jsconfig.json and Cargo.toml, by path."""
    mentioned: Callable[[str], frozenset[str]]
    """Identifiers that a file uses without defining them, by path."""

    def of(self, *languages: str) -> dict[str, SourceModule]:
        """Modules of some languages, by path and in its order."""
        return {path: self.modules[path] for path in sorted(self.modules) if self.modules[path].lang in languages}

    def named(self, *names: str) -> dict[str, bytes]:
        """Configurations with one of these file names, by folder."""
        return {
            posixpath.dirname(path): data
            for path, data in sorted(self.configs.items())
            if posixpath.basename(path) in names
        }


class Family(Protocol):
    """The rules of one kind of language."""

    def name(self, module: SourceModule) -> ModuleName:
        """What a file is called."""
        ...

    def entries(self, module: SourceModule) -> Iterable[tuple[str, Import]]:
        """(as the ``imports`` column writes it, what to resolve) for all it imports."""
        ...

    def resolve(self, module: SourceModule, imported: Import) -> set[str]:
        """Paths of the modules it names; empty when it is not of this repository."""
        ...


def as_written(module: SourceModule) -> Iterable[tuple[str, Import]]:
    """The entries of languages whose imports need no names beside their source."""
    return ((one.source, one) for one in module.facts.imports)


def parents(path: str) -> list[str]:
    """Folders that hold a path, the nearest first, the root ("") last.

    >>> parents("a/b/c.py")
    ['a/b', 'a', '']
    """
    parts = path.split("/")[:-1]
    return ["/".join(parts[:count]) for count in range(len(parts), -1, -1)]


def join(folder: str, path: str) -> str | None:
    """A relative path from a folder, normalized; None when it leaves the repository.

    >>> join("a/b", "../c.js"), join("a", "../../c.js")
    ('a/c.js', None)
    """
    joined = posixpath.normpath(posixpath.join(folder, path))
    return None if joined.startswith(("../", "/")) or joined == ".." else "" if joined == "." else joined


def nearest(paths: Iterable[str], path: str) -> set[str]:
    """Those of some paths that share the most folders with a path."""
    own = path.split("/")[:-1]
    shared: dict[str, int] = {}
    for other in paths:
        theirs = other.split("/")[:-1]
        differs = (at for at, (mine, its) in enumerate(zip(own, theirs, strict=False)) if mine != its)
        shared[other] = next(differs, min(len(own), len(theirs)))
    most = max(shared.values(), default=0)
    return {other for other, count in shared.items() if count == most}


def without_suffix(path: str) -> str:
    """A path without the suffix of its file name, nor the ``.d`` of TypeScript declarations.

    >>> without_suffix("a/b.spec.ts"), without_suffix("a/b.d.ts"), without_suffix("bin/.profile")
    ('a/b.spec', 'a/b', 'bin/.profile')
    """
    return posixpath.splitext(path)[0].removesuffix(".d")


def dotted(path: str) -> str:
    """A path without suffix as a dotted name."""
    return path.strip("/").replace("/", ".")


def with_origins(
    found: set[str], barrels: set[str], imported: Import, resolve: Resolve, modules: Mapping[str, SourceModule]
) -> set[str]:
    """Modules found for an import, and those from which the barrels among them have the names taken.

    barrels: files that collect what others define, such as ``__init__`` and ``index``. resolve: without origins.
    """
    names = [there for there, _ in imported.names if there != "*"]
    return found.union(*(_passed_on(modules[path], name, resolve, modules) for path in barrels for name in names))


def _passed_on(barrel: SourceModule, name: str, resolve: Resolve, modules: Mapping[str, SourceModule]) -> set[str]:
    """The modules from which a file has a name; empty when it is its own."""
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
    """(path, name there) of what a name of a file is imported from."""
    for one in holder.facts.imports:
        for there, here in one.names:
            if here == wanted:
                targets = resolve(holder, Import(one.source, ((there, here),)))
                yield from ((target, there) for target in targets)
            elif here == "*":
                targets = resolve(holder, Import(one.source, (("*", "*"),)))
                yield from ((target, wanted) for target in targets if wanted in modules[target].facts.exports)

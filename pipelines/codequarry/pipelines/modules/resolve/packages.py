"""Languages whose imports name what a file declares, wherever it is: types by package, or modules.

Java, Kotlin, Scala, C# and PHP import types. An import of a whole package stands for those of its files whose types the
importing file mentions. Elixir and Haskell import modules.
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


_THIS = "__MODULE__"


class NamedModules:
    """The files of one such language by the modules they declare."""

    def __init__(self, repository: Repository, language: str) -> None:
        self._mentioned = repository.mentioned
        self._declared: dict[str, set[str]] = {}
        self._below: dict[str, set[str]] = {}
        """Last parts of the module names directly below a name."""
        for path, module in repository.of(language).items():
            for name in module.facts.defined:
                self._declared.setdefault(name, set()).add(path)
                above, _, last = name.rpartition(".")
                self._below.setdefault(above, set()).add(last)

    def name(self, module: SourceModule) -> ModuleName:
        """Return the module that the file is named after, else the first that it declares, else its dotted path."""
        stem = without_suffix(module.path)
        wanted = stem.rpartition("/")[2].replace("_", "").casefold()
        namesakes = (name for name in module.facts.defined if name.rpartition(".")[2].casefold() == wanted)
        name = next(namesakes, module.facts.package) or dotted(stem)
        return ModuleName(name, name.rpartition(".")[0])

    def entries(self, module: SourceModule) -> Iterable[tuple[str, Import]]:
        """Yield one entry for each imported module."""
        return as_written(module)

    def resolve(self, module: SourceModule, imported: Import) -> set[str]:
        """Return the files that declare the module.

        For a name that is only a prefix of modules, these are the files of modules that the importing file mentions.
        """
        for name in self._meant(module, imported.source):
            if name in self._declared:
                return nearest(self._declared[name], module.path)
            if name and name in self._below:
                mentioned = self._below[name] & self._mentioned(module.path)
                return {path for last in mentioned for path in nearest(self._declared[f"{name}.{last}"], module.path)}
        return set()

    @staticmethod
    def _meant(module: SourceModule, written: str) -> Iterator[str]:
        """Yield the name as written, and with an Elixir alias at its head expanded."""
        head, dot, rest = written.partition(".")
        if head == _THIS:
            yield f"{module.facts.package}{dot}{rest}"
            return
        yield written
        for other in module.facts.imports if module.lang == "elixir" else ():
            if other.source.endswith(f".{head}") and other.source != written:
                yield f"{other.source}{dot}{rest}"

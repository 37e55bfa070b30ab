"""Languages whose imports name modules by a name that the file itself declares: Elixir and Haskell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from codequarry.pipelines.modules.resolve.families import (
    ModuleName,
    Repository,
    as_written,
    dotted,
    nearest,
    without_suffix,
)
from codequarry.pipelines.syntax.facts.table import SourceModule
from codequarry.schemas.records import Import

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

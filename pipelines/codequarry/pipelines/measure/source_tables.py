"""Outputs of a repository's snapshot and chunk stages, as mining reads them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from codequarry.pipelines.sources.path_classes import SOURCE, path_class
from codequarry.pipelines.sources.snapshot import Snapshot, read_contents
from codequarry.pipelines.store.workspace import RepositoryWork
from codequarry.schemas.bundle.tables import read_table
from codequarry.schemas.languages import MODULE_LANGUAGES


class Node(NamedTuple):
    """A definition in ``ast_nodes``."""

    path: str
    qualified_name: str
    name: str
    kind: str
    start_byte: int
    start_line: int
    end_line: int
    name_start_line: int
    doc: str

    @property
    def is_function(self) -> bool:
        return self.kind in ("function", "method")


@dataclass(frozen=True)
class Mined:
    """A repository whose snapshot and chunk stages have run."""

    name: str
    snapshot: Snapshot
    work: RepositoryWork

    @cached_property
    def languages(self) -> dict[str, str]:
        """Language of every indexed file by its path, in the order of the paths."""
        return {path: lang for path, lang, _ in self.contents()}

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """The definitions of all files, by path and place."""
        tables = [read_table(file, list(Node._fields)) for file in self.work.tables("ast_nodes")]
        rows = [Node(**row) for table in tables for row in table.to_pylist()]
        return tuple(sorted(rows, key=lambda node: (node.path, node.start_byte, -node.end_line, node.qualified_name)))

    def contents(self) -> Iterator[tuple[str, str, bytes]]:
        """Yield (path, language, bytes) of every indexed file."""
        return read_contents(self.work)

    def is_source(self, path: str) -> bool:
        """Return whether a path is code that somebody looks for: no test, example, documentation or generated file."""
        return self.languages.get(path) in MODULE_LANGUAGES and path_class(path) == SOURCE

"""Catalog of a delta version and its base."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import numpy as np

from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.serving.catalog.catalog import Catalog, DefinitionSpan, FileFacts
from codequarry.serving.catalog.texts import MappedTexts
from codequarry.serving.stack.overlay import StackArrays, VersionArrays
from codequarry.serving.stack.own_tables import OwnTables
from codequarry.serving.stack.stacked_directory import StackedDirectory, stacked_directory
from codequarry.serving.stack.stacked_rows import StackedRows
from codequarry.serving.stack.stacked_texts import StackedTexts


class StackedCatalog(Catalog):
    """Catalog of a stack. Safe to share between threads.

    It has no database of its own. SQL reads the tables of the base, on the base's connection, and sees nothing of the
    delta; `own` has the delta's tables.
    """

    def __init__(self, base: Catalog, texts: StackedTexts, stack: StackArrays, own: OwnTables) -> None:
        """Put a delta over the catalog of its base.

        Args:
            base: Catalog of the base; it stays the base's.
            texts: Texts of both.
            stack: How the delta lies over the base.
            own: Tables of the delta.
        """
        super().__init__(base._connection, texts, StackedRows(stack, base.stored_texts.shards))
        self.stack, self.own = stack, own

    @classmethod
    def open_stack(cls, base: Catalog, arrays: VersionArrays, paths: BundlePaths) -> StackedCatalog:
        """Open the catalog and texts of a delta version over those of its base.

        Args:
            base: Catalog of the base, which has to stay open.
            arrays: Arrays of the base.
            paths: Paths of the delta version.

        Returns:
            The open catalog.

        Raises:
            IntegrityError: The delta's catalog or an array of its stack is damaged, or belongs to other versions.
        """
        with closing(Catalog.open(paths)) as own:
            stack = StackArrays.open(paths.stack, arrays, own)
            tables = OwnTables.read(own, stack)
        return cls(base, StackedTexts(base.stored_texts, MappedTexts.open(paths)), stack, tables)

    def directory(self) -> StackedDirectory:
        """Return the directory of both versions."""
        assert isinstance(self.index, StackedRows)
        return stacked_directory(self.stack, self.index)

    def definitions_in(self, chunk_ids: Sequence[int]) -> dict[int, list[DefinitionSpan]]:
        """Return definitions by chunk, see `Catalog`."""
        stack, index, columns = self.stack, self.index, self.own.definitions
        rows = dict(zip(chunk_ids, index.rows_of(chunk_ids).tolist(), strict=True))
        spans = super().definitions_in([one for one, row in rows.items() if 0 <= row < stack.base.chunks])
        lying = stack.own.rows.column("chunk", np.arange(stack.own.definitions))
        for chunk_id, row in rows.items():
            if row >= stack.base.chunks:
                numbers = (stack.base.definitions + np.flatnonzero(lying == row - stack.base.chunks)).tolist()
                found = [
                    DefinitionSpan(index.texts[index.column("qualified_name", number)], *lines)
                    for number in numbers
                    if index.texts[index.column("kind", number)] != "module"
                    for at in [number - stack.base.definitions]
                    for lines in [(int(columns["body_start_line"][at]), int(columns["body_end_line"][at]))]
                ]
                if found:
                    spans[chunk_id] = sorted(found, key=lambda span: span.start_line)
        return spans

    def skip_reason(self, file: int) -> str:
        """Return why a file was left out, see `Catalog`."""
        first = self.stack.base.files
        return super().skip_reason(file) if file < first else self.own.files[file - first][1]

    def facts_of_files(self, uris: Sequence[str] | None) -> dict[int, FileFacts]:
        """Return facts of files, see `Catalog`."""
        hidden, first = self.stack.hidden_files, self.stack.base.files
        wanted = None if uris is None else set(uris)
        found = {file: facts for file, facts in super().facts_of_files(uris).items() if not hidden[file]}
        return found | {
            first + at: facts
            for at, (facts, reason) in enumerate(self.own.files)
            if not reason and (wanted is None or facts.uri in wanted)
        }

    def defining(self, names: Sequence[str]) -> np.ndarray:
        """Return ids of chunks by symbol, see `Catalog`."""
        stack, rows = self.stack, self.stack.own.rows
        gone = stack.base.directory.by_row[stack.hidden_rows]
        held = np.setdiff1d(super().defining(names), gone)
        ends, lines = tuple(f".{name}" for name in names), [f".{name}\n" for name in names]
        own: list[int] = []
        for row in range(len(rows.chunks)):
            chunk = rows.numbers(row)
            module = rows.texts[chunk["module"]]
            prefix = f".{module}." if module else "."
            starting = "".join(f"{prefix}{name}\n" for name in rows.symbols_of(row))
            full = prefix + rows.texts[chunk["qualified_name"]]
            if full.endswith(ends) or any(line in starting for line in lines):
                own.append(chunk["chunk_id"])
        return np.union1d(held, np.array(own, np.int64))

    def close(self) -> None:
        """Close the text files of the delta."""
        self.stored_texts.close()

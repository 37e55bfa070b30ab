"""Arrays of chunks and definitions by number, for searches; a query to DuckDB would scan the tables.

Arrays in ``rows/`` of a version, memory-mapped by the reader. Chunks are numbered as the rows of ``chunks_mat``,
definitions as those of ``symbols_mat``: by name in lower case, then the best first.

==================== ============================================================================================
strings.npy          (b,) uint8: every string that the others name by its number, sorted, in UTF-8
string_starts.npy    (s + 1,) int64: string i is from ``string_starts[i]`` to ``string_starts[i + 1]``
ids.npy              (n,) int64: ids of the chunks, ascending
ids_rows.npy         (n,) int32: the row of each
chunks.npy           (n,) of the fields of `CHUNK`
symbols.npy          (m,) int32: names of the definitions that start in each chunk
symbol_starts.npy    (n + 1,) int64: those of row i are from ``symbol_starts[i]`` to ``symbol_starts[i + 1]``
definitions.npy      (7, d) int32: a line for each of `DEFINITION`
started.npy          (d,) int32: the definitions by the chunk they start in
started_starts.npy   (n + 1,) int64: those of row i are from ``started_starts[i]`` to ``started_starts[i + 1]``
backwards.npy        (f,) int32: names of definitions by their last letters, by which misspelt ones are found
==================== ============================================================================================
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# DuckDB's stubs leave the type of a masked column open.

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from codequarry.schemas.catalog.symbol_views import CLASS_RANK
from codequarry.schemas.errors import IntegrityError
from codequarry.serving.files.arrays import map_array
from codequarry.serving.text.typos import by_last_letters, near_numbers

if TYPE_CHECKING:
    import duckdb

TEXTS = ("repo", "path", "lang", "kind", "qualified_name", "module")
"""Fields of a chunk that are stored as numbers of strings."""
_NUMBERS = {
    **dict.fromkeys(("chunk_id", "start_byte", "end_byte", "text_start"), np.int64),
    **dict.fromkeys(("start_line", "end_line", "text_bytes", "shard"), np.int32),
    **dict.fromkeys(("scip", "cst"), np.bool_),
}
CHUNK = np.dtype([*((name, np.int32) for name in TEXTS), *_NUMBERS.items()])
DEFINITION = ("key", "name", "qualified_name", "module", "kind", "class_rank", "chunk")
"""Four names (the key is the one in lower case), a kind, a place among path classes, and a row."""
_NAMES = DEFINITION[:5]
_CHUNK_OF = DEFINITION.index("chunk")
_DEFINITIONS = f"""
SELECT name_key AS key, name, qualified_name, module, kind, {CLASS_RANK} AS class_rank, chunk_id
FROM symbols_mat ORDER BY symbol_id
"""


class Strings(Sequence[str]):
    """Sorted strings in one array of bytes."""

    def __init__(self, data: np.ndarray, starts: np.ndarray) -> None:
        """Use arrays of encoded strings.

        Args:
            data: (b,) uint8: the strings in UTF-8, one after another.
            starts: (s + 1,) int64: string i is from ``starts[i]`` to ``starts[i + 1]``.
        """
        self.data, self.starts = data, starts

    @classmethod
    def of(cls, found: Iterable[str]) -> Self:
        """Encode the distinct strings among these."""
        encoded = [text.encode() for text in sorted(set(found))]
        starts = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        return cls(np.frombuffer(b"".join(encoded), np.uint8), starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, number: Any) -> Any:
        start, end = self.starts[number], self.starts[number + 1]
        return self.data[start:end].tobytes().decode("utf-8", "replace")

    def find(self, text: str) -> int:
        """Return the number of a string; -1 when it is unknown."""
        at = bisect_left(self, text)
        return at if at < len(self) and self[at] == text else -1


@dataclass(frozen=True)
class RowIndex:
    """Arrays described in the module docstring."""

    strings: np.ndarray
    string_starts: np.ndarray
    ids: np.ndarray
    ids_rows: np.ndarray
    chunks: np.ndarray
    symbols: np.ndarray
    symbol_starts: np.ndarray
    definitions: np.ndarray
    started: np.ndarray
    started_starts: np.ndarray
    backwards: np.ndarray

    @classmethod
    def build(cls, connection: duckdb.DuckDBPyConnection) -> Self:
        """Build the index of an open catalog."""
        # Results are in the order of the rows.
        stored = [name for name in CHUNK.names or () if name != "text_start"]
        chunks: dict[str, Any] = connection.execute(f"SELECT symbols, {', '.join(stored)} FROM chunks_mat").fetchnumpy()
        chunks["text_start"] = _text_starts(chunks["shard"], chunks["text_bytes"].astype(np.int64))
        definitions: dict[str, Any] = connection.execute(_DEFINITIONS).fetchnumpy()
        symbols: list[str] = [name for names in chunks["symbols"] for name in names]
        names: list[Sequence[str]] = [
            *(chunks[name] for name in TEXTS),
            symbols,
            *(definitions[name] for name in _NAMES),
        ]
        strings = Strings.of(text for column in names for text in column)
        number = {text: at for at, text in enumerate(strings)}

        def numbers(column: Sequence[str]) -> np.ndarray:
            return np.fromiter((number[text] for text in column), np.int32, len(column))

        ids = np.ascontiguousarray(chunks["chunk_id"], np.int64)
        order = np.argsort(ids)
        records = np.zeros(len(ids), CHUNK)
        for name in CHUNK.names or ():
            records[name] = numbers(chunks[name]) if name in TEXTS else chunks[name]
        of = order[np.searchsorted(ids[order], definitions["chunk_id"].astype(np.int64))]
        rows = [*(numbers(definitions[name]) for name in _NAMES), definitions["class_rank"], of]
        return cls(
            strings.data,
            strings.starts,
            ids[order],
            order.astype(np.int32),
            records,
            numbers(symbols),
            np.cumsum([0, *map(len, chunks["symbols"])], dtype=np.int64),
            np.array(rows, np.int32).reshape(len(DEFINITION), -1),
            np.argsort(of, kind="stable").astype(np.int32),
            np.searchsorted(np.sort(of), np.arange(len(ids) + 1)).astype(np.int64),
            by_last_letters({strings[key]: key for key in np.unique(rows[0]).tolist()}),
        )

    def write(self, folder: Path) -> None:
        """Write the files; equal catalogs give equal bytes."""
        folder.mkdir()
        for each in fields(self):
            np.save(folder / f"{each.name}.npy", getattr(self, each.name), allow_pickle=False)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Map a version's index.

        Args:
            folder: Folder ``rows/`` of the version.

        Returns:
            The mapped index.

        Raises:
            IntegrityError: The index is damaged or missing.
        """
        try:
            found = cls(*(map_array(folder / f"{each.name}.npy") for each in fields(cls)))
            whole = found._is_whole()
        except (OSError, IntegrityError) as error:
            raise _damaged(folder) from error
        if not whole:
            raise _damaged(folder)
        return found

    def _is_whole(self) -> bool:
        """Check that every array has its dtype and shape, and that every number is in range."""
        chunks, strings = len(self.ids), len(self.string_starts) - 1
        kinds = (
            np.uint8, np.int64, np.int64, np.int32, CHUNK, np.int32, np.int64, np.int32, np.int32, np.int64, np.int32,
        )  # fmt: skip
        return (
            all(getattr(self, each.name).dtype == kind for each, kind in zip(fields(self), kinds, strict=True))
            and all(getattr(self, each.name).ndim == 1 for each in fields(self) if each.name != "definitions")
            and self.ids_rows.shape == self.chunks.shape == (chunks,)
            and self.definitions.shape == (len(DEFINITION), len(self.started))
            and divides(self.string_starts, len(self.strings), strings)
            and divides(self.symbol_starts, len(self.symbols), chunks)
            and divides(self.started_starts, len(self.started), chunks)
            and _below(self.ids_rows, chunks)
            and all(_below(self.chunks[name], strings) for name in TEXTS)
            and _below(self.symbols, strings)
            and _below(self.definitions[: len(_NAMES)], strings)
            and _below(self.definitions[_CHUNK_OF], chunks)
            and _below(self.started, len(self.started))
            and _below(self.backwards, strings)
        )

    @cached_property
    def texts(self) -> Strings:
        """Strings that the numbers name."""
        return Strings(self.strings, self.string_starts)

    def rows_of(self, chunk_ids: Sequence[int] | np.ndarray) -> np.ndarray:
        """Return the rows of chunks, -1 for unknown ids: (m,) int64."""
        wanted = np.asarray(chunk_ids, np.int64)
        if not len(self.ids):
            return np.full(len(wanted), -1)
        at = np.minimum(np.searchsorted(self.ids, wanted), len(self.ids) - 1)
        return np.where(self.ids[at] == wanted, self.ids_rows[at], -1).astype(np.int64)

    def rows_of_file(self, repo: str, path: str) -> range:
        """Return the rows of a file's chunks, which lie one behind the other."""
        # Strings are numbered in their order, and chunks lie in that of repository and path.
        wanted = self.texts.find(repo), self.texts.find(path)
        repos, paths = self.chunks["repo"], self.chunks["path"]
        every = range(len(self.chunks))

        def place(row: int) -> tuple[int, int]:
            return repos[row], paths[row]

        return range(bisect_left(every, wanted, key=place), bisect_right(every, wanted, key=place))

    def numbers(self, row: int) -> dict[str, int]:
        """Return the stored fields of a chunk; strings are given by number."""
        return dict(zip(CHUNK.names or (), self.chunks[row].item(), strict=True))

    def chunk(self, row: int) -> dict[str, Any]:
        """Return the fields of a chunk with decoded strings, and its ``symbols``."""
        found = self.numbers(row)
        start, end = self.symbol_starts[row : row + 2].tolist()
        symbols = [self.texts[number] for number in self.symbols[start:end].tolist()]
        return found | {name: self.texts[found[name]] for name in TEXTS} | {"symbols": symbols}

    def column(self, name: str, definitions: Any) -> Any:
        """Return one field of some definitions, or of one.

        Args:
            name: One of `DEFINITION`.
            definitions: (m,) int32, or a number.

        Returns:
            (m,) int32, or a number.
        """
        return self.definitions[DEFINITION.index(name)][definitions]

    def rows_of_kinds(self, kinds: Iterable[str]) -> np.ndarray:
        """Return the rows of chunks of one of these kinds, or in which a definition of one starts: (m,) int64."""
        numbers = [number for kind in kinds if (number := self.texts.find(kind)) >= 0]
        among = np.isin(self.chunks["kind"], numbers)
        defined = np.isin(self.definitions[DEFINITION.index("kind")], numbers)
        among[self.definitions[_CHUNK_OF][defined]] = True
        return np.flatnonzero(among)

    def definitions_named(self, keys: Iterable[str]) -> np.ndarray:
        """Return the definitions with one of these names.

        Args:
            keys: Names in lower case.

        Returns:
            (m,) int32, ascending.
        """
        known = np.array(sorted({at for key in keys if (at := self.texts.find(key)) >= 0}), np.int32)
        starts, ends = (np.searchsorted(self.definitions[0], known, side) for side in ("left", "right"))
        found = [np.arange(start, end, dtype=np.int32) for start, end in zip(starts, ends, strict=True)]
        return np.concatenate([np.empty(0, np.int32), *found])

    def near_names(self, key: str) -> list[str]:
        """Return other names of definitions that are one typo away from this one, all in lower case."""
        found = near_numbers(key, self.texts, self.string_starts, self.definitions[0], self.backwards)
        return [self.texts[number] for number in found]

    def definitions_of_row(self, row: int) -> np.ndarray:
        """Return the definitions that start in the chunk of a row: (m,) int32."""
        start, end = self.started_starts[row : row + 2].tolist()
        return self.started[start:end]

    def definitions_in(self, chunk_ids: Sequence[int] | np.ndarray) -> np.ndarray:
        """Return the definitions that start in these chunks, chunk by chunk: (m,) int32."""
        rows = self.rows_of(chunk_ids)
        rows = rows[rows >= 0]
        return np.concatenate([np.empty(0, np.int32), *map(self.definitions_of_row, rows.tolist())])


def _text_starts(shards: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return where the texts begin that lie one behind the other in their shards.

    Args:
        shards: (n,) shard of each text.
        sizes: (n,) int64 size of each text.

    Returns:
        (n,) int64.
    """
    starts = np.zeros_like(sizes)
    for shard in np.unique(shards):
        own = np.flatnonzero(shards == shard)
        starts[own] = np.cumsum(sizes[own]) - sizes[own]
    return starts


def divides(starts: np.ndarray, total: int, count: int) -> bool:
    """Check that these are the bounds of ``count`` runs of ``total``."""
    return (
        starts.shape == (count + 1,) and starts[0] == 0 and starts[-1] == total and bool((np.diff(starts) >= 0).all())
    )


def _below(numbers: np.ndarray, count: int) -> bool:
    """Check that all int32 numbers are from 0 to count - 1."""
    # Unsigned, negative numbers are the largest: one pass instead of two.
    return not numbers.size or int(numbers.view(np.uint32).max()) < count


def _damaged(folder: Path) -> IntegrityError:
    return IntegrityError(
        f"{folder.name}/ of {folder.parent.name} is damaged", suggestion="do not serve this version; publish again"
    )

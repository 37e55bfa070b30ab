"""Arrays of chunks and definitions by number, for searches; a query to DuckDB would scan the tables.

Arrays in ``rows/`` of a version, memory-mapped by the reader. Chunks are numbered as the rows of ``chunks_mat``,
definitions as those of ``symbols_mat``: what shapes chunks (structure) before members, each by name in lower case,
then the best first. Ranking reads structure alone, and so do look-ups that do not ask for members. A number is uint16
where all of its array are below 65,535, else int32; a start is int32 where all are below 2,147,483,647, else int64.

==================== ============================================================================================
strings.npy          (b,) uint8: every string that the others name by its number, sorted, in UTF-8
string_starts.npy    (s + 1,) starts: string i is from ``string_starts[i]`` to ``string_starts[i + 1]``
ids_rows.npy         (n,) numbers: rows of the chunks by ascending id
chunks.npy           (n,) of the fields of `CHUNK`
symbols.npy          (m,) numbers: names of the definitions that start in each chunk
symbol_starts.npy    (n + 1,) starts: those of row i are from ``symbol_starts[i]`` to ``symbol_starts[i + 1]``
definitions.npy      (7, d) numbers: a line for each of `DEFINITION`
started.npy          (e,) numbers: the structure, definitions 0 to e - 1, by the chunk it starts in
started_starts.npy   (n + 1,) starts: those of row i are from ``started_starts[i]`` to ``started_starts[i + 1]``
backwards.npy        (f,) numbers: names of the structure by their last letters, by which misspelt ones are found
==================== ============================================================================================
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# DuckDB's stubs leave the type of a masked column open.

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from codequarry.schemas.catalog.symbol_views import CLASS_RANK
from codequarry.schemas.errors import IntegrityError
from codequarry.serving.files.arrays import NUMBERS, PLACES, map_array, narrow
from codequarry.serving.text.typos import by_last_letters, near_numbers

if TYPE_CHECKING:
    import duckdb

TEXTS = ("repo", "path", "lang", "kind", "qualified_name", "module")
"""Fields of a chunk that are stored as numbers of strings."""
CHUNK: dict[str, tuple[np.dtype[Any], ...]] = {
    "chunk_id": (np.dtype(np.int64),),
    **dict.fromkeys(TEXTS, NUMBERS),
    **dict.fromkeys(("start_byte", "end_byte", "text_start"), PLACES),
    **dict.fromkeys(("start_line", "end_line", "text_bytes", "shard", "comment_percent"), NUMBERS),
    **dict.fromkeys(("scip", "cst"), (np.dtype(np.bool_),)),
}
"""Fields of a chunk and the types each may have."""
DEFINITION = ("key", "name", "qualified_name", "module", "kind", "class_rank", "chunk")
"""Four names (the key is the one in lower case), a kind, a place among path classes, and a row."""
STRINGS_OF_DEFINITION = DEFINITION[:5]
"""Fields of a definition that are numbers of strings."""
_CHUNK_OF = DEFINITION.index("chunk")


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
        """Encode sorted strings."""
        encoded = [text.encode() for text in found]
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


class ChunkRows(ABC):
    """Chunks and definitions by number, from the arrays of a version or of several."""

    chunks: Any
    """(n,) of the fields of `CHUNK`, by field, row, slice or ascending rows."""
    ids_rows: np.ndarray
    """Rows of the chunks by ascending id; a row that does not count is left out."""

    @property
    @abstractmethod
    def texts(self) -> Strings:
        """Strings that the numbers name."""

    @cached_property
    def ids(self) -> np.ndarray:
        """Ids of the chunks, ascending: (m,) int64."""
        return self.chunks["chunk_id"][self.ids_rows]

    def rows_of(self, chunk_ids: Sequence[int] | np.ndarray) -> np.ndarray:
        """Return the rows of chunks, -1 for unknown ids: (m,) int64."""
        wanted = np.asarray(chunk_ids, np.int64)
        if not len(self.ids):
            return np.full(len(wanted), -1)
        at = np.minimum(np.searchsorted(self.ids, wanted), len(self.ids) - 1)
        return np.where(self.ids[at] == wanted, self.ids_rows[at].astype(np.int64), -1)

    def numbers(self, row: int) -> dict[str, int]:
        """Return the stored fields of a chunk; strings are given by number."""
        return dict(zip(CHUNK, self.chunks[row].item(), strict=True))

    def chunk(self, row: int) -> dict[str, Any]:
        """Return the fields of a chunk with decoded strings, and its ``symbols``."""
        found = self.numbers(row)
        return found | {name: self.texts[found[name]] for name in TEXTS} | {"symbols": self.symbols_of(row)}

    def definitions_in(self, chunk_ids: Sequence[int] | np.ndarray) -> np.ndarray:
        """Return the definitions that start in these chunks, chunk by chunk: (m,) int32."""
        rows = self.rows_of(chunk_ids)
        rows = rows[rows >= 0]
        return np.concatenate([np.empty(0, np.int32), *map(self.definitions_of_row, rows.tolist())])

    @abstractmethod
    def symbols_of(self, row: int) -> list[str]:
        """Return the names of the definitions that start in the chunk of a row."""

    @abstractmethod
    def rows_of_file(self, repo: str, path: str) -> range:
        """Return the rows of a file's chunks, which lie one behind the other."""

    @abstractmethod
    def column(self, name: str, definitions: Any) -> Any:
        """Return one field of some definitions, or of one.

        Args:
            name: One of `DEFINITION`.
            definitions: (m,) int32, or a number.

        Returns:
            (m,) int32, or a number.
        """

    @abstractmethod
    def rows_of_kinds(self, kinds: Iterable[str]) -> np.ndarray:
        """Return the rows of chunks of one of these kinds, or in which a definition of one starts: (m,) int64."""

    @abstractmethod
    def definitions_named(self, keys: Iterable[str], *, members: bool = False) -> np.ndarray:
        """Return the definitions with one of these names.

        Args:
            keys: Names in lower case.
            members: Also those that shape no chunk.

        Returns:
            (m,) int32, ascending.
        """

    @abstractmethod
    def near_names(self, key: str) -> list[str]:
        """Return other names of definitions that are one typo away from this one, all in lower case and sorted."""

    @abstractmethod
    def names_holding(self, part: str) -> list[str]:
        """Return the names of definitions that hold some letters, all in lower case and sorted.

        The bytes of all names are read, a megabyte in less than a millisecond.
        """

    @abstractmethod
    def definitions_of_row(self, row: int) -> np.ndarray:
        """Return the structure that starts in the chunk of a row: (m,) int32."""


@dataclass(frozen=True)
class RowIndex(ChunkRows):
    """Arrays described in the module docstring, of one version."""

    strings: np.ndarray
    string_starts: np.ndarray
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
        """Build the index of an open catalog, with one column of strings in memory at a time."""
        known: dict[str, int] = {}

        def read_column(table: str, expression: str) -> Any:
            """Return a column in the order of the rows."""
            return connection.execute(f"SELECT {expression} AS value FROM {table}").fetchnumpy()["value"]

        def number_strings(table: str, expression: str) -> np.ndarray:
            """Return the strings of a column by the order in which they were met."""
            column = read_column(table, expression)
            return np.fromiter((known.setdefault(text, len(known)) for text in column), np.int32, len(column))

        ids = read_column("chunks_mat", "chunk_id").astype(np.int64)
        order = np.argsort(ids)
        columns = {
            name: number_strings("chunks_mat", name) if name in TEXTS else read_column("chunks_mat", name)
            for name in CHUNK
            if name != "text_start"
        }
        columns["text_start"] = _text_starts(columns["shard"], columns["text_bytes"].astype(np.int64))
        symbols = number_strings("chunks_mat", "unnest(symbols)")
        names = [number_strings("symbols_mat", column) for column in ("name_key", *STRINGS_OF_DEFINITION[1:])]
        ordered = sorted(known)
        strings = Strings.of(ordered)
        number = np.empty(len(ordered), np.int32)
        number[[known.pop(text) for text in ordered]] = np.arange(len(ordered))
        columns |= {name: number[columns[name]] for name in TEXTS}
        narrowed = {name: narrow(columns[name], CHUNK[name]) for name in CHUNK}
        records = np.zeros(len(ids), [(name, column.dtype) for name, column in narrowed.items()])
        for name, column in narrowed.items():
            records[name] = column
        of = order[np.searchsorted(ids[order], read_column("symbols_mat", "chunk_id").astype(np.int64))]
        rows = [*(number[column] for column in names), read_column("symbols_mat", CLASS_RANK), of]
        structural = int(read_column("symbols_mat", "structural").sum())
        started = of[:structural]
        return cls(
            strings.data,
            narrow(strings.starts, PLACES),
            narrow(order, NUMBERS),
            records,
            narrow(number[symbols], NUMBERS),
            narrow(np.cumsum([0, *read_column("chunks_mat", "len(symbols)")], dtype=np.int64), PLACES),
            narrow(np.array(rows, np.int64).reshape(len(DEFINITION), -1), NUMBERS),
            narrow(np.argsort(started, kind="stable"), NUMBERS),
            narrow(np.searchsorted(np.sort(started), np.arange(len(ids) + 1)), PLACES),
            narrow(by_last_letters({ordered[key]: key for key in np.unique(rows[0][:structural]).tolist()}), NUMBERS),
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
        chunks, strings = len(self.chunks), len(self.string_starts) - 1
        starts = (self.string_starts, self.symbol_starts, self.started_starts)
        numbers = (self.ids_rows, self.symbols, self.definitions, self.started, self.backwards)
        return (
            self.strings.dtype == np.uint8
            and all(one.dtype in PLACES for one in starts)
            and all(one.dtype in NUMBERS for one in numbers)
            and self.chunks.dtype.names == tuple(CHUNK)
            and all(self.chunks.dtype[name] in kinds for name, kinds in CHUNK.items())
            and all(getattr(self, each.name).ndim == 1 for each in fields(self) if each.name != "definitions")
            and self.ids_rows.shape == self.chunks.shape == (chunks,)
            and self.definitions.ndim == 2
            and self.definitions.shape[0] == len(DEFINITION)
            and self.definitions.shape[1] >= len(self.started)
            and divides(self.string_starts, len(self.strings), strings)
            and divides(self.symbol_starts, len(self.symbols), chunks)
            and divides(self.started_starts, len(self.started), chunks)
            and _below(self.ids_rows, chunks)
            and all(_below(self.chunks[name], strings) for name in TEXTS)
            and _below(self.symbols, strings)
            and _below(self.definitions[: len(STRINGS_OF_DEFINITION)], strings)
            and _below(self.definitions[_CHUNK_OF], chunks)
            and _below(self.started, len(self.started))
            and _below(self.backwards, strings)
        )

    @cached_property
    def texts(self) -> Strings:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Strings that the numbers name."""
        return Strings(self.strings, self.string_starts)

    def rows_of_file(self, repo: str, path: str) -> range:
        """Return the rows of a file's chunks, see `ChunkRows`."""
        # Strings are numbered in their order, and chunks lie in that of repository and path.
        wanted = self.texts.find(repo), self.texts.find(path)
        repos, paths = self.chunks["repo"], self.chunks["path"]
        every = range(len(self.chunks))

        def place(row: int) -> tuple[int, int]:
            return repos[row], paths[row]

        return range(bisect_left(every, wanted, key=place), bisect_right(every, wanted, key=place))

    def symbols_of(self, row: int) -> list[str]:
        """Return names of definitions, see `ChunkRows`."""
        start, end = self.symbol_starts[row : row + 2].tolist()
        return [self.texts[number] for number in self.symbols[start:end].tolist()]

    def column(self, name: str, definitions: Any) -> Any:
        """Return a field of definitions, see `ChunkRows`."""
        return self.definitions[DEFINITION.index(name)][definitions].astype(np.int32)

    def rows_of_kinds(self, kinds: Iterable[str]) -> np.ndarray:
        """Return rows of chunks, see `ChunkRows`."""
        numbers = [number for kind in kinds if (number := self.texts.find(kind)) >= 0]
        among = np.isin(self.chunks["kind"], numbers)
        structure = self.definitions[:, : self.structural]
        defined = np.isin(structure[DEFINITION.index("kind")], numbers)
        among[structure[_CHUNK_OF][defined]] = True
        return np.flatnonzero(among)

    @property
    def structural(self) -> int:
        """Number of the definitions that shape chunks, which come first."""
        return len(self.started)

    def definitions_named(self, keys: Iterable[str], *, members: bool = False) -> np.ndarray:
        """Return definitions by name, see `ChunkRows`."""
        known = np.array(
            sorted({at for key in keys if (at := self.texts.find(key)) >= 0}), self.definitions.dtype
        )  # of one type, so that the search copies nothing
        found = [np.empty(0, np.int32)]
        names, structural = self.definitions[0], self.structural
        for first, part in ((0, names[:structural]), (structural, names[structural:]))[: 1 + members]:
            starts, ends = (first + np.searchsorted(part, known, side) for side in ("left", "right"))
            found += [np.arange(start, end, dtype=np.int32) for start, end in zip(starts, ends, strict=True)]
        return np.concatenate(found)

    def near_names(self, key: str) -> list[str]:
        """Return names one typo away, see `ChunkRows`."""
        names = self.definitions[0][: self.structural]
        found = near_numbers(key, self.texts, self.string_starts, names, self.backwards)
        return [self.texts[number] for number in found]

    def names_holding(self, part: str) -> list[str]:
        """Return names that hold some letters, see `ChunkRows`."""
        data, letters, places = self.strings.tobytes(), part.encode(), list[int]()
        at = data.find(letters)
        while at >= 0:
            places.append(at)
            at = data.find(letters, at + 1)
        found = np.array(places, np.int64)
        numbers = np.searchsorted(self.string_starts, found, side="right") - 1
        within = found + len(letters) <= self.string_starts[numbers + 1]
        keys = np.intersect1d(numbers[within], self.definitions[0][: self.structural])
        return [self.texts[number] for number in keys.tolist()]

    def definitions_of_row(self, row: int) -> np.ndarray:
        """Return definitions, see `ChunkRows`."""
        start, end = self.started_starts[row : row + 2].tolist()
        return self.started[start:end]


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
    """Check that all numbers are from 0 to count - 1."""
    # Unsigned, negative numbers are the largest: one pass instead of two.
    return not numbers.size or int(numbers.view(f"u{numbers.itemsize}").max()) < count


def _damaged(folder: Path) -> IntegrityError:
    return IntegrityError(
        f"{folder.name}/ of {folder.parent.name} is damaged", suggestion="do not serve this version; publish again"
    )

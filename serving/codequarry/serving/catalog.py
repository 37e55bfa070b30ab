"""Reading the DuckDB catalog: chunk rows by id, the chunk directory, chunks by symbol.

The connection is read-only, may not reach any other file, and cannot be configured otherwise by SQL. Every call takes a
cursor of its own, because DuckDB connections may not be shared between threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from codequarry.schemas.errors import IntegrityError
from codequarry.schemas.layout import BundlePaths
from codequarry.schemas.row_index import RowIndex
from codequarry.schemas.symbol_catalog import CLASS_RANK
from codequarry.serving.directory import ChunkDirectory
from codequarry.serving.texts import MappedTexts, TableTexts, Texts

if TYPE_CHECKING:
    import duckdb

_READ_ONLY: dict[str, str | bool | int | float | list[str]] = {
    "threads": "1",
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "temp_directory": "",
    "lock_configuration": "true",
}

# Both in the order of the rows, which is that of the files and of the places in them.
_FILES = f"SELECT repo, path, lang, {CLASS_RANK} AS class_rank FROM files_mat"
_FILE_OF = "SELECT file FROM chunks_mat"
_FILE_OF_BEFORE_3 = "SELECT file FROM chunks_mat JOIN files_mat USING (repo, path) ORDER BY chunks_mat.rowid"
_TEXTS = "SELECT rowid, chunk_id, kind, qualified_name, {text} FROM chunks_mat WHERE rowid BETWEEN ? AND ?"
_AMONG = " AND rowid IN (SELECT unnest(?::BIGINT[]))"
_SPANS = """
SELECT chunk_id, qualified_name, body_start_line, body_end_line FROM symbols_mat
WHERE chunk_id IN ({ids}) AND kind <> 'module' ORDER BY chunk_id, body_start_line, symbol_id
"""
# Chunks may begin inside of a line.
_LINE = """
SELECT start_line, {text} FROM chunks_mat
WHERE repo = ? AND path = ? AND ? BETWEEN start_line AND end_line ORDER BY start_byte
"""
# A name matches when it is a whole qualified name, with or without the module, or the end of one at a dot. The symbols
# are laid out as ".m.a.b\n.m.c\n", so that one substring search answers all; names hold no line breaks. Lists are far
# slower than text here.
_SYMBOLS = """
SELECT chunk_id
FROM (SELECT chunk_id, prefix || qualified_name AS own,
             prefix || replace(array_to_string(symbols, chr(10)), chr(10), chr(10) || prefix) || chr(10) AS starting
      FROM (SELECT *, CASE module WHEN '' THEN '.' ELSE '.' || module || '.' END AS prefix FROM chunks_mat))
WHERE {matches}
ORDER BY chunk_id
"""
_SYMBOL = "ends_with(own, ?) OR contains(starting, ?)"


_PLACE = ("shard", "text_start", "text_bytes")


class ChunkRow(NamedTuple):
    """One row of ``chunks_mat``."""

    chunk_id: int
    repo: str
    path: str
    lang: str
    kind: str
    qualified_name: str
    symbols: list[str]
    start_byte: int
    end_byte: int
    start_line: int
    end_line: int
    module: str
    """Dotted name of the file; "" when it has none."""
    scip: bool
    """Whether SCIP indexed the file."""
    cst: bool
    """Whether ``cst_nodes`` holds the chunk's leaf kinds."""
    text: str

    @property
    def uri(self) -> str:
        """``repository/path``."""
        return f"{self.repo}/{self.path}"


class DefinitionSpan(NamedTuple):
    """A definition and its lines, 0-based and inclusive."""

    qualified_name: str
    start_line: int
    end_line: int


class ChunkText(NamedTuple):
    """What text search reads of a chunk."""

    chunk_id: int
    kind: str
    qualified_name: str
    text: str


class Catalog:
    """The catalog of one version. Safe to share between threads."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, texts: Texts, index: RowIndex | None) -> None:
        """index: None makes it when it is first needed."""
        self._connection = connection
        self._texts = texts
        if index is not None:
            self.index = index
        self._parsed = lru_cache(maxsize=256)(lambda sql: connection.extract_statements(sql)[0])

    def parsed(self, sql: str) -> duckdb.Statement:
        """The statement of a query asked again and again: parsing is a quarter of a look-up's time."""
        return self._parsed(sql)

    @cached_property
    def index(self) -> RowIndex:
        """Chunks and definitions by number."""
        with self.reading() as cursor:
            return RowIndex.build(cursor)

    @classmethod
    def open(cls, paths: BundlePaths) -> Self:
        """Open the version's ``catalog.duckdb``, and ``rows/`` where it has them.

        Raises IntegrityError: DuckDB cannot open it, its tables are not there, or ``rows/`` is damaged.
        """
        import duckdb

        try:
            connection = duckdb.connect(str(paths.catalog), read_only=True, config=_READ_ONLY)
            connection.execute("SELECT 1 FROM chunks_mat, files_mat LIMIT 0").fetchall()
        except duckdb.Error as error:
            raise IntegrityError(
                f"catalog.duckdb of {paths.path.name} cannot be opened ({type(error).__name__})",
                suggestion="do not serve this version; publish again",
            ) from error
        try:
            index = RowIndex.open(paths.rows) if paths.rows.is_dir() else None
            return cls(connection, MappedTexts.open(paths) if paths.text_files() else TableTexts(), index)
        except BaseException:
            connection.close()
            raise

    def rows(self, chunk_ids: Sequence[int]) -> dict[int, ChunkRow]:
        """Rows by chunk id; ids that are not there are left out."""
        rows = dict(zip(chunk_ids, self.index.rows_of(chunk_ids).tolist(), strict=True))
        found: dict[int, ChunkRow] = {}
        for chunk_id, (_, text) in self.texts(chunk_ids).items():
            chunk = self.index.chunk(rows[chunk_id])
            found[chunk_id] = ChunkRow._make((*(chunk[name] for name in ChunkRow._fields[:-1]), text))
        return found

    def texts(self, chunk_ids: Iterable[int]) -> dict[int, tuple[int, str]]:
        """(first line, text) by chunk id; ids that are not there are left out."""
        ids = [int(one) for one in set(chunk_ids)]
        if not ids:
            return {}
        if isinstance(self._texts, MappedTexts):
            rows = self.index.rows_of(ids).tolist()
            places = [(one, self.index.numbers(row)) for one, row in zip(ids, rows, strict=True) if row >= 0]
            return {
                one: (place["start_line"], self._texts.of(tuple(place[name] for name in _PLACE)))
                for one, place in places
            }
        sql = f"SELECT chunk_id, start_line, {self._texts.columns} FROM chunks_mat WHERE chunk_id IN ({marks(ids)})"
        with self.reading() as cursor:
            found = cursor.execute(self.parsed(sql), ids).fetchall()
        return {row[0]: (row[1], self._texts.of(row[2:])) for row in found}

    def line(self, repo: str, path: str, line: int) -> bytes:
        """A line of a file, 0-based, in UTF-8; empty when the file ends before it."""
        with self.reading() as cursor:
            found = cursor.execute(_LINE.format(text=self._texts.columns), [repo, path, line]).fetchall()
        # The last chunk of a file may end at its line break, behind which it has no line.
        lines = ((self._texts.of(row[1:]).split("\n"), line - row[0]) for row in found)
        return "".join(parts[at] for parts, at in lines if at < len(parts)).encode()

    def bytes_before(self, row: ChunkRow) -> int:
        """Bytes of a chunk's first line that lie in the chunks before it, whose file is `ChunkDirectory.torn`."""
        with self.reading() as cursor:
            sql = _LINE.format(text=f"end_byte, {self._texts.columns}")
            found = cursor.execute(sql, [row.repo, row.path, row.start_line]).fetchall()
        before = 0
        for start_line, end_byte, *text in found:
            if end_byte <= row.start_byte:
                own = self._texts.of(tuple(text)).split("\n")
                at = row.start_line - start_line
                before += len(own[at].encode()) if at < len(own) else 0
        return before

    def directory(self) -> ChunkDirectory:
        """Ids and files of all chunks, in memory. Raises IntegrityError: ``rows/`` is that of another catalog."""
        sql = _FILE_OF_BEFORE_3 if isinstance(self._texts, TableTexts) else _FILE_OF
        with self.reading() as cursor:
            # Columns, not rows: a tuple for each of many files sets the garbage collector going.
            files = cursor.execute(_FILES).fetchnumpy()
            found = cursor.execute(sql).fetchnumpy()
        index = self.index
        paths = tuple(files["path"].tolist())
        file_by_row = np.ascontiguousarray(found["file"], np.int32)
        if len(file_by_row) != len(index.ids):
            raise IntegrityError(
                f"rows/ holds {len(index.ids)} chunks, catalog.duckdb {len(file_by_row)}",
                suggestion="do not serve this version; publish again",
            )
        shares_line = index.chunks["start_line"][1:] <= index.chunks["end_line"][:-1]
        torn = np.zeros(len(paths), np.bool_)
        torn[file_by_row[1:][shares_line & (file_by_row[1:] == file_by_row[:-1])]] = True
        return ChunkDirectory(
            index.ids,
            file_by_row[index.ids_rows],
            tuple(files["repo"].tolist()),
            paths,
            tuple(files["lang"].tolist()),
            files["class_rank"].astype(np.int8),
            by_row=np.ascontiguousarray(index.chunks["chunk_id"]),
            row_starts=np.searchsorted(file_by_row, np.arange(len(paths) + 1)),
            torn=torn,
        )

    def definitions_in(self, chunk_ids: Sequence[int]) -> dict[int, list[DefinitionSpan]]:
        """The definitions that start in each of these chunks, in the order of their places."""
        if not chunk_ids:
            return {}
        with self.reading() as cursor:
            found = cursor.execute(_SPANS.format(ids=marks(chunk_ids)), [int(one) for one in chunk_ids]).fetchall()
        spans: dict[int, list[DefinitionSpan]] = {}
        for chunk_id, *span in found:
            spans.setdefault(chunk_id, []).append(DefinitionSpan(*span))
        return spans

    def row_texts(self, rows: np.ndarray) -> dict[int, ChunkText]:
        """Texts by row of ``chunks_mat``; some that were not asked for may be among them. rows: (m,) int64."""
        if not len(rows):
            return {}
        first, last = int(rows.min()), int(rows.max())
        # Leaving rows out costs about as much as reading them.
        dense = last - first < 2 * len(rows)
        sql, values = (_TEXTS, [first, last]) if dense else (_TEXTS + _AMONG, [first, last, rows.tolist()])
        with self.reading() as cursor:
            found = cursor.execute(sql.format(text=self._texts.columns), values).fetchall()
        return {row[0]: ChunkText._make((*row[1:4], self._texts.of(row[4:]))) for row in found}

    def holding(self, needle: str, first: int, last: int, *, folded: bool) -> np.ndarray:
        """See `Texts.holding`."""
        with self.reading() as cursor:
            return self._texts.holding(cursor, needle, first, last, folded=folded)

    def defining(self, names: Sequence[str]) -> np.ndarray:
        """Ids of chunks that define, are, or lie in one of these names: (m,) int64, sorted."""
        sql = _SYMBOLS.format(matches=" OR ".join([_SYMBOL] * len(names)))
        ends = [f".{name}{end}" for name in names for end in ("", "\n")]
        with self.reading() as cursor:
            return cursor.execute(sql, ends).fetchnumpy()["chunk_id"].astype(np.int64)

    @contextmanager
    def reading(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor for one call. Raises IntegrityError: DuckDB cannot read what the call needs."""
        import duckdb

        try:
            with self._connection.cursor() as cursor:
                yield cursor
        except duckdb.Error as error:
            raise IntegrityError(
                f"catalog.duckdb cannot be read ({type(error).__name__})",
                suggestion="do not serve this version; publish again",
            ) from error

    def close(self) -> None:
        """Give the files back."""
        self._connection.close()
        self._texts.close()


def marks(values: Sequence[object]) -> str:
    """Parameter marks for an IN list; of an empty one, what no value equals.

    >>> marks([3, 4]), marks([])
    ('?, ?', 'NULL')
    """
    return ", ".join("?" * len(values)) or "NULL"

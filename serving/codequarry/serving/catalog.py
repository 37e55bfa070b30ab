"""Reading the DuckDB catalog: chunk rows by id, the chunk directory, chunks by symbol.

The connection is read-only, may not reach any other file, and cannot be configured otherwise by SQL. Every call takes a
cursor of its own, because DuckDB connections may not be shared between threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from codequarry.schemas.errors import IntegrityError
from codequarry.schemas.layout import BundlePaths
from codequarry.schemas.symbol_catalog import CLASS_RANK
from codequarry.serving.directory import ChunkDirectory

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

_FILES = f"SELECT repo, path, lang, {CLASS_RANK} FROM files_mat ORDER BY repo, path"
_DIRECTORY = """
SELECT chunk_id, file
FROM chunks_mat
JOIN (SELECT repo, path, row_number() OVER (ORDER BY repo, path) - 1 AS file FROM files_mat) USING (repo, path)
ORDER BY chunk_id
"""
# Chunks may begin inside of a line.
_LINE = """
SELECT split_part(text, chr(10), ? - start_line + 1) FROM chunks_mat
WHERE repo = ? AND path = ? AND ? BETWEEN start_line AND end_line ORDER BY start_byte
"""
# A name matches when it is a whole qualified name or the end of one at a dot. The symbols are laid out as ".a.b\n.c\n",
# so that one substring search answers both; names hold no line breaks. Lists are far slower than text here.
_SYMBOLS = """
SELECT chunk_id
FROM (SELECT chunk_id, '.' || qualified_name AS own,
             '.' || array_to_string(symbols, chr(10) || '.') || chr(10) AS starting
      FROM chunks_mat)
WHERE {matches}
ORDER BY chunk_id
"""
_SYMBOL = "ends_with(own, ?) OR contains(starting, ?)"


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
    text: str
    scip: bool
    """Whether SCIP indexed the file."""

    @property
    def uri(self) -> str:
        """``repository/path``."""
        return f"{self.repo}/{self.path}"


class Catalog:
    """The catalog of one version. Safe to share between threads."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._parsed = lru_cache(maxsize=256)(lambda sql: connection.extract_statements(sql)[0])

    def parsed(self, sql: str) -> duckdb.Statement:
        """The statement of a query asked again and again: parsing is a quarter of a look-up's time."""
        return self._parsed(sql)

    @classmethod
    def open(cls, paths: BundlePaths) -> Self:
        """Open the version's ``catalog.duckdb``.

        Raises IntegrityError: DuckDB cannot open it, or its tables are not there.
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
        return cls(connection)

    def rows(self, chunk_ids: Sequence[int]) -> dict[int, ChunkRow]:
        """Rows by chunk id, in one query; ids that are not there are left out."""
        if not chunk_ids:
            return {}
        columns = ", ".join(ChunkRow._fields)
        with self.reading() as cursor:
            found = cursor.execute(
                f"SELECT {columns} FROM chunks_mat WHERE chunk_id IN ({marks(chunk_ids)})",
                [int(one) for one in chunk_ids],
            ).fetchall()
        return {row[0]: ChunkRow(*row) for row in found}

    def texts(self, chunk_ids: Iterable[int]) -> dict[int, tuple[int, str]]:
        """(first line, text) by chunk id; ids that are not there are left out."""
        ids = [int(one) for one in set(chunk_ids)]
        if not ids:
            return {}
        sql = f"SELECT chunk_id, start_line, text FROM chunks_mat WHERE chunk_id IN ({marks(ids)})"
        with self.reading() as cursor:
            return {row[0]: (row[1], row[2]) for row in cursor.execute(self.parsed(sql), ids).fetchall()}

    def line(self, repo: str, path: str, line: int) -> bytes:
        """A line of a file, 0-based, in UTF-8; empty when the file ends before it."""
        with self.reading() as cursor:
            parts = cursor.execute(_LINE, [line, repo, path, line]).fetchall()
        return "".join(part for (part,) in parts).encode()

    def directory(self) -> ChunkDirectory:
        """Ids and files of all chunks, in memory."""
        with self.reading() as cursor:
            files = cursor.execute(_FILES).fetchall()
            columns = cursor.execute(_DIRECTORY).fetchnumpy()
        repos, paths, langs, ranks = (tuple(column) for column in zip(*files, strict=True)) if files else ((),) * 4
        return ChunkDirectory(
            np.ascontiguousarray(columns["chunk_id"], np.int64),
            np.ascontiguousarray(columns["file"], np.int32),
            repos,
            paths,
            langs,
            np.array(ranks, np.int8),
        )

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
        """Give the file back."""
        self._connection.close()


def marks(values: Sequence[object]) -> str:
    """Parameter marks for an IN list; of an empty one, what no value equals.

    >>> marks([3, 4]), marks([])
    ('?, ?', 'NULL')
    """
    return ", ".join("?" * len(values)) or "NULL"

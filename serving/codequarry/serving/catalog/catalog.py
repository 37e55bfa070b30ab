"""Reader of the DuckDB catalog: chunk rows by id, the chunk directory, chunks by symbol.

The connection is read-only, may not reach any other file, and cannot be configured otherwise by SQL. Every call takes a
cursor of its own, because DuckDB connections may not be shared between threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.catalog.symbol_views import CLASS_RANK
from codequarry.schemas.errors import IntegrityError
from codequarry.serving.catalog.chunk_arrays import ChunkRows, RowIndex
from codequarry.serving.catalog.directory import ChunkDirectory
from codequarry.serving.catalog.texts import Find, MappedTexts

if TYPE_CHECKING:
    import duckdb

_READ_ONLY: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "enable_external_access": "false",
    "lock_configuration": "true",
    "threads": "1",
    "temp_directory": "",
}

# Both are ordered by row, which means by file and by place in the file.
_FILES = f"SELECT repo, path, lang, {CLASS_RANK} AS class_rank FROM files_mat"
_FILE_OF = "SELECT file FROM chunks_mat"
_SPANS = """
SELECT chunk_id, qualified_name, body_start_line, body_end_line FROM symbols_mat
WHERE chunk_id IN ({ids}) AND kind <> 'module' ORDER BY chunk_id, body_start_line, symbol_id
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


_ID_MAP = "SELECT chunk_id FROM faiss_idmap_mat ORDER BY faiss_row"
_FILE_FACTS = "SELECT file, repo || '/' || path, size_bytes, sha256, encoding FROM files_mat WHERE skip_reason = ''"
_FILE_FACTS_OF = f"{_FILE_FACTS} AND list_contains(?, repo || '/' || path)"


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
    """True when SCIP indexed the file."""
    cst: bool
    """True when ``cst_nodes`` holds the chunk's leaf kinds."""
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


class FileFacts(NamedTuple):
    """Facts of a file as it was indexed."""

    uri: str
    """``repository/path``."""
    size_bytes: int
    sha256: str
    encoding: str


class Catalog:
    """Catalog of one version. Safe to share between threads."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, texts: MappedTexts, index: ChunkRows) -> None:
        """Use an open connection.

        Args:
            connection: Connection to ``catalog.duckdb``.
            texts: Reader of the chunks' texts.
            index: Chunks and definitions by number.
        """
        self._connection = connection
        self.stored_texts = texts
        self.index = index
        self._parsed = lru_cache(maxsize=256)(lambda sql: connection.extract_statements(sql)[0])

    def parsed(self, sql: str) -> duckdb.Statement:
        """Return the parsed statement of a query that is repeated; parsing takes a quarter of a look-up's time."""
        return self._parsed(sql)

    @classmethod
    def open(cls, paths: BundlePaths) -> Self:
        """Open the version's ``catalog.duckdb`` and its ``rows/``.

        Args:
            paths: Paths of the version.

        Returns:
            The open catalog.

        Raises:
            IntegrityError: DuckDB cannot open the catalog, tables are missing, or ``rows/`` is damaged.
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
            return cls(connection, MappedTexts.open(paths), RowIndex.open(paths.rows))
        except BaseException:
            connection.close()
            raise

    def rows(self, chunk_ids: Sequence[int]) -> dict[int, ChunkRow]:
        """Return rows by chunk id; unknown ids are left out."""
        rows = dict(zip(chunk_ids, self.index.rows_of(chunk_ids).tolist(), strict=True))
        found: dict[int, ChunkRow] = {}
        for chunk_id, (_, text) in self.texts(chunk_ids).items():
            chunk = self.index.chunk(rows[chunk_id])
            found[chunk_id] = ChunkRow._make((*(chunk[name] for name in ChunkRow._fields[:-1]), text))
        return found

    def texts(self, chunk_ids: Iterable[int]) -> dict[int, tuple[int, str]]:
        """Return (first line, text) by chunk id; unknown ids are left out."""
        ids = [int(one) for one in set(chunk_ids)]
        if not ids:
            return {}
        rows = self.index.rows_of(ids).tolist()
        places = [(one, self.index.numbers(row)) for one, row in zip(ids, rows, strict=True) if row >= 0]
        return {one: (place["start_line"], self._text(place)) for one, place in places}

    def _text(self, place: dict[str, int]) -> str:
        return self.stored_texts.of(place["shard"], place["text_start"], place["text_bytes"])

    def _on_line(self, repo: str, path: str, line: int) -> list[dict[str, int]]:
        """Return the stored fields of a file's chunks on a line, in order; chunks may begin inside of a line."""
        rows = map(self.index.numbers, self.index.rows_of_file(repo, path))
        return [row for row in rows if row["start_line"] <= line <= row["end_line"]]

    def line(self, repo: str, path: str, line: int) -> bytes:
        """Return a line of a file, 0-based, in UTF-8; empty when the file ends before it."""
        # The last chunk of a file may end at its line break; it has no line after that.
        found = self._on_line(repo, path, line)
        lines = ((self._text(row).split("\n"), line - row["start_line"]) for row in found)
        return "".join(parts[at] for parts, at in lines if at < len(parts)).encode()

    def bytes_before(self, row: ChunkRow) -> int:
        """Return the number of bytes of a chunk's first line that lie in earlier chunks.

        Only files in `ChunkDirectory.torn` have chunks that start inside a line.
        """
        before = 0
        for place in self._on_line(row.repo, row.path, row.start_line):
            if place["end_byte"] <= row.start_byte:
                own = self._text(place).split("\n")
                at = row.start_line - place["start_line"]
                before += len(own[at].encode()) if at < len(own) else 0
        return before

    def id_map(self) -> np.ndarray:
        """Return the chunk of each row of the dense indexes, (n,) int64."""
        with self.reading() as cursor:
            return cursor.execute(_ID_MAP).fetchnumpy()["chunk_id"].astype(np.int64)

    def directory(self) -> ChunkDirectory:
        """Read the ids and files of all chunks into memory.

        Returns:
            The chunk directory.

        Raises:
            IntegrityError: ``rows/`` belongs to another catalog.
        """
        with self.reading() as cursor:
            # Fetch columns, not rows: a tuple for each of many files would trigger the garbage collector.
            files = cursor.execute(_FILES).fetchnumpy()
            found = cursor.execute(_FILE_OF).fetchnumpy()
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
        starts = np.searchsorted(file_by_row, np.arange(len(paths) + 1))
        return ChunkDirectory(
            index.ids,
            file_by_row[index.ids_rows],
            tuple(files["repo"].tolist()),
            paths,
            tuple(files["lang"].tolist()),
            files["class_rank"].astype(np.int8),
            by_row=np.ascontiguousarray(index.chunks["chunk_id"]),
            first_rows=starts[:-1],
            chunk_counts=np.diff(starts),
            torn=torn,
        )

    def definitions_in(self, chunk_ids: Sequence[int]) -> dict[int, list[DefinitionSpan]]:
        """Return the definitions that start in each of these chunks, in source order."""
        if not chunk_ids:
            return {}
        with self.reading() as cursor:
            found = cursor.execute(_SPANS.format(ids=marks(chunk_ids)), [int(one) for one in chunk_ids]).fetchall()
        spans: dict[int, list[DefinitionSpan]] = {}
        for chunk_id, *span in found:
            spans.setdefault(chunk_id, []).append(DefinitionSpan(*span))
        return spans

    def skip_reason(self, file: int) -> str:
        """Return why a file of the census was left out of the index; "" when it was not."""
        with self.reading() as cursor:
            found = cursor.execute("SELECT skip_reason FROM files_mat WHERE file = ?", [file]).fetchone()
        return str(found[0] or "") if found else ""

    def facts_of_files(self, uris: Sequence[str] | None) -> dict[int, FileFacts]:
        """Return the facts of indexed files by row of ``files_mat``.

        Args:
            uris: Only these files; unknown ones are left out. None for all.

        Returns:
            The facts.
        """
        with self.reading() as cursor:
            found = cursor.execute(_FILE_FACTS) if uris is None else cursor.execute(_FILE_FACTS_OF, [list(uris)])
            return {file: FileFacts._make(facts) for file, *facts in found.fetchall()}

    def holding(self, find: Find, rows: np.ndarray, *, folded: bool) -> np.ndarray:
        """Find chunks in whose texts something is found.

        Args:
            find: Finds it.
            rows: (r,) rows of ``chunks_mat``, ascending. Those of a file that lie one behind the other are searched as
                one text.
            folded: It is looked for in the text in lower case.

        Returns:
            (m,) int64 ids, in the order of rows.
        """
        return self.stored_texts.holding(self.index.chunks[rows], find, folded=folded)

    def defining(self, names: Sequence[str]) -> np.ndarray:
        """Return ids of chunks that define one of these names, are one, or lie in one: (m,) int64, sorted."""
        sql = _SYMBOLS.format(matches=" OR ".join([_SYMBOL] * len(names)))
        ends = [f".{name}{end}" for name in names for end in ("", "\n")]
        with self.reading() as cursor:
            return cursor.execute(sql, ends).fetchnumpy()["chunk_id"].astype(np.int64)

    def of_kinds(self, kinds: Sequence[str]) -> np.ndarray:
        """Return ids of chunks that are of a stored kind, or define something of one: (m,) int64, sorted."""
        return np.sort(self.index.chunks["chunk_id"][self.index.rows_of_kinds(kinds)])

    def answers(self) -> bool:
        """Tell whether the database answers ``SELECT 1``."""
        try:
            with self.reading() as cursor:
                return cursor.execute("SELECT 1").fetchone() == (1,)
        except IntegrityError:
            return False

    @contextmanager
    def reading(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open a cursor for one call.

        Yields:
            The cursor.

        Raises:
            IntegrityError: DuckDB cannot read what the call needs.
        """
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
        """Close the connection and the text files."""
        self._connection.close()
        self.stored_texts.close()


def marks(values: Sequence[object]) -> str:
    """Return parameter marks for an IN list; NULL, which no value equals, when the list is empty.

    >>> marks([3, 4]), marks([])
    ('?, ?', 'NULL')
    """
    return ", ".join("?" * len(values)) or "NULL"

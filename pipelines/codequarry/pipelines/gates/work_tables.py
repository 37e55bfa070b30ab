"""The tables in the work folder as the expectation suites read them: every repository's rows under one name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from codequarry.pipelines.embed.encoders import encoder_directories
from codequarry.pipelines.gates.native_suites import NATIVE_SUITES, NativeSuite, vectors_suite
from codequarry.pipelines.store.workspace import RepositoryWork
from codequarry.schemas.bundle.layout import DENSE_LEGS, embeddings_table
from codequarry.schemas.bundle.tables import SCHEMAS
from codequarry.schemas.errors import SourceError
from codequarry.schemas.gates.expectation import Suite, build_frames
from codequarry.schemas.gates.suites import OF_TABLES, embeddings_suite
from codequarry.schemas.settings.load import Settings
from codequarry.serving.encoders.spec import EncoderSpec
from codequarry.serving.files.integrity import file_sha256

if TYPE_CHECKING:
    import duckdb

EMBEDDINGS = embeddings_table(DENSE_LEGS[0])
_BEFORE_CHUNKS = frozenset({"files", "scip_symbols", "scip_occurrences"})
"""Tables of stages that may run before there are chunks: what they say of files, the census knows."""


def suites_over_work(table: str, settings: Settings) -> tuple[Suite, ...]:
    """Return the suites of a table; `EMBEDDINGS` stands for the vectors of every dense index."""
    if table != EMBEDDINGS:
        return tuple(suite for suite in OF_TABLES if suite.table == table)
    dims = {channel: EncoderSpec.load(folder).dim for channel, folder in encoder_directories(settings).items()}
    return tuple(embeddings_suite(channel, dim) for channel, dim in dims.items())


def open_work(works: Sequence[RepositoryWork], table: str, suites: Sequence[Suite] = ()) -> duckdb.DuckDBPyConnection:
    """Open a session over the rows of some repositories, with the frames of suites and of those that they need.

    Args:
        works: Work folders of the repositories.
        table: Table that is judged.
        suites: Suites to be run; none for the tables alone.

    Returns:
        The session, to be closed by the caller.

    Raises:
        SourceError: A table is missing or cannot be read.
    """
    import duckdb

    needed = _with_needed(suites)
    connection = duckdb.connect()
    try:
        for name in (*SCHEMAS, *map(embeddings_table, DENSE_LEGS)):
            if files := table_files(works, name, table):
                connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet([{_quote_paths(files)}])")
        build_frames(connection, needed)
    except duckdb.Error as error:
        connection.close()
        names = ", ".join(work.path.name for work in works)
        raise SourceError(
            f"the tables of {names} cannot be read: {error}", suggestion="run the stages of the repository again"
        ) from error
    return connection


def _with_needed(suites: Sequence[Suite]) -> list[Suite]:
    """Return the suites and those whose frames they read, needed ones first."""
    wanted = {suite.table for suite in suites}
    for suite in reversed((*OF_TABLES, *suites)):
        if suite.table in wanted:
            wanted.update(suite.needs)
    first = [suite for suite in OF_TABLES if suite.table in wanted]
    return [*first, *(suite for suite in suites if suite not in first)]


def table_files(works: Sequence[RepositoryWork], name: str, judged: str) -> list[Path]:
    """Return the files that hold the rows of a table while another one, or itself, is judged."""
    early = name == "files" and judged in _BEFORE_CHUNKS
    listed = ([work.census] if early else work.tables(name) for work in works)
    return [file for files in listed for file in files if file.is_file()]


def native_suites_over_work(table: str, settings: Settings) -> tuple[NativeSuite, ...]:
    """Return what Great Expectations is asked of a table; `EMBEDDINGS` stands for the vectors of every index."""
    return tuple(map(vectors_suite, encoder_directories(settings))) if table == EMBEDDINGS else (NATIVE_SUITES[table],)


def digest_of_rows(works: Sequence[RepositoryWork], suite: NativeSuite) -> str:
    """Return the digest of a suite and of the rows of some repositories that it reads."""
    return suite.digest(
        {
            f"{work.path.name}/{file.relative_to(work.path).as_posix()}": file_sha256(file)
            for work in works
            for name in (suite.table, *suite.reads)
            for file in table_files([work], name, suite.table)
        }
    )


def _quote_paths(files: Sequence[Path]) -> str:
    return ", ".join("'{}'".format(str(file).replace("'", "''")) for file in files)

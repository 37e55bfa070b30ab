"""The tables in the work folder as the expectation suites read them: every repository's rows under one name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from codequarry.pipelines.embed.encoders import encoder_directories
from codequarry.pipelines.store.workspace import RepositoryWork
from codequarry.schemas.bundle.layout import DENSE_LEGS, embeddings_table
from codequarry.schemas.bundle.tables import SCHEMAS
from codequarry.schemas.errors import SourceError
from codequarry.schemas.gates.expectation import Suite, build_frames
from codequarry.schemas.gates.suites import OF_TABLES, embeddings_suite
from codequarry.schemas.settings.load import Settings
from codequarry.serving.encoders.spec import EncoderSpec

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


def open_work(works: Sequence[RepositoryWork], suites: Sequence[Suite]) -> duckdb.DuckDBPyConnection:
    """Open a session with the frames of suites, and of those they need, over the rows of some repositories.

    Args:
        works: Work folders of the repositories.
        suites: Suites to be run.

    Returns:
        The session, to be closed by the caller.

    Raises:
        SourceError: A table is missing or cannot be read.
    """
    import duckdb

    needed = _with_needed(suites)
    early = all(suite.table in _BEFORE_CHUNKS for suite in suites)
    connection = duckdb.connect()
    try:
        for name in (*SCHEMAS, *(suite.table for suite in needed if suite.table not in SCHEMAS)):
            files = [file for work in works for file in _files(work, name, early) if file.is_file()]
            if files:
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


def _files(work: RepositoryWork, name: str, early: bool) -> list[Path]:
    return [work.census] if name == "files" and early else work.tables(name)


def _quote_paths(files: Sequence[Path]) -> str:
    return ", ".join("'{}'".format(str(file).replace("'", "''")) for file in files)

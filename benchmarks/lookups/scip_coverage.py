"""Agreement of SCIP's definitions and the chunks of a package, asked of the tables the pipeline wrote."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from codequarry.pipelines.scip.stage import scip_repository
from codequarry.pipelines.sources.snapshot import read_contents, snapshot_repository
from codequarry.pipelines.store.workspace import repository_work
from codequarry.pipelines.syntax.stage import chunk_repository
from codequarry.schemas.settings.load import RepositorySettings, Settings

KINDS = ("class", "function", "method")
_BLANKS = b" \t\n\r\f\v"


@dataclass(frozen=True, slots=True)
class Coverage:
    """Counts over one repository."""

    definitions: int
    """Functions, methods and classes that SCIP defines."""
    listed: int
    """Those that lie in exactly one chunk, whose symbols list them."""
    fitting: int
    """Functions and methods of at most ``chunking.max_chars``."""
    whole: int
    """Those among them that one chunk holds from start to end."""
    misses: tuple[str, ...]
    """Definitions that are not listed, for people."""


def coverage(repository: RepositorySettings, settings: Settings) -> Coverage:
    """Run snapshot, chunk and scip stages over a named repository and compare what they say."""
    snapshot_repository(repository, settings)
    chunk_repository(repository.name, settings)
    scip_repository(repository.name, settings)
    work = repository_work(settings.paths.work, repository.name)
    rows = {name: pa.concat_tables(map(pq.read_table, work.tables(name))).to_pylist() for name in _TABLES}
    chunks: dict[str, list[dict[str, Any]]] = {}
    for row in rows["chunks"]:
        chunks.setdefault(row["path"], []).append(row)
    described = {(row["path"], row["symbol"]): row for row in rows["scip_symbols"] if row["kind"] in KINDS}
    defined = [
        (row, described[row["path"], row["symbol"]])
        for row in rows["scip_occurrences"]
        if row["is_definition"] and (row["path"], row["symbol"]) in described
    ]
    misses = [
        f"{place['path']}:{place['start_line'] + 1} {symbol['qualified_name']}"
        for place, symbol in defined
        if not _is_listed(chunks[place["path"]], place["start_byte"], symbol["qualified_name"])
    ]
    contents = {path: content for path, _, content in read_contents(work)}
    whole = [
        _holding(chunks[row["path"]], row["start_byte"])["end_byte"] >= row["end_byte"]
        for row in rows["ast_nodes"]
        if row["kind"] in ("function", "method") and _ink(contents, row) <= settings.chunking.max_chars
    ]
    return Coverage(len(defined), len(defined) - len(misses), len(whole), sum(whole), tuple(misses))


_TABLES = ("chunks", "ast_nodes", "scip_symbols", "scip_occurrences")


def _is_listed(chunks: list[dict[str, Any]], place: int, qualified_name: str) -> bool:
    """Return whether one chunk holds the place and lists the name."""
    holding = [chunk for chunk in chunks if chunk["start_byte"] <= place < chunk["end_byte"]]
    if len(holding) != 1:
        return False
    module = chunks[0]["path"].removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    own = qualified_name.removeprefix(f"{module}.").split(".")
    return any(_agree(symbol.split("."), own) for symbol in holding[0]["symbols"])


def _agree(ours: list[str], theirs: list[str]) -> bool:
    """Return whether both name one definition: scip-python leaves out the functions around a nested one."""
    remaining = iter(ours)
    return ours[-1] == theirs[-1] and all(part in remaining for part in theirs)


def _holding(chunks: list[dict[str, Any]], place: int) -> dict[str, Any]:
    return chunks[bisect_right([chunk["start_byte"] for chunk in chunks], place) - 1]


def _ink(contents: dict[str, bytes], row: dict[str, Any]) -> int:
    return len(contents[row["path"]][row["start_byte"] : row["end_byte"]].translate(None, _BLANKS))

"""The tables of a version as its readers have to understand them: of a complete one, or of a delta over its base."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import Any

import duckdb
import numpy as np

from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.bundle.manifest import Manifest
from codequarry.schemas.bundle.stack import STACK_ARRAYS
from codequarry.schemas.bundle.tables import read_table

_SYMBOLS = (
    "SELECT symbol_id, name_id, repo, path, file, name, qualified_name, start_byte FROM {}.symbols_mat ORDER BY 1"
)
_PLACES = (
    "SELECT target_id, file, roles, start_line, start_column, lines, width, enclosing, chunk FROM {}.occurrences_mat"
)


class Layer:
    """The catalog of one version by itself, with its numbers."""

    def __init__(self, paths: BundlePaths) -> None:
        with closing(duckdb.connect()) as connection:
            connection.execute(f"ATTACH '{paths.catalog}' AS held (READ_ONLY)")
            rows = lambda sql: connection.execute(sql.format("held")).fetchall()  # noqa: E731
            self.files = rows("SELECT repo, path, sha256, skip_reason FROM {}.files_mat ORDER BY file")
            self.chunks = rows("SELECT chunk_id, repo, path, start_byte FROM {}.chunks_mat ORDER BY rowid")
            self.symbols = rows(_SYMBOLS)
            self.places = rows(_PLACES)

    def name(self, target: int) -> str:
        return self.symbols[target][5]


def read_places(paths: BundlePaths, manifest: Manifest) -> Counter[tuple[Any, ...]]:
    """Every place that names something: file, place, roles, name, the definition around it and its chunk."""
    own = Layer(paths)
    if manifest.stack is None:
        return Counter(_place(own.files, own.symbols, own.chunks, own.name(row[0]), row) for row in own.places)
    base = Layer(BundlePaths(paths.path.parent / manifest.stack.base))
    arrays = {name: np.load(paths.stack / f"{name}.npy") for name in STACK_ARRAYS}
    hidden = set(arrays["hidden"].tolist())
    assert sorted(hidden) == arrays["hidden"].tolist()
    dead = arrays["dead"].tolist()
    found: Counter[tuple[Any, ...]] = Counter()
    for row in base.places:
        target, file, roles = row[:3]
        if file in hidden:
            continue
        if not roles & 1 and any(target == name and first <= file <= last for name, first, last in dead):
            continue
        found[_place(base.files, base.symbols, base.chunks, base.name(target), row)] += 1
    for row in own.places:
        found[_place(own.files, own.symbols, own.chunks, own.name(row[0]), row)] += 1
    files, symbols, chunks = (a + b for a, b in zip(_tables(base), _tables(own), strict=True))
    for row in arrays["places"].tolist():
        found[_place(files, symbols, chunks, symbols[row[0]][5], row)] += 1
    names = {(own.symbols[mine][5], base.symbols[theirs][5]) for mine, theirs in arrays["names"].tolist()}
    both = {row[5] for row in own.symbols} & {row[5] for row in base.symbols}
    assert names == {(name, name) for name in both}
    return found


def _tables(layer: Layer) -> tuple[list[Any], list[Any], list[Any]]:
    return layer.files, layer.symbols, layer.chunks


def _place(files: list[Any], symbols: list[Any], chunks: list[Any], name: str, row: Any) -> tuple[Any, ...]:
    _, file, roles, line, column, lines, width, enclosing, chunk = row
    around = symbols[enclosing][2:4] + symbols[enclosing][6:] if enclosing >= 0 else None
    return (*files[file][:2], line, column, lines, width, roles, name, around, chunks[chunk])


def live_files(paths: BundlePaths, manifest: Manifest) -> set[tuple[str, str, str, str]]:
    """Repository, path, sha256 and reason for skipping of every file that counts."""
    own = Layer(paths).files
    if manifest.stack is None:
        return set(own)
    base = Layer(BundlePaths(paths.path.parent / manifest.stack.base)).files
    hidden = set(np.load(paths.stack / "hidden.npy").tolist())
    return {row for number, row in enumerate(base) if number not in hidden} | set(own)


def modules(paths: BundlePaths) -> dict[tuple[str, str], dict[str, Any]]:
    """Rows of modules by file, without the count of files that import them."""
    rows = read_table(paths.table("modules")).drop_columns(["fan_in"]).to_pylist()
    return {(row["repo"], row["path"]): row for row in rows}

"""Chunks and definitions by number: as the catalog has them, and damage is seen before anything reads it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.errors import IntegrityError
from codequarry.serving.catalog.catalog import Catalog
from codequarry.serving.catalog.chunk_arrays import TEXTS, RowIndex, Strings
from tests.serving.bundles.bundle_factory import Piece, definition_row, write_bundle

PIECES = (
    Piece("io/index.py", "class Index:\n", "Index", ("Index",), kind="class"),
    Piece("io/index.py", "    def open(self): ...\n", "Index.open", ("Index.open",), start_line=1, start_byte=13),
    Piece("größe.py", "def größe(): ...\ndef Open(): ...\n", "größe", ("größe", "Open")),
    Piece("notes.txt", "no code\n", kind="text"),
)


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> BundlePaths:
    nodes = [definition_row(one, symbol) for one in PIECES for symbol in one.symbols]
    return write_bundle(tmp_path_factory.mktemp("rows"), PIECES, rows={"ast_nodes": nodes})


@pytest.fixture(scope="module")
def catalog(paths: BundlePaths) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(str(paths.catalog), read_only=True) as connection:
        yield connection


def test_chunks_are_those_of_the_catalog(paths: BundlePaths, catalog: duckdb.DuckDBPyConnection) -> None:
    index = RowIndex.open(paths.rows)
    names = ("chunk_id", *TEXTS, "start_byte", "end_byte", "start_line", "end_line", "text_bytes", "cst", "symbols")
    rows = catalog.execute(f"SELECT {', '.join(names)} FROM chunks_mat").fetchall()
    for number, row in enumerate(rows):
        chunk = index.chunk(number)
        assert tuple(chunk[name] for name in names) == row
    ids = [row[0] for row in rows]
    assert index.rows_of([*ids, 1]).tolist() == [*range(len(ids)), -1]


def test_definitions_are_those_of_the_catalog(paths: BundlePaths, catalog: duckdb.DuckDBPyConnection) -> None:
    index = RowIndex.open(paths.rows)
    rows = catalog.execute("SELECT name_key, qualified_name, kind, chunk_id FROM symbols_mat").fetchall()
    every = np.arange(len(rows), dtype=np.int32)
    columns = [[index.texts[one] for one in index.column(name, every)] for name in ("key", "qualified_name", "kind")]
    chunks = index.chunks["chunk_id"][index.column("chunk", every)].tolist()
    assert list(zip(*columns, chunks, strict=True)) == rows
    for name in ("open", "größe", "nowhere"):
        assert index.definitions_named([name]).tolist() == [at for at, row in enumerate(rows) if row[0] == name]
    for piece in PIECES:
        assert index.definitions_in([piece.id, 1]).tolist() == [at for at, row in enumerate(rows) if row[3] == piece.id]


def test_equal_catalogs_give_equal_bytes(
    paths: BundlePaths, catalog: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    RowIndex.build(catalog).write(tmp_path / "again")
    for file in (tmp_path / "again").iterdir():
        assert (paths.rows / file.name).read_bytes() == file.read_bytes()


def test_an_empty_catalog_has_an_index(tmp_path: Path) -> None:
    paths = write_bundle(tmp_path / "none", ())
    index = RowIndex.open(paths.rows)
    assert (index.rows_of([7]).tolist(), index.definitions_named(["open"]).tolist()) == ([-1], [])
    assert index.definitions_in([7]).tolist() == []


def test_misspelt_names_are_found(paths: BundlePaths) -> None:
    index = RowIndex.open(paths.rows)
    assert (index.near_names("idnex"), index.near_names("größé")) == (["index"], ["größe"])
    assert index.near_names("index") == index.near_names("nowhere") == []
    every = sorted({index.texts[number] for number in index.definitions[0][: index.structural].tolist()})
    for part in ("nde", "größ", "e", "no such", "\n"):
        assert index.names_holding(part) == [name for name in every if part in name]


@pytest.mark.parametrize("name", ["strings", "string_starts", "ids_rows", "symbols", "definitions", "started_starts"])
def test_an_index_that_is_cut_is_damaged(paths: BundlePaths, tmp_path: Path, name: str) -> None:
    RowIndex.open(paths.rows).write(tmp_path / "rows")
    whole = np.load(tmp_path / "rows" / f"{name}.npy")
    np.save(tmp_path / "rows" / f"{name}.npy", whole[:-1])
    with pytest.raises(IntegrityError, match="is damaged"):
        RowIndex.open(tmp_path / "rows")


@pytest.mark.parametrize("name", ["ids_rows", "symbols", "definitions", "started", "chunks", "backwards"])
def test_a_number_of_nothing_is_damage(paths: BundlePaths, tmp_path: Path, name: str) -> None:
    RowIndex.open(paths.rows).write(tmp_path / "rows")
    numbers = np.load(tmp_path / "rows" / f"{name}.npy")
    (numbers["repo"] if numbers.dtype.names else numbers).flat[0] = np.iinfo(np.uint16).max
    np.save(tmp_path / "rows" / f"{name}.npy", numbers)
    with pytest.raises(IntegrityError, match="is damaged"):
        RowIndex.open(tmp_path / "rows")


def test_an_index_of_another_catalog_is_not_read(paths: BundlePaths, tmp_path: Path) -> None:
    fewer = write_bundle(tmp_path / "fewer", PIECES[:2])
    shutil.rmtree(fewer.rows)
    shutil.copytree(paths.rows, fewer.rows)
    with closing(Catalog.open(fewer)) as opened, pytest.raises(IntegrityError, match=r"4 chunks, catalog\.duckdb 2"):
        opened.directory()


def test_a_number_below_zero_is_damage(paths: BundlePaths, tmp_path: Path) -> None:
    RowIndex.open(paths.rows).write(tmp_path / "rows")
    numbers = np.load(tmp_path / "rows" / "started.npy").astype(np.int32)
    numbers[0] = -1
    np.save(tmp_path / "rows" / "started.npy", numbers)
    with pytest.raises(IntegrityError, match="is damaged"):
        RowIndex.open(tmp_path / "rows")


@given(st.lists(st.text(max_size=4)), st.text(max_size=4))
def test_strings_are_found(found: list[str], wanted: str) -> None:
    # As DuckDB gives them: none has half a surrogate pair.
    clean = [text.encode("utf-8", "replace").decode() for text in found]
    strings = Strings.of(sorted(set(clean)))
    assert list(strings) == sorted(set(clean))
    at = strings.find(wanted)
    assert (at >= 0 and strings[at] == wanted) if wanted in clean else at == -1

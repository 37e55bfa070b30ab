"""Pages of texts in the table of chunks: they lie where the array says, and Arrow and DuckDB read the same texts."""

from __future__ import annotations

import zlib
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.bundle.tables import read_table, write_table
from codequarry.schemas.bundle.text_pages import PAGES_FILE, write_text_pages
from codequarry.schemas.errors import PublishError

SCHEMA = pa.schema(
    [pa.field("names", pa.list_(pa.string()), nullable=False), pa.field("text", pa.string(), nullable=False)]
)
TEXTS = [f"größe {number} " * (number % 90) for number in range(9_000)]
"""More than two row groups, and some are empty."""


def write(folder: Path, texts: list[str], *, paged: str = "text") -> BundlePaths:
    paths = BundlePaths(folder)
    paths.tables.mkdir(parents=True)
    paths.rows.mkdir()
    names = [[text[:3]] for text in texts]
    write_table(paths.table("chunks"), pa.table([names, texts], schema=SCHEMA), SCHEMA, paged=paged)
    return paths


def pages_of(paths: BundlePaths, texts: list[str]) -> np.ndarray:
    sizes = np.array([len(text.encode()) for text in texts], np.int64)
    write_text_pages(paths, np.zeros(len(texts), np.int64), sizes)
    return np.load(paths.rows / PAGES_FILE)


@pytest.mark.parametrize("texts", [TEXTS, ["x" * 300_000, "y"], ["one"], []], ids=["many", "long", "one", "none"])
def test_each_page_holds_the_texts_that_the_array_says(tmp_path: Path, texts: list[str]) -> None:
    paths = write(tmp_path / "version", texts)
    data = paths.table("chunks").read_bytes()
    pages = pages_of(paths, texts)
    found = [
        zlib.decompress(data[page["offset"] :][: page["size"]], 31)[page["raw"] - page["bytes"] :] for page in pages
    ]
    assert b"".join(found) == "".join(texts).encode()
    assert pages["start"].tolist() == [sum(map(len, found[:number])) for number in range(len(found))]
    longest = max(map(len, texts), default=0)
    assert all(len(page) <= 16_384 + 9 * 2 * longest for page in found)


def test_arrow_and_duckdb_read_the_same_texts(tmp_path: Path) -> None:
    paths = write(tmp_path / "version", TEXTS)
    assert read_table(paths.table("chunks"))["text"].to_pylist() == TEXTS
    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT text FROM read_parquet('{paths.table('chunks')}')").fetchall()
    assert [text for (text,) in found] == TEXTS


def test_equal_rows_give_equal_bytes(tmp_path: Path) -> None:
    first, second = (write(tmp_path / name, TEXTS).table("chunks").read_bytes() for name in ("first", "second"))
    assert first == second


def test_pages_of_another_kind_are_refused(tmp_path: Path) -> None:
    paths = write(tmp_path / "version", TEXTS, paged="")
    with pytest.raises(PublishError, match="pages of another kind"):
        pages_of(paths, TEXTS)

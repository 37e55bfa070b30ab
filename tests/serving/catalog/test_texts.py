"""The mapped texts: each is read whole, damage is told, and a scan finds what holds a needle, whatever is around it."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.bundle.text_pages import PAGES_FILE
from codequarry.schemas.errors import IntegrityError
from codequarry.serving.catalog.catalog import Catalog
from codequarry.serving.catalog.texts import Find, MappedTexts, _rows_holding
from codequarry.serving.text.literal_patterns import fold
from tests.serving.bundles.bundle_factory import Piece, write_bundle

_TEXT = st.text("abA B\nKßİſé€😀", min_size=1, max_size=12)


def found_at(needle: str) -> Find:
    return lambda data, at: data.find(needle.encode(), at)


@given(st.lists(_TEXT, min_size=1, max_size=6), st.text("abk \n", min_size=1, max_size=3), st.booleans())
def test_every_chunk_that_holds_the_needle_is_found(texts: list[str], needle: str, folded: bool) -> None:
    encoded = [text.encode() for text in texts]
    starts = np.cumsum([0, *map(len, encoded[:-1])])
    found = set(_rows_holding(b"".join(encoded), starts, found_at(needle), folded=folded))
    holding = {row for row, text in enumerate(texts) if needle in (fold(text) if folded else text)}
    assert holding <= found
    # Beyond those, only chunks at whose end the needle begins.
    for row in found - holding:
        text = fold(texts[row]) if folded else texts[row]
        assert any(text.endswith(needle[:size]) for size in range(1, len(needle)))


PIECES = tuple(
    Piece(f"{file}.txt", f"größe {file} {part}\n" * 40, start_line=40 * part, start_byte=part * 1_000_000)
    for file in "abc"
    for part in range(40)
)
"""Some pages of texts; the long gaps between places are of no importance."""


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> BundlePaths:
    return write_bundle(tmp_path_factory.mktemp("texts"), PIECES)


def test_every_text_is_read_whole_also_across_pages(paths: BundlePaths) -> None:
    assert len(np.load(paths.rows / PAGES_FILE)) > 2
    with closing(Catalog.open(paths)) as catalog:
        for piece in PIECES:
            assert catalog.texts([piece.id]) == {piece.id: (piece.start_line, piece.text)}
        chunks = catalog.index.chunks[: len(PIECES)]
        assert catalog.stored_texts.text_of(chunks) == "".join(piece.text for piece in PIECES)
        assert catalog.holding(found_at("GRÖSSE b 39".casefold()), np.arange(len(PIECES)), folded=True).tolist() == []
        assert catalog.holding(found_at("größe b 39"), np.arange(len(PIECES)), folded=True).tolist() == [PIECES[79].id]
        assert catalog.line("quarry", "c.txt", 41) == catalog.line("quarry", "c.txt", 79) == "größe c 1".encode()
        assert catalog.line("quarry", "c.txt", 10**6) == catalog.line("quarry", "d.txt", 0) == b""


def damaged(paths: BundlePaths, folder: Path) -> BundlePaths:
    shutil.copytree(paths.path, folder)
    return BundlePaths(folder)


@pytest.mark.parametrize(
    ("field", "value"),
    [("offset", 1 << 40), ("offset", 0), ("size", 3), ("raw", 1 << 30), ("shard", 1), ("bytes", 7), ("start", -1)],
)
def test_a_page_that_is_elsewhere_is_damage(paths: BundlePaths, tmp_path: Path, field: str, value: int) -> None:
    copy = damaged(paths, tmp_path / "version")
    pages = np.load(copy.rows / PAGES_FILE)
    pages[field][1] = value
    np.save(copy.rows / PAGES_FILE, pages)
    with pytest.raises(IntegrityError), closing(MappedTexts.open(copy)) as texts:
        texts.of(0, 0, len("".join(piece.text for piece in PIECES).encode()))


@pytest.mark.parametrize("rest", [0, 500])
def test_a_table_that_is_cut_or_an_array_that_is_missing_is_damage(
    paths: BundlePaths, tmp_path: Path, rest: int
) -> None:
    copy = damaged(paths, tmp_path / "version")
    table = copy.table("chunks")
    table.write_bytes(table.read_bytes()[:rest])
    with closing(MappedTexts.open(copy)) as texts, pytest.raises(IntegrityError, match="not all there"):
        texts.of(0, 0, 10)
    (copy.rows / PAGES_FILE).unlink()
    with pytest.raises(IntegrityError, match="is missing"):
        MappedTexts.open(copy)


def test_a_page_that_would_inflate_without_measure_is_refused_before_it_is_read(
    paths: BundlePaths, tmp_path: Path
) -> None:
    copy = damaged(paths, tmp_path / "version")
    pages = np.load(copy.rows / PAGES_FILE)
    pages["raw"][0] = 1 << 30
    np.save(copy.rows / PAGES_FILE, pages)
    with pytest.raises(IntegrityError, match="is damaged"):
        MappedTexts.open(copy)

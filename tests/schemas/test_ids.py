"""Chunk ids: positive, 63 bits, dependent on every part of content and place."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from codequarry.schemas.ids import MAX_CHUNK_ID, chunk_id, parse_wire_id

parts = st.tuples(st.text(), st.text(), st.text(), st.binary(), st.integers(0, 1000))


@given(parts)
def test_ids_are_positive_and_fit_63_bits(place: tuple[str, str, str, bytes, int]) -> None:
    assert 1 <= chunk_id(*place) <= MAX_CHUNK_ID


@given(parts, parts)
def test_different_places_have_different_ids(
    one: tuple[str, str, str, bytes, int], two: tuple[str, str, str, bytes, int]
) -> None:
    assert (chunk_id(*one) == chunk_id(*two)) == (one == two)


def test_the_boundary_between_fields_counts() -> None:
    assert chunk_id("ab", "c", "", b"", 0) != chunk_id("a", "bc", "", b"", 0)


def test_an_id_never_changes() -> None:
    """Golden: a changed hash would orphan every id that a client holds."""
    assert chunk_id("quarry", "io/index.py", "Index.open", b"def open(self): ...\n", 0) == 2140554795542047889


@given(st.integers(1, MAX_CHUNK_ID))
def test_wire_ids_round_trip(value: int) -> None:
    assert parse_wire_id(str(value)) == value


@given(st.text())
def test_no_other_text_is_an_id(text: str) -> None:
    value = parse_wire_id(text)
    assert value is None or str(value) == text

"""Handles of chunks."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from codequarry.schemas.ids import MAX_CHUNK_ID
from codequarry.serving.catalog.handles import handle_of, ids_of_handle

ids = st.lists(st.integers(1, MAX_CHUNK_ID), min_size=1, max_size=60, unique=True)


@given(ids)
def test_a_handle_means_the_one_chunk_it_was_made_of(chunk_ids: list[int]) -> None:
    known = np.array(sorted(chunk_ids), np.int64)
    for one in known.tolist():
        handle = handle_of(one, known)
        assert ids_of_handle(handle, known) == [one]
        assert ids_of_handle(f"[{handle}]", known) == [one]


@given(ids, st.integers(0, 59), st.integers(1, 1 << 20))
def test_near_ids_get_longer_handles(chunk_ids: list[int], at: int, step: int) -> None:
    one = chunk_ids[at % len(chunk_ids)]
    known = np.array(sorted({*chunk_ids, min(one + step, MAX_CHUNK_ID)}), np.int64)
    assert ids_of_handle(handle_of(one, known), known) == [one]


def test_the_ends_of_the_range_have_handles() -> None:
    known = np.array([1, MAX_CHUNK_ID], np.int64)
    assert [ids_of_handle(handle_of(one, known), known) for one in known.tolist()] == [[1], [MAX_CHUNK_ID]]


def test_a_handle_is_short_and_a_chunk_that_is_gone_is_not_taken_for_another() -> None:
    generator = np.random.default_rng(5)
    known = np.unique(generator.integers(1, MAX_CHUNK_ID, 35_000, dtype=np.int64))
    handles = [handle_of(one, known) for one in known[:2_000].tolist()]
    assert {len(one) for one in handles} == {6}
    gone = generator.integers(1, MAX_CHUNK_ID, 2_000, dtype=np.int64)
    assert sum(bool(ids_of_handle(handle_of(one, known), known)) for one in gone.tolist()) <= 2


def test_what_is_no_handle_means_nothing() -> None:
    known = np.array([5], np.int64)
    for text in ("", "abc", "ABCD", "src/a.py", "a" * 14, "4611686018427387904", "абвг"):
        assert ids_of_handle(text, known) == []

"""The content-addressed stores: what goes in comes out, damage counts as absence, and what nobody uses can be swept."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codequarry.pipelines.store import content as content_store
from codequarry.pipelines.store.content import open_content_store
from codequarry.pipelines.store.syntax import open_syntax_store
from codequarry.pipelines.store.vectors import open_vector_store, text_key, vector_file
from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.settings.load import ChunkingSettings


def test_vectors_survive_reopening(tmp_path: Path) -> None:
    vectors = {text_key(str(n)): np.random.default_rng(n).random(8, np.float32) for n in range(1200)}
    with open_vector_store(tmp_path, "f", 8) as store:
        store.put(vectors.items())
    with open_vector_store(tmp_path, "f", 8) as store:
        found = store.get([*vectors, text_key("absent")])
    assert found.keys() == vectors.keys()
    assert all(np.array_equal(found[key], vectors[key]) for key in vectors)


def test_rounded_vectors_are_absent_for_those_who_need_them_exact(tmp_path: Path) -> None:
    vector, other = (np.random.default_rng(n).random(8, np.float32) for n in range(2))
    with open_vector_store(tmp_path, "f", 8) as store:
        store.put([(text_key("a"), vector)], rounded=True)
        store.put([(text_key("b"), other)])
        assert store.get([text_key("a"), text_key("b")]).keys() == {text_key("b")}
        found = store.get([text_key("a"), text_key("b")], rounded=True)
    assert found[text_key("a")].dtype == np.float32
    assert np.array_equal(found[text_key("a")], vector.astype(np.float16).astype(np.float32))
    assert np.array_equal(found[text_key("b")], other)


def test_encoders_do_not_share_vectors(tmp_path: Path) -> None:
    with open_vector_store(tmp_path, "one", 2) as store:
        store.put([(text_key("a"), np.ones(2, np.float32))])
    with open_vector_store(tmp_path, "two", 2) as store:
        assert store.get([text_key("a")]) == {}


def test_a_vector_takes_little_more_than_its_bytes(tmp_path: Path) -> None:
    vectors = {text_key(str(n)): np.random.default_rng(n).random(256, np.float32) for n in range(2_000)}
    with open_vector_store(tmp_path, "f", 256) as store:
        for start in range(0, len(vectors), 256):
            store.put(list(vectors.items())[start : start + 256])
    assert vector_file(tmp_path, "f").stat().st_size < 1.2 * 2_000 * 256 * 4


def test_an_entry_of_the_wrong_length_counts_as_absent(tmp_path: Path) -> None:
    with open_vector_store(tmp_path, "f", 2) as store:
        store.put([(text_key("a"), np.ones(3, np.float32)), (text_key("b"), np.ones(2, np.float32))])
        assert store.get([text_key("a"), text_key("b")]).keys() == {text_key("b")}


@settings(max_examples=30, deadline=None)
@given(at=st.integers(0, 200), mask=st.integers(1, 255))
def test_a_flipped_bit_in_an_entry_makes_it_absent_and_replaceable(
    tmp_path_factory: pytest.TempPathFactory, at: int, mask: int
) -> None:
    folder = tmp_path_factory.mktemp("store")
    key, vector = text_key("a"), np.arange(48, dtype=np.float32)
    with open_vector_store(folder, "f", 48) as store:
        store.put([(key, vector), (text_key("b"), vector)])
    with closing(sqlite3.connect(vector_file(folder, "f"))) as connection, connection:
        (value,) = connection.execute("SELECT value FROM entries WHERE key = ?", (key,)).fetchone()
        damaged = bytearray(value)
        damaged[at] ^= mask
        connection.execute("UPDATE entries SET value = ? WHERE key = ?", (bytes(damaged), key))
    with open_vector_store(folder, "f", 48) as store:
        assert store.get([key, text_key("b")]).keys() == {text_key("b")}
        store.put([(key, vector)])
        assert store.get([key])[key].tolist() == vector.tolist()


def test_a_file_that_is_no_database_is_replaced(tmp_path: Path) -> None:
    file = vector_file(tmp_path, "f")
    file.parent.mkdir()
    file.write_bytes(b"not a database, but long enough to look like one" * 50)
    with open_vector_store(tmp_path, "f", 2) as store:
        assert store.get([text_key("a")]) == {}
        store.put([(text_key("a"), np.ones(2, np.float32))])
        assert store.get([text_key("a")]).keys() == {text_key("a")}


@pytest.mark.parametrize("at", range(100, 65_536, 5_117))
def test_a_database_that_is_torn_open_loses_entries_and_nothing_else(tmp_path: Path, at: int) -> None:
    vectors = {text_key(str(n)): np.full(16, n, np.float32) for n in range(500)}
    with open_vector_store(tmp_path, "f", 16) as store:
        store.put(vectors.items())
    file = vector_file(tmp_path, "f")
    data = bytearray(file.read_bytes())
    data[at : at + 600] = b"\xff" * 600
    file.write_bytes(data)
    with open_vector_store(tmp_path, "f", 16) as store:
        found = store.get(list(vectors))
        assert all(np.array_equal(found[key], vectors[key]) for key in found)
        store.put(vectors.items())
        assert store.get(list(vectors)).keys() == vectors.keys()


def test_a_folder_that_cannot_be_made_is_refused_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "vectors").write_text("in the way")
    with pytest.raises(UnavailableError, match="cannot be used"), open_vector_store(tmp_path, "f", 2):
        pass


def test_answers_of_the_chunker_come_back_as_they_were(tmp_path: Path) -> None:
    answers = {bytes([n]) * 32: (f'{{"spans": [{n}]}}' * n).encode() for n in range(1, 40)}
    with open_syntax_store(tmp_path, ChunkingSettings()) as store:
        store.put(list(answers.items()))
        assert store.get([*answers, b"absent"]) == answers
    with open_syntax_store(tmp_path, ChunkingSettings(max_chars=1601)) as store:
        assert store.get(list(answers)) == {}


def test_a_sweep_drops_what_is_damaged_or_was_not_used_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "store.sqlite"
    monkeypatch.setattr(content_store, "_today", lambda: 1000)
    with open_content_store(file) as store:
        store.put([(key, key * 100) for key in (b"used", b"live", b"old", b"damaged")])
    monkeypatch.setattr(content_store, "_today", lambda: 1031)
    with open_content_store(file) as store:
        assert store.get([b"used"]) == {b"used": b"used" * 100}
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE entries SET value = x'00', used = 1031 WHERE key = ?", (b"damaged",))
    with open_content_store(file) as store:
        dry = store.sweep(frozenset({b"live"}), 30, dry_run=True)
        assert (dry.kept, dry.damaged, dry.unused) == (2, 1, 1)
        assert store.sweep(frozenset({b"live"}), 30, dry_run=False) == dry
        assert store.get([b"used", b"live", b"old", b"damaged"]).keys() == {b"used", b"live"}
        assert store.sweep(frozenset({b"live"}), 0, dry_run=False).kept == 1

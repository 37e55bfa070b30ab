"""The vector store: what goes in comes out, and damage counts as absence."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from codequarry.pipelines.vector_store import open_vector_store, text_key
from codequarry.schemas.errors import UnavailableError


def test_vectors_survive_reopening(tmp_path: Path) -> None:
    vectors = {text_key(str(n)): np.random.default_rng(n).random(8, np.float32) for n in range(1200)}
    with open_vector_store(tmp_path, "f", 8) as store:
        store.put(vectors.items())
    with open_vector_store(tmp_path, "f", 8) as store:
        found = store.get([*vectors, text_key("absent")])
    assert found.keys() == vectors.keys()
    assert all(np.array_equal(found[key], vectors[key]) for key in vectors)


def test_encoders_do_not_share_vectors(tmp_path: Path) -> None:
    with open_vector_store(tmp_path, "one", 2) as store:
        store.put([(text_key("a"), np.ones(2, np.float32))])
    with open_vector_store(tmp_path, "two", 2) as store:
        assert store.get([text_key("a")]) == {}


def test_an_entry_of_the_wrong_length_counts_as_absent(tmp_path: Path) -> None:
    with open_vector_store(tmp_path, "f", 2) as store:
        store.put([(text_key("a"), np.ones(2, np.float32)), (text_key("b"), np.ones(2, np.float32))])
    with closing(sqlite3.connect(tmp_path / "f.sqlite")) as connection, connection:
        connection.execute("UPDATE vectors SET vector = x'00' WHERE key = ?", (text_key("a"),))
    with open_vector_store(tmp_path, "f", 2) as store:
        assert store.get([text_key("a"), text_key("b")]).keys() == {text_key("b")}


def test_a_file_that_is_no_database_is_refused_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "f.sqlite").write_bytes(b"not a database, but long enough to look like one" * 50)
    with pytest.raises(UnavailableError, match="cannot be used") as caught, open_vector_store(tmp_path, "f", 2):
        pass
    assert "delete that file" in caught.value.suggestion

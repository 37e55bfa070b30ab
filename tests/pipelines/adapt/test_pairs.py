"""Pairs of documentation and code: each side hides what the other one says."""

from __future__ import annotations

import pytest

from codequarry.pipelines.adapt.pairs import pairs_of

PYTHON = b'''
def open_store(path, mode):
    """Open the store and check every entry of it."""
    handle = make_handle(path, mode)
    # Damaged entries are thrown away before anybody sees them.
    for entry in handle.entries():
        if entry.damaged:
            handle.remove(entry)
    return handle


def close_everything(store):
    for handle in store.handles:
        handle.flush()
        handle.close()
'''
GO = b"""package store

// Open reads the whole index into memory.
func Open(path string, size int) (*Store, error) {
	data, err := readAll(path, size)
	return newStore(data), err
}
"""


def test_pairs_of_a_file_hide_from_each_side_what_the_other_says() -> None:
    doc, block, name = sorted(pairs_of(PYTHON, "python"), key=lambda pair: ["doc", "block", "name"].index(pair.kind))
    assert (doc.text, doc.qualified_name) == ("Open the store and check every entry of it.", "open_store")
    assert doc.code.startswith("def open_store(path, mode):")
    assert "Open the store" not in doc.code
    assert block.text == "Damaged entries are thrown away before anybody sees them."
    assert block.code.splitlines()[0].strip() == "for entry in handle.entries():"
    assert (name.text, name.code.split()[:2]) == ("close_everything", ["for", "handle"])
    (above,) = pairs_of(GO, "go")
    assert (above.kind, above.text) == ("doc", "Open reads the whole index into memory.")
    assert above.code.startswith("func Open(path string")


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"def", b"# only a comment here\n", b"x = 1\n" * 1000])
def test_files_without_anything_to_learn(data: bytes) -> None:
    assert list(pairs_of(data, "python")) == []

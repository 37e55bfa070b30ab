"""Chunks and files of two versions compared: by id, then by text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from codequarry.serving.version.version_differences import (
    Chunk,
    ChunkChanges,
    VersionFile,
    by_repository,
    compare_chunks,
    compare_files,
)


def chunk(number: int, path: str = "a.py", text: str = "", name: str = "f", line: int = 0, repo: str = "app") -> Chunk:
    return Chunk(number, repo, path, name, text or str(number), line, line + 5)


def compared(before: list[Chunk], after: list[Chunk]) -> ChunkChanges:
    return compare_chunks({one.chunk_id: one for one in before}, {one.chunk_id: one for one in after})


def test_what_can_become_of_a_chunk() -> None:
    before = [chunk(1), chunk(2, line=10), chunk(3, text="same", path="old.py"), chunk(4)]
    after = [chunk(1), chunk(2, line=20), chunk(5, text="same", path="new.py"), chunk(6)]
    found = compared(before, after)
    assert found.unchanged == 1
    assert [(old.start_line, new.start_line) for old, new in found.shifted] == [(10, 20)]
    assert [(old.chunk_id, new.chunk_id) for old, new in found.moved] == [(3, 5)]
    assert [one.chunk_id for one in found.added] == [6]
    assert [one.chunk_id for one in found.removed] == [4]
    assert found.heirs() == {5: 3}
    counts = by_repository(found, {one.chunk_id: one for one in before}, {one.chunk_id: one for one in after})
    assert counts == {
        "app": {"before": 4, "after": 4, "added": 1, "removed": 1, "moved": 1, "shifted": 1, "unchanged": 1}
    }


def test_equal_texts_are_paired_within_their_file_first_and_under_their_name_next() -> None:
    before = [chunk(1, "x.py", "t", "one"), chunk(2, "y.py", "t", "two"), chunk(3, "z.py", "t", "three")]
    after = [chunk(11, "y.py", "t", "renamed"), chunk(12, "w.py", "t", "three"), chunk(13, "v.py", "t", "other")]
    found = compared(before, after)
    assert {old.chunk_id: new.chunk_id for old, new in found.moved} == {2: 11, 3: 12, 1: 13}


chunks = st.dictionaries(
    st.integers(1, 40),
    st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.sampled_from("pq"), st.integers(0, 3)),
    max_size=20,
)


@hypothesis_settings(deadline=None)
@given(chunks, chunks)
def test_every_chunk_is_told_of_once(before: dict, after: dict) -> None:
    sides = [
        {number: Chunk(number, repo, path, "f", text, line, line) for number, (repo, path, text, line) in side.items()}
        for side in (before, after)
    ]
    found = compare_chunks(*sides)
    kept = sides[0].keys() & sides[1].keys()
    assert found.unchanged + len(found.shifted) == len(kept)
    old = [one.chunk_id for one in found.removed] + [one.chunk_id for one, _ in found.moved]
    new = [one.chunk_id for one in found.added] + [one.chunk_id for _, one in found.moved]
    assert sorted(old) == sorted(sides[0].keys() - kept)
    assert sorted(new) == sorted(sides[1].keys() - kept)
    assert all(one.content_sha256 == other.content_sha256 for one, other in found.moved)
    # Nothing that could be paired is left over.
    assert not {one.content_sha256 for one in found.removed} & {one.content_sha256 for one in found.added}
    assert compare_chunks(sides[0], sides[0]).unchanged == len(sides[0])


def test_files() -> None:
    before = [
        VersionFile("app", "a", "1"),
        VersionFile("app", "b", "2"),
        VersionFile("app", "old", "3"),
        VersionFile("app", "gone", "4"),
    ]
    after = [
        VersionFile("app", "a", "1"),
        VersionFile("app", "b", "9"),
        VersionFile("lib", "new", "3"),
        VersionFile("app", "come", "5"),
    ]
    found = compare_files(before, after)
    assert [file.path for file in found.changed] == ["b"]
    assert [file.path for file in found.added] == ["come"]
    assert [file.path for file in found.removed] == ["gone"]
    assert [(old.path, new.path) for old, new in found.moved] == [("old", "new")]

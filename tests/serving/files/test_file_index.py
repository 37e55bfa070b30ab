from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codequarry.schemas.errors import IntegrityError, UnavailableError
from codequarry.schemas.ranking_profile import BUILT_IN, read_profile
from codequarry.serving.files.file_index import FileIndex, FileRow, card_evidence, name_words
from codequarry.serving.text.stems import stem

WORDS = ["session", "sessions", "pool", "parse", "parser", "http", "io", "request"]
names = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map("_".join)


def index(paths: list[str]) -> FileIndex:
    rows = [FileRow(row, "quarry", path, 0, 0) for row, path in enumerate(paths)]
    return FileIndex.build(rows, np.zeros((len(paths), 4), np.float32))


@given(
    st.lists(names, min_size=1, max_size=8, unique=True), st.lists(st.sampled_from([*WORDS, "requesting"]), max_size=4)
)
def test_cover_is_the_share_of_a_names_words(files: list[str], words: list[str]) -> None:
    stems = {stem(word) for word in words}
    cover = index([f"{name}.py" for name in files]).name_cover(stems)

    def near(word: str) -> bool:
        return any(
            word == asked or (min(len(word), len(asked)) >= 4 and (word.startswith(asked) or asked.startswith(word)))
            for asked in stems
        )

    for number, name in enumerate(files):
        own = [stem(word) for word in name_words(f"{name}.py")]
        assert cover[number] == pytest.approx(sum(map(near, own)) / len(own))


def test_an_index_written_is_the_one_read_and_the_same_bytes_again(tmp_path: Path) -> None:
    made = index(["lib/http.c", "lib/http.h", "src/session_pool.py"])
    made.write(tmp_path / "one")
    index(["lib/http.c", "lib/http.h", "src/session_pool.py"]).write(tmp_path / "two")
    assert {file.name: file.read_bytes() for file in (tmp_path / "one").iterdir()} == {
        file.name: file.read_bytes() for file in (tmp_path / "two").iterdir()
    }
    found = FileIndex.open(tmp_path / "one", np.arange(3), 4)
    assert found.names == made.names
    assert found.facts["header"].tolist() == [False, True, False]
    assert found.name_cover({"http"}).tolist() == made.name_cover({"http"}).tolist() == [1, 1, 0]


@pytest.mark.parametrize(
    "damage", ["names.txt", "offsets.npy", "postings.npy", "facts.npy", "cards.npy", "rows", "dim"]
)
def test_what_does_not_fit_is_refused(tmp_path: Path, damage: str) -> None:
    index(["a.py", "b.py"]).write(tmp_path / "files")
    if damage.endswith((".txt", ".npy")):
        (tmp_path / "files" / damage).write_bytes(b"\x93NUMPY")
    with pytest.raises(UnavailableError):
        FileIndex.open(
            tmp_path / "files", np.array([0, 2] if damage == "rows" else [0, 1]), 5 if damage == "dim" else 4
        )


def test_cards_are_compared_down_to_a_rank() -> None:
    rows = [FileRow(row, "quarry", f"{row}.py", 0, 0) for row in range(50)]
    cards = np.stack([np.linspace(1, 0, 50), np.zeros(50)], axis=1).astype(np.float32)
    found = card_evidence(FileIndex.build(rows, cards).similarity(np.array([1, 0], np.float32)))
    assert (found[0], found[30], found[49]) == (1, 0, 0)
    assert 0 < found[15] < 1


def test_cards_by_shard_answer_as_cards_in_one(tmp_path: Path) -> None:
    rows = [FileRow(row, "quarry", f"{row}.py", 0, 0) for row in range(40)]
    cards = np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32)
    whole = FileIndex.build(rows, cards)
    FileIndex.build(rows, cards, [row % 3 for row in range(40)]).write(tmp_path / "files")
    assert not (tmp_path / "files" / "cards.npy").exists()
    parted = FileIndex.open(tmp_path / "files", np.arange(40), 8)
    assert parted.similarity(cards[7]) == pytest.approx(whole.similarity(cards[7]), abs=1e-6)
    np.save(tmp_path / "files" / "cards.01.npy", cards[:2])
    with pytest.raises(UnavailableError):
        FileIndex.open(tmp_path / "files", np.arange(40), 8)


def test_a_profile_is_read_as_it_was_written_and_nothing_else() -> None:
    assert read_profile(BUILT_IN.model_dump_json().encode()) == BUILT_IN
    for broken in (b"", b"{}", b"[1]", b"\xff", b"[" * 10**5, BUILT_IN.model_dump_json(exclude={"file"}).encode()):
        with pytest.raises(IntegrityError):
            read_profile(broken)
    without = BUILT_IN.model_copy(update={"classes": {"topic": BUILT_IN.classes["topic"]}})
    with pytest.raises(IntegrityError, match="identifier"):
        read_profile(without.model_dump_json().encode())

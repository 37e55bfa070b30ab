"""References to files: every form in which people and programs write them."""

from __future__ import annotations

import pytest

from codequarry.schemas.errors import InvalidArgumentError, NotFoundError
from codequarry.serving.tools.browse.file_references import files_below, find_place, named_place
from tests.serving.bundles.corpus import HOSTILE


def place(engine, text: str) -> tuple[str, int, int, int]:
    directory = engine.bundle.directory
    found = find_place(directory, text)
    uri = f"{directory.repos[found.file]}/{directory.paths[found.file]}"
    return (uri, *found.reference[1:4])


STORE = "quarry/io/store.py"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("io/store.py", (0, 0, 0)),
        ("quarry/io/store.py", (0, 0, 0)),
        ("./io/store.py", (0, 0, 0)),
        ("  io/store.py:6\n", (6, 6, 0)),
        ("io/store.py:6-8", (6, 8, 0)),
        ("io/store.py:L6-L8", (6, 8, 0)),
        ("io/store.py:6:9", (6, 6, 9)),
        ("io/store.py:6:9: error: no such name", (6, 6, 9)),
        ("io/store.py:6:    def open(self, path):", (6, 6, 0)),
        ("io/store.py#L6-L8", (6, 8, 0)),
        ("io/store.py#L6", (6, 6, 0)),
        ("repo://quarry/io/store.py", (0, 0, 0)),
        ("repo://quarry/io/st%6Fre.py#L6-L8", (6, 8, 0)),
        ('  File "/home/me/app/io/store.py", line 6, in open', (6, 6, 0)),
        ('File "io/store.py", line 6', (6, 6, 0)),
        ("    at Store.open (/srv/app/io/store.py:6:9)", (6, 6, 9)),
        ("    at async Store.open (io/store.py:6:9)", (6, 6, 9)),
        ("    at io/store.py:6:9", (6, 6, 9)),
        ("  --> io/store.py:6:9", (6, 6, 9)),
        ("\t/go/src/io/store.py:6 +0x1b", (6, 6, 0)),
        ("webpack:///./io/store.py:6:9", (6, 6, 9)),
        ("C:\\work\\app\\io\\store.py:6", (6, 6, 0)),
        ("store.py:6", (6, 6, 0)),
    ],
)
def test_every_form_means_the_file_and_its_lines(symbol_engine, text: str, lines: tuple[int, int, int]) -> None:
    assert place(symbol_engine, text) == (STORE, *lines)


@pytest.mark.parametrize("text", ["io/store.py:0", "io/store.py:8-6", "io/store.py#L0-L3"])
def test_lines_that_cannot_exist_are_refused(symbol_engine, text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="counted from 1"):
        find_place(symbol_engine.bundle.directory, text)


def test_a_folder_is_told_from_a_file_that_is_not_there(symbol_engine) -> None:
    directory = symbol_engine.bundle.directory
    with pytest.raises(NotFoundError, match="folder"):
        find_place(directory, "io")
    with pytest.raises(NotFoundError, match="no such file") as refused:
        find_place(directory, "elsewhere/index.py:3")
    assert "quarry/io/index.py" in refused.value.suggestion
    with pytest.raises(NotFoundError, match="no such file"):
        find_place(directory, "../../etc/passwd")


def test_a_link_without_the_odd_characters_of_its_path_means_the_file(lexical_engine) -> None:
    link = "repo://quarry/docs/ab%20%07%2523.md".replace("%07", "")
    assert place(lexical_engine, link)[0] == f"quarry/{HOSTILE.path}"


def test_only_places_in_files_are_named_places(symbol_engine) -> None:
    directory = symbol_engine.bundle.directory
    assert named_place(directory, "io/store.py:6").reference.first == 6
    for text in ("open", "Index.open", "io/store.py", "std::vector:10", "nope.py:3"):
        assert named_place(directory, text) is None


@pytest.mark.parametrize(
    ("path", "count"), [("", 6), (".", 6), ("io", 2), ("quarry/io/", 2), ("repo://quarry/io", 2), ("gateway", 1)]
)
def test_files_below_a_folder(symbol_engine, path: str, count: int) -> None:
    assert files_below(symbol_engine.bundle.directory, path).sum() == count


def test_no_file_is_below_a_folder_that_is_not_there(symbol_engine) -> None:
    assert files_below(symbol_engine.bundle.directory, "i") is None

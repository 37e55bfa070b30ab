"""Lines that all answers share."""

from __future__ import annotations

from codequarry.schemas.wire.search import BundleInfo
from codequarry.serving.render.lines import footer, numbered, place, shown_path

ONE = BundleInfo(version="v1", created="", commits={"app": "3f2c1ab0d9e8+dirty"})
TWO = BundleInfo(version="v1", created="", commits={"app": "3f2c1ab0d9e8", "lib": ""})


def test_the_repository_stands_in_front_only_where_there_are_several() -> None:
    assert shown_path("app/src/a.py", ONE) == "src/a.py"
    assert shown_path("app/src/a.py", TWO) == "app/src/a.py"


def test_a_path_cannot_turn_the_line_around() -> None:
    assert place(shown_path("app/src/\u202egnp.exe\n", ONE), 0, 1) == "src/gnp.exe:1-2"


def test_numbers_are_aligned() -> None:
    assert numbered(["a", "", "b"], 8) == [" 9 | a", "10 |", "11 | b"]


def test_the_last_lines_name_the_repositories_of_the_answer_and_its_limits() -> None:
    assert footer(TWO, ["lib/a.c", "lib/b.c"], ["2 of 9", ""], ["raise limit"]) == ["lib · 2 of 9", "note: raise limit"]
    assert footer(ONE, [], [], []) == ["app@3f2c1ab+dirty"]

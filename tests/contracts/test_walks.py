"""A newcomer's walks in CONTRIBUTING.md: few steps, and each names files and names that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
WALKS = dict(
    re.findall(
        r"^## (Add a [\w ]+)\n(.*?)(?=^## |\Z)", (PROJECT / "CONTRIBUTING.md").read_text(), re.MULTILINE | re.DOTALL
    )
)
_LINK = re.compile(r"\]\(([^)#\s]+)")
_NAME = re.compile(r"`([A-Za-z_]\w+)`")


def lists_of(walk: str) -> list[list[str]]:
    """The numbered lists of a walk, each as its steps."""
    lists: list[list[str]] = []
    for number, step in re.findall(r"^(\d+)\. (.*?)(?=^\d+\. |^\n|^$|\Z)", walk, re.MULTILINE | re.DOTALL):
        if number == "1":
            lists.append([])
        lists[-1].append(step)
    return lists


def text_of(place: Path) -> str:
    files = [place] if place.is_file() else sorted(place.rglob("*.py"))
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def test_there_are_the_four_walks() -> None:
    assert WALKS.keys() == {"Add a language", "Add a check", "Add a channel", "Add a tool"}


@pytest.mark.parametrize("walk", WALKS)
def test_every_file_on_the_way_exists(walk: str) -> None:
    links = _LINK.findall(WALKS[walk])
    assert links
    assert [link for link in links if not (PROJECT / link).exists()] == []


@pytest.mark.parametrize("walk", ["Add a channel", "Add a tool"])
def test_a_walk_takes_at_most_three_files(walk: str) -> None:
    assert [len(steps) for steps in lists_of(WALKS[walk]) if len(steps) > 3] == []


@pytest.mark.parametrize("walk", WALKS)
def test_the_names_of_a_step_are_in_its_files(walk: str) -> None:
    missing = [
        (name, step)
        for steps in lists_of(WALKS[walk])
        for step in steps
        for name in _NAME.findall(step)
        if _LINK.findall(step)
        and not any(
            re.search(rf"\b{name}\b", text_of(PROJECT / link))
            for link in _LINK.findall(step)
            if (PROJECT / link).exists()
        )
    ]
    assert missing == []

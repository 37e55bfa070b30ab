"""docs/WALKTHROUGH.md is what happens: its commands run in order, and print what it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipelines.cli.walkthrough import PAGE, SERVE, WATCH, Comparison, read_steps, walking

IDENTITY = {
    "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null",
    **{f"GIT_{who}_{key}": f"me@{key}" for who in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")},
}  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder of somebody who has nothing yet."""
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "CODEQUARRY_HOME", "CODEQUARRY_SETTINGS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {**IDENTITY, "HOME": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    return tmp_path


@pytest.mark.slow
def test_the_walk_through_is_what_happens(home: Path, shared_store: Path) -> None:
    steps = read_steps(PAGE.read_text(encoding="utf-8"))
    commands = [step.command for step in steps]
    assert WATCH in commands and SERVE in commands
    with walking(home, shared_store) as walk:
        for step in steps:
            printed = walk.take(step)
            same = printed == step.printed or walk.comparison.matches(step.printed, printed)
            assert same, f"$ {step.command}\nshown:\n{step.printed}\nprinted:\n{printed}"


SHOWN = """…
published 20261125T133149Z-3cb0e6f4
20261125T133215Z-19dde8c1: tea 2acffe531db7  3 s  5.3 MB
  delta over 20261125T133149Z-3cb0e6f4
"""
OTHER = """any line
published 20270101T000000Z-00000000
20270101T000001Z-11111111: tea 0123456789ab  10 s  800 kB
  delta over 20270101T000000Z-00000000
"""


def test_another_run_of_the_same_is_the_same() -> None:
    comparison = Comparison()
    assert comparison.matches(SHOWN, OTHER)
    assert comparison.matches("at 2acffe531db7\n", "at 0123456789ab\n")
    assert not comparison.matches("at 2acffe531db7\n", "at 00000000000a\n"), "another commit than before"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("delta over 20270101T000000Z", "delta over 20270101T000001Z"),
        ("11111111: tea", "11111111: coffee"),
        ("10 s  ", ""),
        ("\n20270101T000001Z", "\none more\n20270101T000001Z"),
        ("20270101T000001Z-11111111", "20270101T000000Z-00000000"),
    ],
    ids=["another-base", "another-name", "less", "more", "two-are-one"],
)
def test_what_is_not_as_shown_is_found(old: str, new: str) -> None:
    assert old in OTHER
    assert not Comparison().matches(SHOWN, OTHER.replace(old, new))


def test_a_page_that_cannot_be_run_is_refused() -> None:
    for page in ("```bash\nls\n```\n", "```console\nprinted\n$ ls\n```\n", '```json\n{"name": ""}\n```\n'):
        with pytest.raises(AssertionError):
            read_steps(page)

"""Answers longer than the screen go through the pager; others, and those that programs read, do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipelines.conftest import Run
from tools.pictures.terminal import run_in_terminal


@pytest.fixture
def folder(run: Run, tmp_path: Path) -> Path:
    """An indexed folder with a file of 200 lines, and a pager that writes down what it is given."""
    here = tmp_path / "cwd"
    (here / "tea.py").write_text("".join(f"cup_{number} = brew({number})\n" for number in range(200)))
    assert run("index").returncode == 0
    pager = tmp_path / "pager"
    pager.write_text(f'#!/bin/sh\necho "options $LESS"\ntee {tmp_path / "paged.txt"}\n')
    pager.chmod(0o755)
    return here


def test_a_long_answer_is_paged_with_its_notes_and_colours(folder: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delenv("LESS", raising=False)
    screen = run_in_terminal(["fetch", "tea.py"], folder, 80, pager=str(tmp_path / "pager"))
    paged = (tmp_path / "paged.txt").read_text()
    assert screen.code == 0 and screen.lines[0] == "options FRX"
    assert paged.count("brew") == 200 and "\x1b[" in paged


def test_notes_keep_their_place_after_a_long_answer(folder: Path, tmp_path: Path) -> None:
    assert run_in_terminal(["grep", "brew(", "-C", "1"], folder, 80, pager=str(tmp_path / "pager")).code == 0
    assert (tmp_path / "paged.txt").read_text().splitlines()[-1].startswith("note: ")


def test_a_short_answer_is_printed_in_order(folder: Path, tmp_path: Path) -> None:
    screen = run_in_terminal(["grep", "brew(7)"], folder, 80, pager=str(tmp_path / "pager"))
    assert screen.code == 0 and not (tmp_path / "paged.txt").exists()
    assert [line for line in screen.lines if line] == ["tea.py:8:9: cup_7 = brew(7)", "note: 1 match in 1 file"]


@pytest.mark.parametrize("pager", ["cat", "", "/no/such/pager", "less 'unbalanced"])
def test_without_a_pager_everything_is_printed(folder: Path, pager: str) -> None:
    screen = run_in_terminal(["fetch", "tea.py"], folder, 80, pager=pager)
    assert sum("brew" in line for line in screen.lines) == 200


def test_the_option_and_pipes_leave_the_pager_out(folder: Path, run: Run, tmp_path: Path, monkeypatch) -> None:
    pager = str(tmp_path / "pager")
    screen = run_in_terminal(["--no-pager", "fetch", "tea.py"], folder, 80, pager=pager)
    assert sum("brew" in line for line in screen.lines) == 200
    monkeypatch.setenv("PAGER", pager)
    assert run("fetch", "tea.py").stdout.count("brew") == 200
    assert not (tmp_path / "paged.txt").exists()


def test_leaving_the_pager_early_ends_the_command_without_an_error(folder: Path, tmp_path: Path) -> None:
    early = tmp_path / "early"
    early.write_text("#!/bin/sh\nhead -n 3\n")
    early.chmod(0o755)
    screen = run_in_terminal(["fetch", "tea.py"], folder, 80, pager=str(early))
    assert screen.code == 0 and "cup_0" in screen.lines[1]
    assert "rror" not in "\n".join(screen.lines)


def test_an_error_is_shown_and_keeps_its_code(folder: Path, tmp_path: Path) -> None:
    screen = run_in_terminal(["search", "tea", "--channel", "smell"], folder, 80, pager=str(tmp_path / "pager"))
    assert screen.code == 2 and screen.lines[0].startswith("error: --channel")

"""`codequarry open` starts the editor where the last search, a place or a name says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipelines.conftest import Run
from tools.pictures.terminal import run_in_terminal


@pytest.fixture
def editor(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an editor that writes down its arguments, in a folder with an indexed file."""
    (tmp_path / "cwd" / "src").mkdir()
    (tmp_path / "cwd" / "src" / "tea.py").write_text("CUPS = 3\n\n\ndef pour_tea(cup):\n    return cup + 1\n")
    (tmp_path / "cwd" / "coffee.py").write_text("def grind_beans(beans):\n    return beans\n")
    told = tmp_path / "told.txt"
    for name in ("vi", "code"):
        script = tmp_path / name
        script.write_text(f'#!/bin/sh\necho "$@" > {told}\n')
        script.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(tmp_path / "vi"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("VISUAL", raising=False)
    assert run("index").returncode == 0
    return told


def test_a_result_of_the_last_search_a_place_and_a_name(run: Run, editor: Path, tmp_path: Path, monkeypatch) -> None:
    file = tmp_path / "cwd" / "src" / "tea.py"
    none = run("open", 1)
    assert none.returncode == 1 and "no search is remembered" in none.stderr
    assert run("search", "pour tea").returncode == 0  # into a pipe: a program reads it, and opens nothing
    assert run("open", 1).returncode == 1
    screen = run_in_terminal(["search", "pour_tea"], tmp_path / "cwd", 80)
    assert screen.code == 0 and screen.lines[0].startswith("src/tea.py:")
    line = screen.lines[0].split(" ")[0].partition(":")[2]
    assert run("open", 1).returncode == 0
    assert editor.read_text() == f"+{line} {file}\n"
    assert "there is no result 9: the last search had" in run("open", 9).stderr

    monkeypatch.setenv("EDITOR", f"{tmp_path / 'code'} --wait")
    assert run("open", "src/tea.py:4-5").returncode == 0
    assert editor.read_text() == f"--wait --goto {file}:4\n"
    assert run("open", "grind_beans").returncode == 0
    assert editor.read_text() == f"--wait --goto {tmp_path / 'cwd' / 'coffee.py'}:1\n"
    assert "no file here and no definition" in run("open", "brew").stderr


def test_an_editor_that_is_not_there_is_said(run: Run, editor: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("EDITOR", str(tmp_path / "nothing"))
    done = run("open", "coffee.py")
    assert done.returncode == 2 and "cannot be started" in done.stderr
    monkeypatch.delenv("EDITOR")
    assert "export EDITOR=vim" in run("open", "coffee.py").stderr

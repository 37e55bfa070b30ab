"""Files of clients: links, modes, and other programs that write at the same time."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from codequarry.schemas.errors import InvalidArgumentError, UnavailableError
from codequarry.serving.cli.install import config_files
from codequarry.serving.cli.install.config_files import read_config, real_file, remove_config, write_config


def test_a_link_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    real = tmp_path / "dotfiles" / "mcp.json"
    real.write_text("{}")
    link = tmp_path / "mcp.json"
    link.symlink_to(real)
    file = real_file(link)
    write_config(file, read_config(file), "{ }", private=True)
    assert link.is_symlink()
    assert real.read_text() == "{ }"


def test_links_out_of_a_project_and_to_nowhere_are_refused(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "outside").mkdir()
    (project / ".cursor").symlink_to(tmp_path / "outside")
    with pytest.raises(InvalidArgumentError):
        real_file(project / ".cursor" / "mcp.json", project)
    (project / "gone").symlink_to(tmp_path / "gone")
    with pytest.raises(InvalidArgumentError):
        real_file(project / "gone")


def test_the_mode_is_kept_and_nothing_else_is_left(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b" / "mcp.json"
    assert write_config(file, None, "one", private=True) == [str(tmp_path / "a"), str(tmp_path / "a" / "b")]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o640)
    assert write_config(file, "one", "two", private=True) == []
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert os.listdir(file.parent) == ["mcp.json"]
    remove_config(file, [str(tmp_path / "a"), str(tmp_path / "a" / "b")])
    assert os.listdir(tmp_path) == []


def test_line_ends_and_marks_are_read_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes("\ufeff{\r\n}".encode())
    text = read_config(file)
    assert text == "\ufeff{\r\n}"
    write_config(file, text, text + "\n", private=True)
    assert file.read_bytes() == "\ufeff{\r\n}\n".encode()


@pytest.mark.parametrize("kind", ["folder", "pipe", "latin"])
def test_what_is_no_text_is_refused(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "f"
    if kind == "folder":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    else:
        file.write_bytes(b"\xff")
    with pytest.raises((InvalidArgumentError, IsADirectoryError)):
        read_config(file)


def test_a_change_of_another_program_meanwhile_is_not_lost(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("newer")
    with pytest.raises(UnavailableError):
        write_config(file, "read before", "mine", private=True)
    assert file.read_text() == "newer"
    assert os.listdir(tmp_path) == ["f"]


def test_a_disk_that_is_full_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "f"
    file.write_text("old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(config_files.os, "fsync", full)
    with pytest.raises(UnavailableError):
        write_config(file, "old", "new", private=True)
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == ["f"]

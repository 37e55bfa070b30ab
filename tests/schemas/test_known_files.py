"""Digests that a build remembers are those of the bytes that are there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from codequarry.schemas import known_files
from codequarry.schemas.integrity import file_sha256
from codequarry.schemas.known_files import known_sha256, note_sha256


def test_a_file_is_read_once_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []

    def counted(path: Path) -> str:
        read.append(path)
        return file_sha256(path)

    monkeypatch.setattr(known_files, "file_sha256", counted)
    file = tmp_path / "a"
    file.write_bytes(b"one")
    assert known_sha256(file) == known_sha256(file) == file_sha256(file)
    assert len(read) == 1

    times = file.stat()
    _wait_for_the_clock(tmp_path, times.st_ctime_ns)
    file.write_bytes(b"two")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))  # who hides a change cannot hide this one
    assert known_sha256(file) == file_sha256(file)
    assert len(read) == 2


def test_a_link_is_known_when_it_was_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, link = tmp_path / "a", tmp_path / "b"
    file.write_bytes(b"one")
    digest = known_sha256(file)
    os.link(file, link)
    note_sha256(link, digest)
    monkeypatch.setattr(known_files, "file_sha256", lambda path: pytest.fail(f"{path} was read again"))
    assert known_sha256(link) == known_sha256(file) == digest


def test_what_is_remembered_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_files, "_MOST", 2)
    monkeypatch.setattr(known_files, "_known", {})
    for number in range(5):
        (tmp_path / str(number)).write_bytes(bytes([number]))
        known_sha256(tmp_path / str(number))
        assert len(known_files._known) <= 2


def _wait_for_the_clock(folder: Path, after_ns: int) -> None:
    """Until a file that is written now has a later time of change; file systems count in ticks of milliseconds."""
    probe = folder / "probe"
    while True:
        probe.write_bytes(b"")
        if probe.stat().st_ctime_ns > after_ns:
            return

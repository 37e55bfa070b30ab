"""What is said to be on the disk has left the drive's cache, where the system tells the two apart."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from codequarry.pipelines.store.durable import new_file, sync, write_all, write_line
from codequarry.schemas.bundle.layout import Current

FULL = 51


class Drive:
    """`fcntl` of macOS."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.synced: list[int] = []
        self.error = 0
        monkeypatch.setattr(fcntl, "F_FULLFSYNC", FULL, raising=False)
        monkeypatch.setattr(fcntl, "fcntl", self)

    def __call__(self, descriptor: int, command: int, *_: object) -> int:
        assert command == FULL
        self.synced.append(os.fstat(descriptor).st_ino)
        if self.error:
            raise OSError(self.error, os.strerror(self.error))
        return 0


def test_the_drive_is_told_to_empty_its_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drive = Drive(monkeypatch)
    target = tmp_path / "CURRENT"
    write_line(target, Current("20260101T000000Z-0123abcd", "0" * 64))
    assert drive.synced == [target.stat().st_ino, tmp_path.stat().st_ino]
    with new_file(tmp_path / "a.tar") as descriptor:
        write_all(descriptor, b"a")
    assert drive.synced[2:] == [(tmp_path / "a.tar").stat().st_ino, tmp_path.stat().st_ino]


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTSUP, errno.ENOTTY])
def test_a_file_system_without_the_call_is_synced_as_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    drive = Drive(monkeypatch)
    drive.error = code
    sync(tmp_path)
    assert len(drive.synced) == 1


def test_a_drive_that_fails_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Drive(monkeypatch).error = errno.EIO
    with pytest.raises(OSError, match="Input/output"):
        sync(tmp_path)
    with pytest.raises(OSError, match="Input/output"), new_file(tmp_path / "a.tar"):
        pass
    assert list(tmp_path.iterdir()) == []

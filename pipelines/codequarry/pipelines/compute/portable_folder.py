"""A folder as one object that travels between machines: the files that changed, and the names of those that went.

The archive is an uncompressed tar: most files are Parquet, which is compressed already.
"""

from __future__ import annotations

import io
import os
import stat
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from codequarry.pipelines.store.workspace import replacing

FileState = tuple[int, int, int]
"""Size in bytes, time of the last change in ns, and inode: another state is another content."""


@dataclass(frozen=True, slots=True)
class FolderChanges:
    """Difference between two states of a folder."""

    archive: memoryview
    """Tar of new and changed files; uint8."""
    removed: tuple[str, ...]
    """Relative paths of files that went."""


def list_states(folder: Path) -> dict[str, FileState]:
    """Return the state of each regular file below a folder, by relative path.

    Args:
        folder: The folder; one that is not there has no files.

    Returns:
        States by path, in order. Links are left out.
    """
    states: dict[str, FileState] = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            status = os.lstat(path)
            if stat.S_ISREG(status.st_mode):
                states[os.path.relpath(path, folder)] = (status.st_size, status.st_mtime_ns, status.st_ino)
    return dict(sorted(states.items()))


def pack_changes(folder: Path, before: Mapping[str, FileState]) -> FolderChanges:
    """Return the difference between a folder now and an earlier state.

    Args:
        folder: The folder.
        before: Its earlier state; empty for a folder that travels as a whole.

    Returns:
        The changes, held in memory.

    Raises:
        OSError: A file cannot be read.
    """
    now = list_states(folder)
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, state in now.items():
            if before.get(name) != state:
                archive.add(folder / name, name, recursive=False)
    return FolderChanges(stream.getbuffer(), tuple(before.keys() - now.keys()))


def apply_changes(folder: Path, archive: bytes | memoryview, removed: Iterable[str] = ()) -> None:
    """Make a folder what it is elsewhere; each file is replaced as a whole.

    Args:
        folder: The folder, created when missing.
        archive: Tar of the files that changed.
        removed: Relative paths of files that went.

    Raises:
        UnavailableError: A file cannot be written.
        ValueError: A path leads out of the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in removed:
        _require_inside(name)
        (folder / name).unlink(missing_ok=True)
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r") as files:
        for member in files:
            _require_inside(member.name)
            content = files.extractfile(member)
            if content is None:
                raise ValueError(f"{member.name!r} of an archive is no regular file")
            with replacing(folder / member.name) as temporary, open(temporary, "wb") as stream:
                while block := content.read(1 << 20):
                    stream.write(block)


def _require_inside(name: str) -> None:
    if os.path.isabs(name) or ".." in Path(name).parts or not name:
        raise ValueError(f"{name!r} of an archive leads out of its folder")

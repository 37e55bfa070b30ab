"""Reading which paths a git work tree tracks, out of its index file and without git.

The commands that ask this start no process. Format: ``gitformat-index(5)``, versions 2 to 4, SHA-1 and SHA-256, split
indexes included. An index that cannot be read raises: nothing is known of what it tracks.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

from codequarry.schemas.errors import SourceError

_SIGNATURE = b"DIRC"
_STAT_BYTES = 40
_EXTENDED = 0x4000
_LINK_LENGTHS = (20, 32)
"""Bytes of an object id: SHA-1, SHA-256."""
_MOST_BYTES = 1 << 30


def git_top(folder: Path) -> Path | None:
    """Return the nearest folder at or above one that has a ``.git``; None when there is none."""
    return next((each for each in (folder, *folder.parents) if os.path.lexists(each / ".git")), None)


def tracked_below(folder: Path, top: Path) -> str:
    """Return one path that git tracks at or below a folder.

    Letter case does not count, as some file systems ignore it.

    Args:
        folder: Resolved folder below the top.
        top: Resolved top of the work tree.

    Returns:
        A path relative to the top; "" when there is none.

    Raises:
        SourceError: The index cannot be read.
    """
    sought = os.fsencode(folder.relative_to(top)).lower()
    for data in _indexes(top):
        # Names stand in full before version 4, so that most indexes are done with after one search for the bytes.
        whole = data[4:8] in (b"\0\0\0\2", b"\0\0\0\3")
        if whole and not any(sought + end in data.lower() for end in (b"/", b"\0")):
            continue
        for path in _paths(data, top):
            if path.lower() == sought or path.lower().startswith(sought + b"/"):
                return os.fsdecode(path)
    return ""


def tracked_paths(top: Path) -> Iterator[bytes]:
    """Yield the path of every file that git tracks.

    Args:
        top: Top of the work tree.

    Yields:
        Paths relative to the top, as their bytes.

    Raises:
        SourceError: The index cannot be read.
    """
    for data in _indexes(top):
        yield from _paths(data, top)


def _indexes(top: Path) -> list[bytes]:
    """Return the index of a work tree, and the base that it is split from."""
    folder = git_folder(top)
    raw = _read(folder / "index")
    return [each for each in (raw, *_shared(raw, folder)) if each]


def git_folder(top: Path) -> Path:
    """Return the folder behind ``.git``, which is a file in linked work trees and submodules.

    Args:
        top: Top of the work tree.

    Returns:
        The folder.

    Raises:
        SourceError: The file cannot be read.
    """
    link = top / ".git"
    if link.is_dir():
        return link
    text = _read(link).decode("utf-8", "surrogateescape").strip()
    if not text.startswith("gitdir: "):
        raise _unreadable(link)
    return top / text.removeprefix("gitdir: ")


def _read(file: Path) -> bytes:
    try:
        if not file.exists():
            return b""
        if not file.is_file() or file.stat().st_size > _MOST_BYTES:
            raise _unreadable(file)
        return file.read_bytes()
    except OSError as error:
        raise _unreadable(file) from error


def _shared(data: bytes, folder: Path) -> Iterator[bytes]:
    """Yield the base of a split index, which holds most of the entries."""
    at = data.rfind(b"link")
    for length in _LINK_LENGTHS if at > 0 else ():
        name = data[at + 8 : at + 8 + length].hex()
        yield _read(folder / f"sharedindex.{name}")


def _paths(data: bytes, top: Path) -> Iterator[bytes]:
    """Return the path of every entry of an index."""
    for length in _LINK_LENGTHS:
        paths = _entries(data, length)
        if paths is not None:
            return iter(paths)
    raise _unreadable(top / ".git" / "index")


def _entries(data: bytes, oid_bytes: int) -> list[bytes] | None:
    """Return the paths of an index whose object ids have that length; None when the file does not fit that length."""
    if data[:4] != _SIGNATURE or len(data) < 12 + oid_bytes:
        return None
    version, count = struct.unpack_from(">II", data, 4)
    at, end, path = 12, len(data) - oid_bytes, b""
    paths: list[bytes] = []
    for _ in range(count):
        start = at
        at += _STAT_BYTES + oid_bytes
        if at + 2 > end or version not in (2, 3, 4):
            return None
        (flags,) = struct.unpack_from(">H", data, at)
        at += 4 if flags & _EXTENDED else 2
        if version == 4:
            keep = len(path)
            removed, at = _varint(data, at)
            keep -= removed
        else:
            keep = 0
        stop = data.find(b"\0", at, end)
        if stop < 0 or keep < 0:
            return None
        path = path[:keep] + data[at:stop]
        at = stop + 1 if version == 4 else start + (stop - start) // 8 * 8 + 8
        paths.append(path)
    return paths if _extensions_fit(data, at, end) else None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Decode a number in git's OFS_DELTA form, and return it with the offset of its end."""
    byte = data[at]
    value, at = byte & 0x7F, at + 1
    while byte & 0x80 and at < len(data):
        byte, at = data[at], at + 1
        value = ((value + 1) << 7) | (byte & 0x7F)
    return value, at


def _extensions_fit(data: bytes, at: int, end: int) -> bool:
    while at + 8 <= end:
        at += 8 + int.from_bytes(data[at + 4 : at + 8], "big")
    return at == end


def _unreadable(file: Path) -> SourceError:
    return SourceError(
        f"{file} cannot be read as git's, so it is not known what the repository tracks",
        suggestion="run `git status` there; repair or remove the repository",
    )

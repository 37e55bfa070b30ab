"""Unpacking of an archive: each file has to be the next one of the manifest."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from codequarry.pipelines.publish.archive.format import (
    END,
    archive_size,
    described,
    expect,
    header,
    padding,
    read_manifest_member,
)
from codequarry.pipelines.store.durable import write_all
from codequarry.pipelines.store.workspace import Progress, silent
from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.bundle.manifest import FileEntry, Manifest
from codequarry.schemas.errors import IntegrityError, UnavailableError
from codequarry.schemas.resources import raise_if_exhausted

_PIECE = 1 << 20


@contextmanager
def opened_archive(file: Path) -> Iterator[tuple[BinaryIO, bytes, Manifest]]:
    """Open an archive, check its length, and read it up to its first file.

    Args:
        file: The archive.

    Yields:
        The stream, and the manifest as bytes and parsed.

    Raises:
        UnavailableError: The file cannot be opened.
        IntegrityError: As `read_manifest_member` does; or the length is not the one the manifest says.
        FormatError: As `read_manifest_member` does.
    """
    try:
        stream = open(file, "rb", opener=_without_waiting)  # noqa: SIM115 - closed below
    except OSError as error:
        raise_if_exhausted(error, f"{file} cannot be read now")
        raise _unreadable(file, error) from error
    with stream:
        try:
            raw, manifest = _start(file, stream)
        except OSError as error:
            raise_if_exhausted(error, f"{file} cannot be read now")
            raise _unreadable(file, error) from error
        yield stream, raw, manifest


def _without_waiting(path: str, flags: int) -> int:
    """Open a file without waiting for the writer of a pipe, which is refused afterwards."""
    return os.open(path, flags | os.O_NONBLOCK)


def _start(file: Path, stream: BinaryIO) -> tuple[bytes, Manifest]:
    found = os.fstat(stream.fileno())
    if not stat.S_ISREG(found.st_mode):
        raise UnavailableError(
            f"{file} is no regular file", suggestion="write the archive into a file first, and import that"
        )
    raw, manifest = read_manifest_member(stream)
    expected = archive_size(len(raw), manifest.files)
    if found.st_size != expected:
        raise IntegrityError(
            f"{file} has {found.st_size:,} bytes, expected {expected:,} by its manifest: "
            + ("the rest is missing" if found.st_size < expected else "something follows"),
            suggestion="copy or export the archive again; CURRENT is unchanged",
        )
    return raw, manifest


def _unreadable(file: Path, error: OSError) -> UnavailableError:
    return UnavailableError(
        f"{file} cannot be read: {error.strerror}", suggestion="name a file that `codequarry export` wrote"
    )


def unpack(stream: BinaryIO, raw: bytes, manifest: Manifest, folder: Path, progress: Progress = silent) -> None:
    """Write the files of an archive into an empty folder, and the manifest last; nothing is synced.

    Args:
        stream: Archive whose first member was read.
        raw: Bytes of that member.
        manifest: The manifest.
        folder: The folder.
        progress: Told of the megabytes unpacked.

    Raises:
        IntegrityError: The archive differs from the manifest's files, byte for byte in its order, and the end.
        OSError: The disk refuses.
    """
    done, total = 0, manifest.size_bytes

    def add_progress(size: int) -> None:
        nonlocal done
        done += size
        progress("unpacking, MB", done // 1_000_000, total // 1_000_000)

    for entry in manifest.files:
        what = f"the file {entry.path!r} of {entry.size_bytes} bytes"
        expect(stream, header(entry.path, entry.size_bytes), what)
        path = folder / entry.path
        path.parent.mkdir(parents=True, exist_ok=True)
        with _new(path) as descriptor:
            _copy(stream, descriptor, entry, add_progress)
        expect(stream, padding(entry.size_bytes), f"zeros behind {what}")
    expect(stream, END, "the end")
    if more := stream.read(1):
        raise IntegrityError(
            f"the archive does not end behind its last file: found {described(more)}",
            suggestion="copy or export the archive again; CURRENT is unchanged",
        )
    with _new(BundlePaths(folder).manifest) as descriptor:
        write_all(descriptor, raw)


def _copy(stream: BinaryIO, descriptor: int, entry: FileEntry, add_progress: Callable[[int], None]) -> None:
    digest, left = hashlib.sha256(), entry.size_bytes
    while left and (piece := stream.read(min(left, _PIECE))):
        write_all(descriptor, piece)
        digest.update(piece)
        left -= len(piece)
        add_progress(len(piece))
    if left or digest.hexdigest() != entry.sha256:
        found = f"the archive ends {left} bytes early" if left else f"sha256 {digest.hexdigest()[:12]}…"
        raise IntegrityError(
            f"{entry.path} is damaged in the archive: {found}, expected sha256 {entry.sha256[:12]}…",
            suggestion="copy or export the archive again; CURRENT is unchanged",
        )


@contextmanager
def _new(path: Path) -> Iterator[int]:
    """Create a file and open it for writing.

    Args:
        path: File to create.

    Yields:
        Its descriptor.

    Raises:
        OSError: The file was there, perhaps as a link; or the disk refuses.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        yield descriptor
    finally:
        os.close(descriptor)

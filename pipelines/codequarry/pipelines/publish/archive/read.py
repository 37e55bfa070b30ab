"""Unpacking of an archive: each file has to be the next one of a manifest."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tarfile import BLOCKSIZE
from typing import BinaryIO

from codequarry.pipelines.publish.archive.format import (
    BASE,
    END,
    RawManifest,
    archive_size,
    base_size,
    described,
    expect,
    header,
    padding,
    read_manifest_member,
    size_of_manifest,
)
from codequarry.pipelines.store.durable import write_all
from codequarry.pipelines.store.workspace import Progress, silent
from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.bundle.manifest import FILE_NAME, FileEntry, Manifest, StackEntry
from codequarry.schemas.errors import IntegrityError, UnavailableError
from codequarry.schemas.resources import raise_if_exhausted

_PIECE = 1 << 20
_REMEDY = "copy or export the archive again; CURRENT is unchanged"


@dataclass(frozen=True, slots=True)
class OpenedArchive:
    """An archive whose manifests were read, at its first file."""

    stream: BinaryIO
    version: RawManifest
    base: RawManifest | None
    """Base of a delta version; None when the archive holds none."""


@contextmanager
def opened_archive(file: Path) -> Iterator[OpenedArchive]:
    """Open an archive, check its length, and read it up to its first file.

    Args:
        file: The archive.

    Yields:
        The archive.

    Raises:
        UnavailableError: The file cannot be opened.
        IntegrityError: As `read_manifest_member` does; or the length is not the one that the manifests say; or the base
            is not the one of the delta version.
        FormatError: As `read_manifest_member` does.
    """
    try:
        stream = open(file, "rb", opener=_without_waiting)  # noqa: SIM115 - closed below
    except OSError as error:
        raise_if_exhausted(error, f"{file} cannot be read now")
        raise _unreadable(file, error) from error
    with stream:
        try:
            opened = _start(file, stream)
        except OSError as error:
            raise_if_exhausted(error, f"{file} cannot be read now")
            raise _unreadable(file, error) from error
        yield opened


def _without_waiting(path: str, flags: int) -> int:
    """Open a file without waiting for the writer of a pipe, which is refused afterwards."""
    return os.open(path, flags | os.O_NONBLOCK)


def _start(file: Path, stream: BinaryIO) -> OpenedArchive:
    found = os.fstat(stream.fileno())
    if not stat.S_ISREG(found.st_mode):
        raise UnavailableError(
            f"{file} is no regular file", suggestion="write the archive into a file first, and import that"
        )
    version = read_manifest_member(stream)
    base = None if version.manifest.stack is None else _read_base(stream, version.manifest.stack)
    expected = archive_size(len(version.raw), version.manifest.files, base)
    if found.st_size != expected:
        raise IntegrityError(
            f"{file} has {found.st_size:,} bytes, expected {expected:,} by its manifest: "
            + ("the rest is missing" if found.st_size < expected else "something follows"),
            suggestion=_REMEDY,
        )
    return OpenedArchive(stream, version, base)


def _read_base(stream: BinaryIO, stack: StackEntry) -> RawManifest | None:
    """Read the manifest of the base that a delta version lies over, where the archive holds it."""
    place = stream.tell()
    here = size_of_manifest(stream.read(BLOCKSIZE), BASE) is not None
    stream.seek(place)
    if not here:
        return None
    base = read_manifest_member(stream, BASE)
    digest = hashlib.sha256(base.raw).hexdigest()
    if digest != stack.base_sha256 or base.manifest.version != stack.base or base.manifest.stack is not None:
        raise IntegrityError(
            f"the archive holds {base.manifest.version} with sha256 {digest[:12]}… as base, expected {stack.base} with "
            f"{stack.base_sha256[:12]}…",
            suggestion=_REMEDY,
        )
    return base


def _unreadable(file: Path, error: OSError) -> UnavailableError:
    return UnavailableError(
        f"{file} cannot be read: {error.strerror}", suggestion="name a file that `codequarry export` wrote"
    )


def unpack(stream: BinaryIO, raw: bytes, manifest: Manifest, folder: Path, progress: Progress = silent) -> None:
    """Write the files of an archive into an empty folder, and the manifest last; nothing is synced.

    Args:
        stream: Archive whose manifests, and a base if there is one, were read.
        raw: Bytes of the version's manifest.
        manifest: The manifest.
        folder: The folder.
        progress: Told of the megabytes unpacked.

    Raises:
        IntegrityError: The archive differs from the manifest's files, byte for byte in its order, and the end.
        OSError: The disk refuses.
    """
    _unpack_members(stream, RawManifest(raw, manifest), "", folder, progress)
    expect(stream, END, "the end")
    if more := stream.read(1):
        raise IntegrityError(
            f"the archive does not end behind its last file: found {described(more)}", suggestion=_REMEDY
        )
    _write_manifest(folder, raw)


def unpack_base(stream: BinaryIO, base: RawManifest, folder: Path, progress: Progress = silent) -> None:
    """Write the files of a base into an empty folder, and its manifest last, as `unpack` does.

    Args:
        stream: Archive of a delta version whose manifests were read.
        base: The base.
        folder: The folder.
        progress: Told of the megabytes unpacked.

    Raises:
        IntegrityError: The archive differs from the manifest's files, byte for byte in its order.
        OSError: The disk refuses.
    """
    _unpack_members(stream, base, BASE, folder, progress)
    _write_manifest(folder, base.raw)


def skip_base(stream: BinaryIO, base: RawManifest) -> None:
    """Pass over the files of a base that is there already.

    Args:
        stream: Archive of a delta version whose manifests were read.
        base: The base.
    """
    manifest = len(header(BASE + FILE_NAME, len(base.raw))) + len(base.raw) + len(padding(len(base.raw)))
    stream.seek(base_size(base) - manifest, os.SEEK_CUR)


def _unpack_members(stream: BinaryIO, version: RawManifest, prefix: str, folder: Path, progress: Progress) -> None:
    done, total = 0, version.manifest.size_bytes

    def add_progress(size: int) -> None:
        nonlocal done
        done += size
        progress("unpacking, MB", done // 1_000_000, total // 1_000_000)

    for entry in version.manifest.files:
        what = f"the file {prefix + entry.path!r} of {entry.size_bytes} bytes"
        expect(stream, header(prefix + entry.path, entry.size_bytes), what)
        path = folder / entry.path
        path.parent.mkdir(parents=True, exist_ok=True)
        with _new(path) as descriptor:
            _copy(stream, descriptor, entry, add_progress)
        expect(stream, padding(entry.size_bytes), f"zeros behind {what}")


def _write_manifest(folder: Path, raw: bytes) -> None:
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
            suggestion=_REMEDY,
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

"""The archive: a version as one file; the manifest determines every byte except those of the version's files.

It is a tar. Member after member: a header, the file, zeros up to the next 512 bytes. First ``manifest.json``, then the
manifest's files in its order, last 1,024 zeros. The archive of a delta version holds its base between the two: all that
an archive of the base holds, with names that begin with ``base/``. It may also be without.

Headers are those of ``tarfile`` for mode 0644, owner 0 and time 0: POSIX ustar, with a pax header before them where a
name is longer than 100 characters or not ASCII, or a file has 8 GiB or more. So a version has one archive, whoever
writes it: a test holds the digest of such headers, which is the same from Python 3.9 on.

A reader parses nothing of it but the size of the manifest: it computes each header from the manifest and compares. All
that a tar may hold besides (links, devices, folders, names that lead elsewhere, other notations of numbers, other
records) would be another byte. Extraction by ``tarfile`` with ``filter="data"`` takes 20 of the 91 archives that the
tests forge, see ADR 30.

It is not compressed. Vectors and Parquet files hardly get smaller: ``gzip -1`` made 97 MB of an index of 121 MB, in
3.3 s, where writing the archive with every check takes 0.35 s. Whoever wants that fifth compresses the file; a reader
of plain bytes knows its length beforehand, and nothing it is given can grow.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Sequence
from typing import BinaryIO

from codequarry.pipelines.publish.leaving import RawManifest, check_manifest_size
from codequarry.schemas.bundle.layout import is_version_name
from codequarry.schemas.bundle.manifest import FILE_NAME, FileEntry, from_json
from codequarry.schemas.errors import IntegrityError

END = bytes(1024)
BASE = "base/"
"""Prefix of the names of a base's files in the archive of a delta version."""
_REMEDY = "copy or export the archive again; CURRENT is unchanged"


def header(name: str, size: int) -> bytes:
    """Return the header in front of a file.

    >>> len(header("faiss.index", 12)), len(header("größe", 12))
    (512, 1536)

    Args:
        name: Path of the file in the version.
        size: Size of the file in bytes.

    Returns:
        One or more blocks of 512 bytes.
    """
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o644
    return info.tobuf(tarfile.PAX_FORMAT)


def padding(size: int) -> bytes:
    """Return the zeros behind a file.

    >>> len(padding(12)), len(padding(1024))
    (500, 0)

    Args:
        size: Size of the file in bytes.

    Returns:
        Zeros up to the next block.
    """
    return bytes(-size % tarfile.BLOCKSIZE)


def archive_size(manifest_bytes: int, files: Sequence[FileEntry], base: RawManifest | None = None) -> int:
    """Return the size in bytes of a version's archive.

    Args:
        manifest_bytes: Size of its ``manifest.json``.
        files: Entries of its files.
        base: The base that lies in the archive of a delta version.

    Returns:
        Bytes of the archive.
    """
    size = _size_of_members("", manifest_bytes, files) + len(END)
    return size if base is None else size + base_size(base)


def base_size(base: RawManifest) -> int:
    """Return the bytes that a base takes in the archive of a delta version."""
    return _size_of_members(BASE, len(base.raw), base.manifest.files)


def _size_of_members(prefix: str, manifest_bytes: int, files: Sequence[FileEntry]) -> int:
    members = [(FILE_NAME, manifest_bytes), *((entry.path, entry.size_bytes) for entry in files)]
    return sum(len(header(prefix + name, size)) + size + len(padding(size)) for name, size in members)


def read_manifest_member(stream: BinaryIO, prefix: str = "") -> RawManifest:
    """Read the member of an archive that is a manifest.

    Args:
        stream: The archive, at the member's beginning.
        prefix: Prefix of its name.

    Returns:
        The manifest.

    Raises:
        IntegrityError: Something else comes, or the manifest is damaged.
        FormatError: Its format is newer than this program, or too old to have a checksum.
    """
    name, first = prefix + FILE_NAME, stream.read(tarfile.BLOCKSIZE)
    size = size_of_manifest(first, prefix)
    if size is None:
        raise IntegrityError(
            f"this is no archive of a version: found {described(first)}, expected {name}",
            suggestion="name a file that `codequarry export` wrote; one that was compressed since, decompressed",
        )
    check_manifest_size(size)
    data = stream.read(size)
    if len(data) < size:
        raise IntegrityError(f"the archive ends within {name}", suggestion=_REMEDY)
    manifest = from_json(data)
    if not is_version_name(manifest.version):
        raise IntegrityError("the manifest of the archive names no version", suggestion=_REMEDY)
    expect(stream, padding(size), f"zeros behind {name}")
    return RawManifest(data, manifest)


def expect(stream: BinaryIO, expected: bytes, what: str) -> None:
    """Read the bytes that have to come next.

    Args:
        stream: The archive.
        expected: Bytes that have to come.
        what: Name of these bytes, for the message.

    Raises:
        IntegrityError: Other bytes come, or none.
    """
    found = stream.read(len(expected))
    if found != expected:
        raise IntegrityError(
            f"the archive does not hold what its manifest says: found {described(found)}, expected {what}",
            suggestion=_REMEDY,
        )


def described(block: bytes) -> str:
    """Describe in words what a tar reader would take bytes for.

    >>> described(header("faiss.index", 12)), described(b""), described(bytes(512)), described(b"PK" * 256)
    ("the file 'faiss.index' of 12 bytes", 'nothing', 'zeros', 'something else')
    """
    if not block.strip(b"\0"):
        return "zeros" if block else "nothing"
    try:
        info = tarfile.TarInfo.frombuf(block[: tarfile.BLOCKSIZE], "utf-8", "replace")
    except (tarfile.HeaderError, ValueError):
        return "something else"
    return f"{_KINDS.get(info.type, 'an entry of another kind')} {info.name!r} of {info.size} bytes"


_KINDS = {
    tarfile.REGTYPE: "the file",
    tarfile.SYMTYPE: "the symbolic link",
    tarfile.LNKTYPE: "the hard link",
    tarfile.CHRTYPE: "the device",
    tarfile.BLKTYPE: "the device",
    tarfile.FIFOTYPE: "the pipe",
    tarfile.DIRTYPE: "the folder",
    tarfile.XHDTYPE: "the extended header",
}


def size_of_manifest(first: bytes, prefix: str = "") -> int | None:
    """Return the size of a manifest by its header.

    Args:
        first: A block of an archive.
        prefix: Prefix of the manifest's name.

    Returns:
        Bytes; None when the block is no header of a manifest.
    """
    digits = re.fullmatch(rb"[0-7]{11}", first[124:135])
    if digits is None:
        return None
    size = int(digits[0], 8)
    return size if header(prefix + FILE_NAME, size) == first else None

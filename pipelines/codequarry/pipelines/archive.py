"""The archive: a version as one file, of which every byte but those of its files is known from its manifest.

It is a tar. Member after member: a header, the file, zeros up to the next 512 bytes. First ``manifest.json``, then the
manifest's files in its order, last 1,024 zeros. Headers are POSIX ustar, with a pax header before them where a name is
longer than 100 characters or not ASCII, or a file has 8 GiB or more; mode 0644, owner 0, time 0. So a version has
one archive, whoever writes it.

A reader parses nothing of it but the size of the manifest: it computes each header from the manifest and compares. All
that a tar may hold besides (links, devices, folders, names that lead elsewhere, other notations of numbers, other
records) would be another byte. The headers are made here, since those of ``tarfile`` have changed between releases of
Python; the tests hold one against the other.

It is not compressed. Vectors and Parquet files hardly get smaller: ``gzip -1`` made 97 MB of an index of 121 MB, in
3.3 s, where writing the archive with every check takes 0.35 s. Whoever wants that fifth compresses the file; a reader
of plain bytes knows its length beforehand, and nothing it is given can grow.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Sequence
from typing import BinaryIO

from codequarry.schemas.errors import FormatError, IntegrityError
from codequarry.schemas.layout import is_version_name
from codequarry.schemas.manifest import FILE_NAME, FileEntry, Manifest, from_json

MAX_MANIFEST_BYTES = 16 << 20
"""What is parsed at most; a file takes about 250 bytes of it, a repository about 1,000."""
END = bytes(1024)
_BLOCK = 512
_MAX_NAME = 100
_MAX_OCTAL = 8**11 - 1
_VOUCHES_FOR_ITSELF = 2
"""First format whose manifest has a checksum."""
_REMEDY = "copy or export the archive again; CURRENT is unchanged"


def header(name: str, size: int) -> bytes:
    """What comes before a file. size: in bytes.

    >>> len(header("faiss.index", 12)), len(header("größe", 12))
    (512, 1536)
    """
    records = [("path", name)] if len(name) > _MAX_NAME or not name.isascii() else []
    records += [("size", str(size))] if size > _MAX_OCTAL else []
    plain = name.encode("ascii", "replace")[:_MAX_NAME]
    block = _block(plain, b"0", 0o644, size if size <= _MAX_OCTAL else 0)
    if not records:
        return block
    extended = b"".join(_record(key, value) for key, value in records)
    return _block(b"././@PaxHeader", b"x", 0, len(extended)) + extended + padding(len(extended)) + block


def padding(size: int) -> bytes:
    """What comes behind a file. size: in bytes.

    >>> len(padding(12)), len(padding(1024))
    (500, 0)
    """
    return bytes(-size % _BLOCK)


def archive_size(manifest_bytes: int, files: Sequence[FileEntry]) -> int:
    """Bytes of the archive of a version. manifest_bytes: size of its ``manifest.json``."""
    members = [(FILE_NAME, manifest_bytes), *((entry.path, entry.size_bytes) for entry in files)]
    return sum(len(header(name, size)) + size + len(padding(size)) for name, size in members) + len(END)


def read_manifest_member(stream: BinaryIO) -> tuple[bytes, Manifest]:
    """The first member of an archive: its bytes, and what they say.

    Raises IntegrityError: the stream begins otherwise, or the manifest is damaged. FormatError: its format is newer
    than this program, or so old that it does not vouch for itself.
    """
    first = stream.read(_BLOCK)
    size = _size_of(first)
    if size is None:
        raise IntegrityError(
            f"this is no archive of a version: found {described(first)}, expected {FILE_NAME}",
            suggestion="name a file that `codequarry export` wrote; one that was compressed since, decompressed",
        )
    check_manifest_size(size)
    data = stream.read(size)
    if len(data) < size:
        raise IntegrityError(f"the archive ends within {FILE_NAME}", suggestion=_REMEDY)
    manifest = from_json(data)
    if not is_version_name(manifest.version):
        raise IntegrityError("the manifest of the archive names no version", suggestion=_REMEDY)
    check_travels(manifest)
    expect(stream, padding(size), f"zeros behind {FILE_NAME}")
    return data, manifest


def check_manifest_size(size: int) -> None:
    """Raises IntegrityError: no manifest of so many bytes is read."""
    if size > MAX_MANIFEST_BYTES:
        raise IntegrityError(
            f"{FILE_NAME} has {size:,} bytes, expected {MAX_MANIFEST_BYTES:,} at most",
            suggestion="index fewer repositories into one version",
        )


def check_travels(manifest: Manifest) -> None:
    """Raises FormatError: the manifest is of a format without a checksum of its own."""
    if manifest.format_version < _VOUCHES_FOR_ITSELF:
        raise FormatError(
            f"{manifest.version} has format {manifest.format_version}, whose manifest does not vouch for itself",
            suggestion="index again with this program, and export that version",
        )


def expect(stream: BinaryIO, expected: bytes, what: str) -> None:
    """Read what has to come next. Raises IntegrityError: something else comes, or nothing."""
    found = stream.read(len(expected))
    if found != expected:
        raise IntegrityError(
            f"the archive does not hold what its manifest says: found {described(found)}, expected {what}",
            suggestion=_REMEDY,
        )


def described(block: bytes) -> str:
    """What a tar reader would take bytes for, in words.

    >>> described(header("faiss.index", 12)), described(b""), described(bytes(512)), described(b"PK" * 256)
    ("the file 'faiss.index' of 12 bytes", 'nothing', 'zeros', 'something else')
    """
    if not block.strip(b"\0"):
        return "zeros" if block else "nothing"
    try:
        info = tarfile.TarInfo.frombuf(block[:_BLOCK], "utf-8", "replace")
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


def _size_of(first: bytes) -> int | None:
    """The size in a first header; None when it is not that of a manifest."""
    digits = re.fullmatch(rb"[0-7]{11}", first[124:135])
    if digits is None:
        return None
    size = int(digits[0], 8)
    return size if header(FILE_NAME, size) == first else None


def _block(name: bytes, kind: bytes, mode: int, size: int) -> bytes:
    """The 512 bytes of a ustar header; fields as POSIX.1-2017, pax, "ustar Interchange Format" has them."""
    owner, time, no_sum = b"%07o\0" % 0, b"%011o\0" % 0, b" " * 8
    fields = (
        name.ljust(_MAX_NAME, b"\0"), b"%07o\0" % mode, owner, owner, b"%011o\0" % size, time, no_sum, kind,
        bytes(100), b"ustar\x0000",
    )  # fmt: skip
    raw = b"".join(fields).ljust(_BLOCK, b"\0")
    return raw[:148] + b"%06o\0 " % sum(raw) + raw[156:]


def _record(key: str, value: str) -> bytes:
    """A pax record: its own length in bytes, decimal, the key and the value."""
    rest = f" {key}={value}\n".encode()
    length = len(rest) + 1
    while len(b"%d" % length) + len(rest) != length:
        length += 1
    return b"%d" % length + rest

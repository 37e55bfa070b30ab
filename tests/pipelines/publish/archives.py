"""Small archives, honest and forged, without a bundle behind them."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterable, Mapping

from codequarry.pipelines.publish.archive.format import END, header, padding
from codequarry.schemas.bundle.checksummed_json import dump_with_checksum
from codequarry.schemas.bundle.manifest import (
    Counts,
    EncoderEntry,
    FaissEntry,
    FileEntry,
    Manifest,
    to_json,
)
from codequarry.serving.files.compatibility import compatibility

VERSION = "20260101T000000Z-0123abcd"
FILES: dict[str, bytes] = {
    "a/deep/er/file.bin": bytes(range(256)) * 3,
    "a/empty": b"",
    "a/exactly-one-block": b"x" * 512,
    "größe/日本.txt": "Größe".encode(),
    "l" * 60 + "/" + "o" * 70 + "/ng": b"long",
    "plain": b"plain text\n",
}


def manifest_of(contents: Mapping[str, bytes], **forged: object) -> Manifest:
    """A manifest that is right about these files. forged: fields with values that no check has seen."""
    entries = tuple(
        FileEntry(path=path, size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
        for path, data in contents.items()
    )
    honest = Manifest(
        version=VERSION, created="2026-01-01T00:00:00+00:00", digest="0" * 64, settings_sha256="0" * 64, tools={},
        sources=(), encoder=EncoderEntry(name="none", fingerprint="0" * 64, dim=16),
        faiss=FaissEntry(factory="Flat", exact=True), counts=Counts(files=0, skipped_files=0, chunks=0),
        compatibility=compatibility("0" * 64), files=(),
    )  # fmt: skip
    return Manifest.model_construct(**{**dict(honest), "files": entries, **forged})


def sealed(raw: Mapping[str, object]) -> bytes:
    """A ``manifest.json`` that says this, with the checksum that fits: what a forger would write."""
    return dump_with_checksum({key: value for key, value in raw.items() if key != "checksum"}, before="compatibility")


def member(name: str, data: bytes, head: bytes | None = None) -> bytes:
    """A member as an export writes it. head: another header."""
    return (header(name, len(data)) if head is None else head) + data + padding(len(data))


def archive(manifest: Manifest | bytes, members: Iterable[bytes], end: bytes = END) -> bytes:
    """An archive of these members."""
    raw = manifest if isinstance(manifest, bytes) else to_json(manifest)
    return member("manifest.json", raw) + b"".join(members) + end


def honest_members(files: Mapping[str, bytes] = FILES) -> list[bytes]:
    """The members of the files, in order."""
    return [member(path, data) for path, data in files.items()]


def foreign(name: str, **fields: object) -> bytes:
    """The header that ``tarfile`` writes of a member with these fields."""
    info = tarfile.TarInfo(name)
    info.mode = 0o644
    for field, value in fields.items():
        setattr(info, field, value)
    return info.tobuf(tarfile.PAX_FORMAT)


def listed(data: bytes) -> dict[str, bytes]:
    """What ``tarfile`` reads of an archive."""
    with tarfile.open(fileobj=io.BytesIO(data)) as opened:
        found = {}
        for info in opened.getmembers():
            stream = opened.extractfile(info)
            assert stream is not None
            found[info.name] = stream.read()
        return found

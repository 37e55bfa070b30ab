"""Stable chunk ids: positive 63-bit integers derived from content and place."""

from __future__ import annotations

import hashlib
import re

MAX_CHUNK_ID = (1 << 63) - 1
_WIRE_ID = re.compile(r"[1-9][0-9]{0,18}", re.ASCII)


def chunk_id(repo: str, path: str, qualified_name: str, content: bytes, ordinal: int) -> int:
    """Return the id of a chunk; the same chunk keeps it from version to version.

    The fields are length-prefixed before hashing (BLAKE2b, 64 bits, top bit cleared), so that no two different
    tuples feed the hash the same bytes. Zero is mapped to one: ids are positive.

    >>> chunk_id("quarry", "io.py", "open", b"def open(): ...", 0) == chunk_id(
    ...     "quarry", "io.py", "open", b"def open(): ...", 1)
    False

    Args:
        repo: Name of the repository.
        path: Path of the file in the repository.
        qualified_name: Qualified name of the chunk.
        content: Bytes of the chunk.
        ordinal: 0-based rank, in file order, among chunks of the file equal in qualified name and content.

    Returns:
        A positive 63-bit integer.
    """
    digest = hashlib.blake2b(digest_size=8, person=b"codequarry-chunk")
    for part in (repo.encode(), path.encode(), qualified_name.encode(), content, str(ordinal).encode()):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return (int.from_bytes(digest.digest(), "little") & MAX_CHUNK_ID) or 1


def parse_wire_id(text: str) -> int | None:
    """Return the integer of a decimal wire id, or None when the text is not one.

    >>> parse_wire_id("42"), parse_wire_id("042"), parse_wire_id("９"), parse_wire_id("9223372036854775808")
    (42, None, None, None)
    """
    if not _WIRE_ID.fullmatch(text):
        return None
    value = int(text)
    return value if value <= MAX_CHUNK_ID else None

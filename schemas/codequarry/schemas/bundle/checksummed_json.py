"""JSON files that vouch for themselves: one line of the file is the sha256 of all others."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def dump_with_checksum(data: dict[str, Any], *, before: str) -> bytes:
    """Return sorted, indented JSON with a line ``"checksum": "<sha256 of the other lines>"``.

    Args:
        data: What the file says; keys of its top level sort around ``checksum``.
        before: Key of the top level in front of which the line stands.

    Returns:
        Bytes of the file.
    """
    plain = (json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass")
    head, following, tail = plain.partition(f'\n "{before}": '.encode())
    return head + _checksum_line(hashlib.sha256(plain).hexdigest()) + following + tail


def is_vouched_for(data: bytes, checksum: object) -> bool:
    """Return whether the bytes of a file without its checksum line have that checksum.

    Args:
        data: Bytes of the file.
        checksum: What the file says its checksum is.

    Returns:
        False after any change of the file.
    """
    if not isinstance(checksum, str):
        return False
    before, found, after = data.partition(_checksum_line(checksum))
    return bool(found) and hashlib.sha256(before + after).hexdigest() == checksum


def _checksum_line(checksum: str) -> bytes:
    return f'\n "checksum": "{checksum}",'.encode("utf-8", "replace")

"""Writes SCIP indexes byte by byte, independently of the library that reads them."""

from __future__ import annotations

from collections.abc import Sequence


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def block(field: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(data)) + data


def metadata(tool: str = "scip-test", version: str = "1.2") -> bytes:
    return block(1, block(2, block(1, tool) + block(2, version)) + block(3, "file:///somewhere"))


def occurrence(symbol: str, span: Sequence[int], roles: int = 0, enclosing: Sequence[int] = ()) -> bytes:
    packed = block(1, b"".join(map(varint, span))) + block(2, symbol) + number(3, roles)
    return block(2, packed + (block(7, b"".join(map(varint, enclosing))) if enclosing else b""))


def information(
    symbol: str,
    documentation: Sequence[str] = (),
    *,
    kind: int = 0,
    name: str = "",
    signature: str = "",
    enclosing: str = "",
    relationships: Sequence[tuple[str, Sequence[int]]] = (),
) -> bytes:
    """relationships: (symbol, numbers of the fields that are true)."""
    return (
        block(1, symbol)
        + b"".join(block(3, text) for text in documentation)
        + b"".join(block(4, block(1, to) + b"".join(number(field, 1) for field in true)) for to, true in relationships)
        + number(5, kind)
        + block(6, name)
        + (block(7, block(4, "x") + block(5, signature)) if signature else b"")
        + block(8, enclosing)
    )


def document(path: str, *parts: bytes, symbols: Sequence[bytes] = (), encoding: int = 1) -> bytes:
    described = b"".join(block(3, symbol) for symbol in symbols)
    return block(2, block(4, "x") + block(1, path) + b"".join(parts) + described + number(6, encoding))


def external(symbol: bytes) -> bytes:
    return block(3, symbol)

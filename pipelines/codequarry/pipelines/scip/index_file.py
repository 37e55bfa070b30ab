"""Reading of an ``index.scip``: documents one at a time, also from a damaged file.

An index is a sequence of length-delimited fields, so that an indexer can append and a reader can stream. A file cut
anywhere therefore still holds every document before the cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError

from codequarry.pipelines.scip import proto as scip_proto
from codequarry.schemas.errors import ScipIndexError

_METADATA, _DOCUMENT, _EXTERNAL_SYMBOL = 1, 2, 3
_VARINT, _I64, _LENGTH_DELIMITED, _I32 = 0, 1, 2, 5
_REMEDY = "run the indexer again"


@dataclass(frozen=True, slots=True)
class ScipIndex:
    """An index whose documents are still encoded."""

    tool: str
    """Name of the program that wrote it, e.g. ``scip-python``."""
    tool_version: str
    documents: tuple[tuple[str, memoryview], ...]
    """(relative path, encoded Document), in path order; the first of several with the same path."""
    external_symbols: tuple[memoryview, ...]
    """Encoded SymbolInformation of symbols that other packages define."""
    damaged: int
    """Number of parts that could not be read: documents that are no messages, repeated documents, a cut end."""


def read_scip(data: bytes) -> ScipIndex:
    """Split an encoded index into documents and symbols.

    Args:
        data: Bytes of the index.

    Returns:
        The index, with documents still encoded.

    Raises:
        ScipIndexError: The bytes hold no metadata, so they are no index, or nothing of it is left.
    """
    metadata: Any = None
    documents: dict[str, memoryview] = {}
    external: list[memoryview] = []
    damaged = 0
    for field, value in _fields(memoryview(data)):
        try:
            if value is None:
                damaged += 1
            elif field == _METADATA:
                metadata = scip_proto.Metadata.FromString(value)
            elif field == _DOCUMENT:
                path = _path_of(value)
                damaged += path in documents
                documents.setdefault(path, value)
            elif field == _EXTERNAL_SYMBOL:
                external.append(value)
        except (DecodeError, UnicodeDecodeError):
            damaged += 1
    if metadata is None:
        raise ScipIndexError(f"{len(data)} bytes without SCIP metadata, expected an index", suggestion=_REMEDY)
    tool = metadata.tool_info
    return ScipIndex(tool.name, tool.version, tuple(sorted(documents.items())), tuple(external), damaged)


def read_scip_json(text: str) -> ScipIndex:
    """Read what ``scip print --json`` writes.

    Args:
        text: JSON form of an index.

    Returns:
        The index, with documents still encoded.

    Raises:
        ScipIndexError: The text is not in this form.
    """
    from google.protobuf import json_format  # takes a hundredth of a second, and few indexes have this form

    try:
        index = json_format.Parse(text, scip_proto.Index(), ignore_unknown_fields=True)
    except (json_format.ParseError, RecursionError) as error:
        raise ScipIndexError(f"not the JSON form of an index: {error}", suggestion=_REMEDY) from error
    return read_scip(index.SerializeToString())


def read_scip_file(data: bytes) -> ScipIndex:
    """Read an index in either form, told apart by its content.

    Args:
        data: Bytes of the file.

    Returns:
        The index, with documents still encoded.

    Raises:
        ScipIndexError: The file is in neither form.
    """
    try:
        return read_scip(data)
    except ScipIndexError:
        # Checked second, because an encoded index may also begin with a line break and a brace.
        if not data.lstrip().startswith(b"{"):
            raise
    return read_scip_json(data.decode("utf-8", "replace"))


def decode_document(data: memoryview) -> Any | None:
    """Return the Document message; None when the bytes are not one."""
    return _decoded(scip_proto.Document, data)


def decode_symbol(data: memoryview) -> Any | None:
    """Return the SymbolInformation message; None when the bytes are not one."""
    return _decoded(scip_proto.SymbolInformation, data)


def _decoded(message: Any, data: memoryview) -> Any | None:
    try:
        return message.FromString(data)
    except DecodeError:
        return None


def _path_of(document: memoryview) -> str:
    """Return ``relative_path``, without decoding the occurrences."""
    for field, value in _fields(document):
        if value is None:
            raise DecodeError("a field of the document is cut")
        if field == 1:
            return str(value, "utf-8")
    raise DecodeError("the document has no path")


def _fields(data: memoryview) -> Iterator[tuple[int, memoryview | None]]:
    """Yield (number, value) of every length-delimited field.

    Invalid bytes end the sequence with the value None. Protocol Buffers encoding,
    https://protobuf.dev/programming-guides/encoding/; groups are not in use since proto3.
    """
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        length = 0
        kind = tag & 7
        if kind == _VARINT:
            _, position = _varint(data, position)
        elif kind == _LENGTH_DELIMITED:
            length, position = _varint(data, position)
        elif kind in (_I32, _I64):
            length = 4 if kind == _I32 else 8
        else:
            position = end + 1
        if position + length > end:
            yield tag >> 3, None
            return
        if kind == _LENGTH_DELIMITED:
            yield tag >> 3, data[position : position + length]
        position += length


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    """Return (value, position behind it).

    The position is behind the end when the number is cut or longer than ten bytes.
    """
    value = 0
    for shift, byte in enumerate(data[position : position + 10]):
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return value, position + shift + 1
    return 0, len(data) + 1

"""Error answers for JSON-RPC messages that the protocol would drop silently."""

from __future__ import annotations

import json
from typing import Any

import mcp_types
from mcp_types import JSONRPCError, JSONRPCNotification, jsonrpc_message_adapter
from pydantic import ValidationError
from pydantic_core import from_json

_KINDS = {type(None): "null", bool: "true or false", float: "a number with a fraction", list: "an array"}


def line_refusal(line: str) -> JSONRPCError | None:
    """Return the error for a line that is not a message, or a request with an unusable id; None for any other."""
    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        return _malformed(line)
    return id_refusal(line) if isinstance(message, JSONRPCNotification) else None


def id_refusal(text: str | bytes) -> JSONRPCError | None:
    """Return the error for a request whose id is neither string nor integer; None for any other text.

    Such a request would be taken for a notification and never answered.
    """
    try:
        message = from_json(text)
    except ValueError:
        return None
    if not isinstance(message, dict) or not {"id", "method"} <= message.keys() or _is_id(message["id"]):
        return None
    kind = _KINDS.get(type(message["id"]), "an object")
    return _error(mcp_types.INVALID_REQUEST, f"the id of the request is {kind}, expected a string or an integer")


def _malformed(line: str) -> JSONRPCError:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return _error(mcp_types.PARSE_ERROR, "the line is no JSON, expected one JSON-RPC message on a line")
    known = message.get("id") if isinstance(message, dict) else None
    number = known if _is_id(known) and not _has_surrogate(known) else None
    if _has_surrogate(message):
        return _error(mcp_types.INVALID_REQUEST, "the message holds half a surrogate pair, expected Unicode", number)
    return _error(mcp_types.INVALID_REQUEST, "the line is no JSON-RPC request, notification or response", number)


def _is_id(value: object) -> bool:
    return isinstance(value, int | str) and not isinstance(value, bool)


def _has_surrogate(value: Any) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in json.dumps(value, ensure_ascii=False))


def _error(code: int, message: str, number: Any = None) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=number, error=mcp_types.ErrorData(code=code, message=message))

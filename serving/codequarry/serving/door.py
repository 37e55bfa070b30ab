"""What every HTTP request passes before the protocol: who calls is noted, and a flood is turned away cheaply.

A call costs a millisecond of protocol before its tool may say that the server is busy, and fifty at once would all go
through it side by side, the last of them waiting for longer than an answer takes. So calls on their way are counted
here: when there are as many as may run and wait, further ones are answered with BUSY at an eighth of the cost, unless
their client has none on its way; the gate then sends a call of another away.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from codequarry.schemas.errors import BusyError
from codequarry.schemas.tools import ErrorAnswer, to_wire
from codequarry.serving.call import Call, begin_call
from codequarry.serving.descriptions import TOOLS
from codequarry.serving.fetch import error_body
from codequarry.serving.gate import Gate, busy
from codequarry.serving.http_protocol import CALL_KEY

_SHED = frozenset(tool.name for tool in TOOLS if not tool.from_memory)
_MODERN = b"2026"
_DRAINED_BYTES = 16 << 20
"""So much of a body that is too large is read and forgotten: a client that still sends when its connection closes may
see a reset instead of the answer (RFC 9112, 9.6)."""


@dataclass(slots=True)
class Crowd:
    """Requests on their way through the protocol, by client."""

    gate: Gate
    inside: Counter[str] = field(default_factory=Counter)

    def too_large_for(self, client: str) -> bool:
        """Whether a call of the client would only find that there is no place."""
        return self.inside.total() >= 2 * self.gate.places and self.inside[client] > 0


class Patient:
    """ASGI middleware: who sends too much may finish sending before being told so."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_after_the_body(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 413:
                left = _DRAINED_BYTES
                while left > 0:
                    part = await receive()
                    left -= len(part.get("body", b""))
                    if not part.get("more_body", False):
                        break
            await send(message)

        await self._app(scope, receive, send_after_the_body)


class Door:
    """ASGI middleware; behind the checks of Host and Origin, in front of the protocol."""

    def __init__(
        self, app: ASGIApp, *, crowd: Crowd, rejected: Callable[[str, str], None] | None, authenticated: bool
    ) -> None:
        """crowd: shared by all paths of a service. authenticated: callers without a token go on as they are, to be
        refused where that is done."""
        self._app, self._crowd, self._rejected, self._authenticated = app, crowd, rejected, authenticated

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        call = Call(client=scope["client"][0] if scope.get("client") else "unknown")
        # httptools leaves blanks around values, which belong to no value (RFC 9110, 5.5).
        scope["headers"] = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        scope[CALL_KEY] = call
        begin_call(call)
        if scope["method"] != "POST":
            await self._app(scope, receive, send)
        elif self._crowd.too_large_for(call.client) and self._let_in(scope):
            await self._turn_away(scope, receive, send)
        else:
            await self._pass_on(call.client, scope, receive, send)

    async def _pass_on(self, client: str, scope: Scope, receive: Receive, send: Send) -> None:
        inside = self._crowd.inside
        inside[client] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            inside[client] -= 1
            if not inside[client]:
                del inside[client]

    async def _turn_away(self, scope: Scope, receive: Receive, send: Send) -> None:
        messages = [await receive()]
        while messages[-1]["type"] == "http.request" and messages[-1].get("more_body", False):
            messages.append(await receive())
        answer = self._busy(scope, b"".join(message.get("body", b"") for message in messages))
        if answer is None:
            await self._app(scope, _replayed(messages, receive), send)
        else:
            await JSONResponse(answer)(scope, receive, send)

    def _let_in(self, scope: Scope) -> bool:
        return not self._authenticated or bool(getattr(scope.get("user"), "is_authenticated", False))

    def _busy(self, scope: Scope, body: bytes) -> dict[str, Any] | None:
        """The answer to a tool call; None when the body is anything else, which the protocol shall judge."""
        headers = dict(scope["headers"])
        if not headers.get(b"content-type", b"").startswith(b"application/json"):
            return None
        try:
            message = json.loads(body)
            tool = message["params"]["name"]
            wanted = message["jsonrpc"] == "2.0" and message["method"] == "tools/call" and tool in _SHED
        except (ValueError, TypeError, KeyError, RecursionError):
            return None
        number = message.get("id")
        if not wanted or isinstance(number, bool) or not isinstance(number, int | str):
            return None
        if self._rejected is not None:
            self._rejected(tool, BusyError.code)
        payload = to_wire(ErrorAnswer(error=error_body(busy())))
        text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
        result: dict[str, Any] = {
            "content": [{"type": "text", "text": text}],
            "structuredContent": payload,
            "isError": True,
        }
        if headers.get(b"mcp-protocol-version", b"").startswith(_MODERN):
            result["resultType"] = "complete"
        return {"jsonrpc": "2.0", "id": number, "result": result}


def _replayed(messages: list[Message], receive: Receive) -> Receive:
    waiting = iter(messages)

    async def replay() -> Message:
        for message in waiting:
            return message
        return await receive()

    return replay

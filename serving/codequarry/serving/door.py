"""What every HTTP request passes before the protocol: who calls is noted, and a flood is turned away cheaply.

A call costs a millisecond of protocol before its tool may say that the server is busy; a crowd that is turned away
there keeps the event loop from everybody else, health included. So requests on their way are counted here: when there
are as many as one client may run, a further call takes its place at the gate, or waits for one, before the protocol
sees it, and is told BUSY at an eighth of the cost when none comes free.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from codequarry.schemas.errors import BusyError
from codequarry.schemas.tools import ErrorAnswer, to_wire
from codequarry.serving.call import Call, begin_call, token_client
from codequarry.serving.descriptions import TOOLS
from codequarry.serving.fetch import error_body
from codequarry.serving.gate import Gate
from codequarry.serving.http_protocol import CALL_KEY

_SHED = frozenset(tool.name for tool in TOOLS if not tool.from_memory)
_MODERN = b"2026"
_DRAINED_BYTES = 16 << 20
"""So much of a body that is too large is read and forgotten: a client that still sends when its connection closes may
see a reset instead of the answer (RFC 9112, 9.6)."""


@dataclass(slots=True)
class Crowd:
    """Requests on their way through the protocol."""

    gate: Gate
    inside: int = 0

    @property
    def full(self) -> bool:
        """Whether a further call may find that there is no place for its client."""
        return self.inside >= self.gate.most


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
        elif self._crowd.full and self._let_in(scope):
            await self._admit(call, scope, receive, send)
        else:
            await self._pass_on(scope, receive, send)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._crowd.inside += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._crowd.inside -= 1

    async def _admit(self, call: Call, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is no call of a tool that needs a place; a call that does, when it gets one."""
        messages = [await receive()]
        while messages[-1]["type"] == "http.request" and messages[-1].get("more_body", False):
            messages.append(await receive())
        asked = _asked(scope, b"".join(message.get("body", b"") for message in messages))
        if asked is None:
            await self._pass_on(scope, _replayed(messages, receive), send)
            return
        if self._authenticated:
            call.client = token_client(scope["user"].access_token.client_id)
        try:
            call.place = await self._crowd.gate.enter(call.client)
        except BusyError as error:
            if self._rejected is not None:
                self._rejected(asked.tool, error.code)
            await JSONResponse(asked.refused(error))(scope, receive, send)
            return
        try:
            await self._pass_on(scope, _replayed(messages, receive), send)
        finally:
            call.place.withdraw()

    def _let_in(self, scope: Scope) -> bool:
        return not self._authenticated or bool(getattr(scope.get("user"), "is_authenticated", False))


@dataclass(frozen=True, slots=True)
class _Asked:
    """A call of a tool that needs a place."""

    tool: str
    number: int | str
    modern: bool

    def refused(self, error: BusyError) -> dict[str, Any]:
        """The answer, as the protocol would give it."""
        payload = to_wire(ErrorAnswer(error=error_body(error)))
        text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
        result: dict[str, Any] = {
            "content": [{"type": "text", "text": text}],
            "structuredContent": payload,
            "isError": True,
        }
        if self.modern:
            result["resultType"] = "complete"
        return {"jsonrpc": "2.0", "id": self.number, "result": result}


def _asked(scope: Scope, body: bytes) -> _Asked | None:
    """What the body asks for; None when that is anything else, which the protocol shall judge."""
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
    return _Asked(tool, number, headers.get(b"mcp-protocol-version", b"").startswith(_MODERN))


def _replayed(messages: list[Message], receive: Receive) -> Receive:
    waiting = iter(messages)

    async def replay() -> Message:
        for message in waiting:
            return message
        return await receive()

    return replay

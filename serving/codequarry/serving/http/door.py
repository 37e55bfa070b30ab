"""First stage of every HTTP request, before the protocol: it notes the client and cheaply refuses a flood of requests.

A call costs a millisecond of protocol before its tool can answer that the server is busy. A crowd that is refused there
would keep the event loop from all others, health included. So requests inside the protocol are counted here. When there
are as many as one client may run, a further call is admitted, or waits for admission, before the protocol sees it. If
no place comes free, it gets BUSY at an eighth of the cost.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mcp.server.transport_security import RequestBodyLimitMiddleware
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from codequarry.schemas.errors import BusyError
from codequarry.schemas.wire.search import ErrorAnswer, to_wire
from codequarry.serving.http.protocol import CALL_KEY
from codequarry.serving.request.admission import Call, Gate, begin_call, token_client
from codequarry.serving.request.trace import Trace, new_run_id
from codequarry.serving.server.descriptions import TOOLS
from codequarry.serving.server.json_rpc import id_refusal
from codequarry.serving.tools.fetch import error_body

_SHED = frozenset(tool.name for tool in TOOLS if not tool.from_memory)
_MODERN = b"2026"
_DRAINED_BYTES = 16 << 20
"""Bytes of an oversized body that are read and discarded: a client that still sends when its connection closes may
see a reset instead of the answer (RFC 9112, 9.6)."""


@dataclass(slots=True)
class Crowd:
    """Count of requests on their way through the protocol."""

    gate: Gate
    inside: int = 0

    @property
    def full(self) -> bool:
        """True when a further call might find no place for its client."""
        return self.inside >= self.gate.most


class Patient:
    """ASGI middleware: a client whose body is too large may finish sending before it gets the error."""

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


class BodyLimit(RequestBodyLimitMiddleware):
    """ASGI middleware that limits bodies, and does not read those of callers without a required token."""

    def __init__(self, app: ASGIApp, max_body_size: int, *, authenticated: bool) -> None:
        """Limit bodies.

        Args:
            app: Application behind the middleware.
            max_body_size: Largest body in bytes.
            authenticated: Callers need a token; those without one are passed on, and refused by the application.
        """
        super().__init__(app, max_body_size)
        self._authenticated = authenticated

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not is_let_in(scope, authenticated=self._authenticated):
            await self.app(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


class Door:
    """ASGI middleware; behind the checks of Host and Origin, in front of the protocol."""

    def __init__(
        self, app: ASGIApp, *, crowd: Crowd, rejected: Callable[[str, str], None] | None, authenticated: bool
    ) -> None:
        """Guard an application.

        Args:
            app: Application behind the middleware.
            crowd: Shared by all paths of a service.
            rejected: Called with the tool and the error code of a refused call.
            authenticated: Callers need a token; those without one are passed on, and refused by the application.
        """
        self._app, self._crowd, self._rejected, self._authenticated = app, crowd, rejected, authenticated

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        call = Call(client=scope["client"][0] if scope.get("client") else "unknown")
        scope[CALL_KEY] = call
        begin_call(call)
        if scope["method"] != "POST" or not is_let_in(scope, authenticated=self._authenticated):
            await self._app(scope, receive, send)
            return
        messages = [await receive()]
        while messages[-1]["type"] == "http.request" and messages[-1].get("more_body", False):
            messages.append(await receive())
        if messages[-1]["type"] == "http.disconnect":
            # The client has left; the protocol would log that as a failure.
            return
        body, replay = b"".join(message.get("body", b"") for message in messages), _replayed(messages, receive)
        if _is_json(scope) and (refused := id_refusal(body)) is not None:
            await JSONResponse(refused.model_dump(mode="json", exclude_unset=True), 400)(scope, receive, send)
        elif self._crowd.full:
            await self._admit(call, scope, body, replay, send)
        else:
            await self._pass_on(scope, replay, send)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._crowd.inside += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._crowd.inside -= 1

    async def _admit(self, call: Call, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Pass on a request; a call of a tool that needs a place waits for admission first."""
        asked = _parse_call(scope, body)
        if asked is None:
            await self._pass_on(scope, receive, send)
            return
        if self._authenticated:
            call.client = token_client(scope["user"].access_token.client_id)
        try:
            call.place = await self._crowd.gate.enter(call.client)
        except BusyError as error:
            if self._rejected is not None:
                self._rejected(asked.tool, error.code)
            await JSONResponse(asked.error_answer(error))(scope, receive, send)
            return
        try:
            await self._pass_on(scope, receive, send)
        finally:
            call.place.withdraw()


@dataclass(frozen=True, slots=True)
class _Asked:
    """Call of a tool that needs a place."""

    tool: str
    number: int | str
    modern: bool

    def error_answer(self, error: BusyError) -> dict[str, Any]:
        """Return the error answer in the form of the protocol."""
        payload = to_wire(ErrorAnswer(error=error_body(error)))
        text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
        result: dict[str, Any] = {
            "content": [{"type": "text", "text": text}],
            "structuredContent": payload,
            "isError": True,
            "_meta": Trace(new_run_id(), self.tool).summary(),
        }
        if self.modern:
            result["resultType"] = "complete"
        return {"jsonrpc": "2.0", "id": self.number, "result": result}


def is_let_in(scope: Scope, *, authenticated: bool) -> bool:
    """Tell whether the caller needs no token or has shown one.

    Args:
        scope: ASGI scope of the request.
        authenticated: Callers need a token.

    Returns:
        True when the request may be read.
    """
    return not authenticated or bool(getattr(scope.get("user"), "is_authenticated", False))


def _is_json(scope: Scope) -> bool:
    return dict(scope["headers"]).get(b"content-type", b"").startswith(b"application/json")


def _parse_call(scope: Scope, body: bytes) -> _Asked | None:
    """Parse the tool call in a body; None for anything else, which is left to the protocol."""
    if not _is_json(scope):
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
    return _Asked(tool, number, dict(scope["headers"]).get(b"mcp-protocol-version", b"").startswith(_MODERN))


def _replayed(messages: list[Message], receive: Receive) -> Receive:
    waiting = iter(messages)

    async def replay() -> Message:
        for message in waiting:
            return message
        return await receive()

    return replay

"""HTTP connections under a limit: headers and bodies have to arrive in time, and idle ones give way to new ones.

uvicorn reads a request for as long as somebody sends it, a byte an hour if need be. A limit on connections alone would
let whoever holds them open lock everybody else out; so beyond it not the newcomer goes, but the connection that is
silent for longest, of the address that has most of them. Connections whose request is being answered stay.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from codequarry.schemas.settings import ServingSettings
from codequarry.serving.call import Call

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol as AutoHTTPProtocol
else:
    # httptools where it is installed, else h11; what is used here both have.
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

MAX_HEADER_BYTES = 32_768
CALL_KEY = "codequarry.call"
"""Where a request's ASGI scope holds its `Call`."""


def guarded_protocol(settings: ServingSettings) -> type[asyncio.Protocol]:
    """uvicorn's protocol, with these limits."""

    class Guarded(_Guarded):
        most, header_s, body_s = settings.max_connections, settings.header_timeout_s, settings.body_timeout_s

    return Guarded


class _Guarded(AutoHTTPProtocol):
    most: int
    header_s: float
    body_s: float
    _timer: asyncio.TimerHandle | None = None
    _waits_for = "headers"
    _head_bytes = 0
    _heard = 0.0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._heard = time.monotonic()  # loops may count in whole milliseconds
        if len(self.connections) > self.most:
            self._make_room()
        self._wait_for("headers", self.header_s)

    def data_received(self, data: bytes) -> None:
        self._heard = time.monotonic()  # loops may count in whole milliseconds
        answered_before = not self._answering()
        super().data_received(data)
        if not self._answering():
            self._head_bytes = self._head_bytes + len(data) if answered_before else 0
            if self._head_bytes > MAX_HEADER_BYTES:
                self._refuse(b"431 Request Header Fields Too Large")
            elif self._waits_for != "headers":
                self._wait_for("headers", self.header_s)
            return
        head = sum(len(name) + len(value) for name, value in self.cycle.scope["headers"])
        self._head_bytes = 0
        if head > MAX_HEADER_BYTES:
            self._refuse(b"431 Request Header Fields Too Large")
        elif not self.cycle.more_body:
            self._wait_for("", 0)
        elif self._waits_for != "body":
            self._wait_for("body", self.body_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_for("", 0)
        if self._answering():
            call = self.cycle.scope.get(CALL_KEY)
            if isinstance(call, Call):
                call.abandoned = True
        super().connection_lost(exc)

    def _answering(self) -> bool:
        """Whether the headers of a request are here and its response is not yet complete."""
        return self.cycle is not None and not self.cycle.response_complete

    def _wait_for(self, what: str, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._waits_for = what
        self._timer = self.loop.call_later(seconds, self._too_slow) if what else None

    def _too_slow(self) -> None:
        if not self.transport.is_closing():
            self._refuse(b"408 Request Timeout")

    def _refuse(self, status: bytes) -> None:
        if self.transport.is_closing():
            return
        if self.cycle is None or not self.cycle.response_started or self.cycle.response_complete:
            self.transport.write(b"HTTP/1.1 " + status + b"\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        self.transport.close()

    def _make_room(self) -> None:
        others = [one for one in self.connections if isinstance(one, _Guarded)]
        idle = [one for one in others if one is not self and (not one._answering() or one.cycle.more_body)]
        counts = Counter(one._address() for one in others)
        # Where all others work, the newcomer goes itself.
        victim = min(idle or [self], key=lambda one: (-counts[one._address()], one._heard))
        victim.transport.abort()

    def _address(self) -> str:
        return self.client[0] if self.client else ""

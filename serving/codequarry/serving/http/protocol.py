"""HTTP connections with limits: unsent and unread data are bounded, and idle connections give way to new ones.

uvicorn reads a request for as long as the client sends it, however slowly. With a limit on connections alone, clients
that keep them open could lock all others out. So beyond the limit the newcomer stays. The address with the most
connections loses the one that has been silent for longest. Connections whose request is being answered stay.

The parser is h11, because it bounds everything that is not yet a whole event: headers, trailers, chunk extensions. It
parses a pipelined request only when the one before it has been answered; httptools keeps all of these without a limit.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

from codequarry.schemas.settings.service import ConnectionSettings
from codequarry.serving.request.admission import Call

MAX_HEADER_BYTES = 32_768
MAX_AHEAD_BYTES = 32_768
"""Bytes that may follow a request before its answer; with more, the connection closes after that answer."""
MAX_BODIES_BYTES = 32 << 20
"""Limit of all incomplete bodies together; beyond it the largest one is refused."""
STOP_S = 8
"""Seconds that running requests may go on when the server stops; container engines kill after ten seconds."""
_STOP_UNSENT_S = 1
"""Seconds in which the rest of a request may still arrive when the server stops."""
ROUTER_PATH = "/fleet/ask"
"""Path at which a replica answers routers."""

CALL_KEY = "codequarry.call"
"""Key of the `Call` in a request's ASGI scope."""


def guarded_protocol(settings: ConnectionSettings) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol class with these limits."""

    class ConfiguredProtocol(_GuardedProtocol):
        most, header_s, body_s = settings.max_connections, settings.header_timeout_s, settings.body_timeout_s
        answer_s = settings.answer_timeout_s

    return ConfiguredProtocol


class _GuardedProtocol(H11Protocol):
    most: int
    header_s: float
    body_s: float
    answer_s: float
    _timer: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _waits_for = "headers"
    _body_bytes = 0
    _heard = 0.0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(cast("asyncio.Transport", _Outlet(transport, self.loop, self.answer_s)))
        self._heard = time.monotonic()  # loops may count in whole milliseconds
        if len(self.connections) > self.most:
            self._make_room()
        self._wait_for("headers", self.header_s)

    def data_received(self, data: bytes) -> None:
        self._heard = time.monotonic()  # loops may count in whole milliseconds
        super().data_received(data)
        self._watch(len(data))

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # A waiting pipelined request has begun now, and its body may not have arrived yet.
        self._watch(0)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(self.answer_s, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._was_read()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_for("", 0)
        self._was_read()
        if self._answering():
            call = self.cycle.scope.get(CALL_KEY)
            if isinstance(call, Call):
                call.abandoned = True
        super().connection_lost(exc)

    def shutdown(self) -> None:
        super().shutdown()
        self.loop.call_later(_STOP_UNSENT_S, self._abort_unsent)
        self.loop.call_later(STOP_S, self.transport.abort)

    def send_400_response(self, msg: str) -> None:
        # uvicorn's own method fails when a response has begun.
        too_long = len(self.conn.trailing_data[0]) > MAX_HEADER_BYTES
        self._refuse(b"431 Request Header Fields Too Large" if too_long else b"400 Bad Request")

    def _watch(self, received: int) -> None:
        """Set timers and counters for the data that comes next.

        Args:
            received: Bytes that have just arrived.
        """
        if self.transport.is_closing():
            return
        if not self._answering():
            if self._waits_for != "headers":
                self._wait_for("headers", self.header_s)
            return
        if sum(len(name) + len(value) for name, value in self.cycle.scope["headers"]) > MAX_HEADER_BYTES:
            self._refuse(b"431 Request Header Fields Too Large")
        elif self.cycle.more_body:
            if self._waits_for != "body":
                self._wait_for("body", self.body_s)
            self._body_bytes += received
            self._bound_bodies()
        else:
            self._wait_for("", 0)
            if len(self.conn.trailing_data[0]) > MAX_AHEAD_BYTES:
                self.cycle.keep_alive = False

    def _answering(self) -> bool:
        """Tell whether the headers of a request have arrived and its response is not complete."""
        return self.cycle is not None and not self.cycle.response_complete

    def _wait_for(self, what: str, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._waits_for, self._body_bytes = what, 0
        self._timer = self.loop.call_later(seconds, self._too_slow) if what else None

    def _abort_unsent(self) -> None:
        """Close the connection when its client has not sent the whole request: nothing is at work for it."""
        if self._answering() and self.cycle.more_body:
            self.transport.abort()

    def _was_read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _too_slow(self) -> None:
        self._refuse(b"408 Request Timeout")

    def _refuse(self, status: bytes) -> None:
        if self.transport.is_closing():
            return
        if self.cycle is None or not self.cycle.response_started or self.cycle.response_complete:
            self.transport.write(b"HTTP/1.1 " + status + b"\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        if self._answering():
            # The application may go on before it learns that the connection is gone.
            self.cycle.disconnected = True
        self.transport.close()

    def _make_room(self) -> None:
        others = [one for one in self.connections if isinstance(one, _GuardedProtocol)]
        idle = [one for one in others if one is not self and one._may_go()]
        counts = Counter(one._address() for one in others)
        # If all other connections are busy, the newcomer is closed.
        victim = min(idle or [self], key=lambda one: (-counts[one._address()], one._heard))
        # It is lost only in the loop's next round; the next newcomer must not choose it again.
        self.connections.discard(victim)
        victim.transport.abort()

    def _may_go(self) -> bool:
        """Tell whether the connection may be closed: no request is at work, or the response is not being read."""
        return not self._answering() or self.cycle.more_body or self.flow.write_paused

    def _bound_bodies(self) -> None:
        sending = [one for one in self.connections if isinstance(one, _GuardedProtocol) and one._body_bytes]
        if sum(one._body_bytes for one in sending) > MAX_BODIES_BYTES:
            max(sending, key=lambda one: one._body_bytes)._refuse(b"503 Service Unavailable")

    def _address(self) -> str:
        return self.client[0] if self.client else ""


class _Outlet:
    """Transport to a client that may be gone, or may not read any more.

    uvloop raises an error where asyncio silently drops data, and neither closes before all data was read.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, patience_s: float) -> None:
        self._transport, self._loop, self._patience_s = transport, loop, patience_s

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    def resume_reading(self) -> None:
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        self._transport.close()
        if self._transport.get_write_buffer_size():
            self._loop.call_later(self._patience_s, self._transport.abort)

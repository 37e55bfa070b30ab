"""Call as the transport sees it: the client, and whether it still waits for the answer."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codequarry.serving.request.admission import Place
    from codequarry.serving.request.trace import Trace


@dataclass(slots=True, eq=False)
class Call:
    """State of one call. Shared between the event loop and the worker thread that answers."""

    client: str = ""
    """Client, by bearer token or else by address; "" for a single caller, which shares the server with no other."""
    place: Place | None = None
    """Its place among the running calls, if the transport took one; the transport also gives it back."""
    trace: Trace | None = None
    """Measurements of the request, once a tool works on it."""
    abandoned: bool = False
    """The client has stopped waiting: work stops at its next deadline check."""

    def is_abandoned(self) -> bool:
        """Tell whether the client has stopped waiting."""
        return self.abandoned


_CALL: ContextVar[Call | None] = ContextVar("codequarry_call", default=None)


def current_call() -> Call:
    """Return the call of this context; outside of any transport, one that is never abandoned."""
    return _CALL.get() or Call()


def begin_call(call: Call) -> None:
    """Make this the call of the context and of all tasks and threads started from it."""
    _CALL.set(call)


def token_client(client_id: str) -> str:
    """Return the client of a bearer token.

    Clients are told apart by tokens, because many may share an address, and one may have many.
    """
    return f"token {client_id}"

"""What a transport knows of the call it carries: who calls, and whether anybody still waits for the answer."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codequarry.serving.gate import Place


@dataclass(slots=True, eq=False)
class Call:
    """One call. Shared between the event loop and the worker thread that answers."""

    client: str = ""
    """Who calls, by bearer token or else by address; "" where there is one caller only, who shares with nobody."""
    place: Place | None = None
    """Its place among the running calls where the transport took one, which gives it back as well."""
    abandoned: bool = False
    """Nobody waits any more: work stops at its next deadline check."""

    def is_abandoned(self) -> bool:
        """Whether nobody waits any more."""
        return self.abandoned


_CALL: ContextVar[Call | None] = ContextVar("codequarry_call", default=None)


def current_call() -> Call:
    """The call of this context; one that nobody abandons outside of any transport."""
    return _CALL.get() or Call()


def begin_call(call: Call) -> None:
    """Make this the call of the context and of all tasks and threads started from it."""
    _CALL.set(call)


def token_client(client_id: str) -> str:
    """The client whose bearer token this is: many may share an address, and one may have many."""
    return f"token {client_id}"

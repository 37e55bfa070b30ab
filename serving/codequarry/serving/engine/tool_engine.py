"""Interface of an engine to the server: of one bundle, or of a fleet of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from pydantic import BaseModel

from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.health import HealthAnswer, HealthRequest
from codequarry.serving.request.admission import Gate, Lanes
from codequarry.serving.tools.context import ToolContext

if TYPE_CHECKING:
    from codequarry.serving.telemetry.telemetry import Telemetry

RequestT = TypeVar("RequestT", bound=BaseModel)
AnswerT = TypeVar("AnswerT", bound=BaseModel)


class ToolEngine(Protocol):
    """Engine that answers every tool. Safe to share between threads."""

    settings: ServingSettings
    gate: Gate
    lanes: Lanes
    telemetry: Telemetry | None

    @property
    def version_name(self) -> str:
        """Name of what is served now; "" when there is nothing."""
        ...

    def answer_admitted(
        self, name: str, tool: Callable[[ToolContext, RequestT], AnswerT], request: RequestT
    ) -> AnswerT:
        """Answer a call that holds a place at the gate.

        Args:
            name: Name of the tool.
            tool: Function that answers it from one version.
            request: Arguments of the call.

        Returns:
            The answer.
        """
        ...

    def health(self, _: HealthRequest) -> HealthAnswer:
        """Return the state of the server, without admission."""
        ...

    def close(self) -> None:
        """Stop answering; what is open closes when its last request has ended."""
        ...

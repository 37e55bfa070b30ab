"""Context of a tool: what every tool function gets beside its request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.describe import RefDescription
from codequarry.serving.ranking.rerank import Reranker
from codequarry.serving.request.deadline import Deadline
from codequarry.serving.version.open import Bundle


def no_version(_: int) -> str:
    """Return "": no earlier version is known."""
    return ""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Everything beside its request from which a tool answers. The request leases the version while it runs."""

    bundle: Bundle
    """The version."""
    settings: ServingSettings
    deadline: Deadline
    """Deadline of the request, by the time limit for searches."""
    reranker: Reranker | None = None
    """Language model that may order first results; None when there is none."""
    version_before: Callable[[int], str] = no_version
    """Returns the earlier version that had a chunk which this one lacks; "" when none is known."""
    refs: Callable[[], list[RefDescription]] = list
    """Returns the further refs that are indexed."""


ToolFunction = Callable[[ToolContext, Any], BaseModel]
"""Function that answers a tool's request."""

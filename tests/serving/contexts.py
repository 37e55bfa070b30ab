"""Contexts with which tests call the functions of tools."""

from __future__ import annotations

from codequarry.schemas.settings.load import ServingSettings
from codequarry.serving.request.deadline import NEVER, Deadline
from codequarry.serving.tools.context import ToolContext
from codequarry.serving.version.open import Bundle


def context_of(bundle: Bundle, deadline: Deadline = NEVER, **settings) -> ToolContext:
    """A context without reranker and without a version before."""
    return ToolContext(bundle, ServingSettings(**settings), deadline)

"""Tools ``set_scope`` and ``get_scope``, and the effect of a ``scope_id`` on a request."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from codequarry.schemas.wire.explore import ExploreRequest
from codequarry.schemas.wire.grep import CodeSearchRequest
from codequarry.schemas.wire.outline import OutlineRequest
from codequarry.schemas.wire.pro import ProRequest
from codequarry.schemas.wire.relations import RelationsRequest
from codequarry.schemas.wire.scope import GetScopeRequest, Scope, ScopeAnswer, SetScopeRequest, parse_scope_id
from codequarry.schemas.wire.search import SearchRequest
from codequarry.schemas.wire.symbols import DefinitionRequest, ReferencesRequest
from codequarry.serving.catalog.filters import scope_files
from codequarry.serving.tools.context import ToolContext
from codequarry.serving.version.open import Bundle

ScopedT = TypeVar(
    "ScopedT",
    SearchRequest, CodeSearchRequest, DefinitionRequest, ReferencesRequest, ProRequest, OutlineRequest, ExploreRequest,
    RelationsRequest,
)  # fmt: skip


def set_scope(context: ToolContext, request: SetScopeRequest) -> ScopeAnswer:
    """Return the id of a scope.

    Args:
        context: The version.
        request: Filters of the scope.

    Returns:
        The scope and its id.

    Raises:
        InvalidArgumentError: A language or repository is unknown, a glob is not allowed, or there are too many of them.
    """
    return _answer(context.bundle, Scope.of(request))


def get_scope(context: ToolContext, request: GetScopeRequest) -> ScopeAnswer:
    """Return the scope of an id; raises as `set_scope`."""
    return _answer(context.bundle, parse_scope_id(request.scope_id))


def scoped(request: ScopedT) -> ScopedT:
    """Add the filters of its scope to a request: both must match, so that a scope never widens a search.

    Args:
        request: Request that may have a ``scope_id``.

    Returns:
        The request with the scope's filters.

    Raises:
        InvalidArgumentError: The id does not come from `set_scope`.
    """
    if not request.scope_id:
        return request
    scope = parse_scope_id(request.scope_id)
    return request.model_copy(update={"filters": request.filters.inside(scope.filters())})


def _answer(bundle: Bundle, scope: Scope) -> ScopeAnswer:
    directory = bundle.directory
    sizes = directory.chunk_counts
    allowed = scope_files(scope.filters(), directory)
    kept = sizes if allowed is None else sizes[allowed]
    limits: list[str] = []
    if not kept.any():
        limits.append("the scope holds nothing: use fewer or wider globs, or see describe_index")
    elif allowed is None:
        limits.append("the scope holds everything")
    return ScopeAnswer(
        scope_id=scope.id(),
        scope=scope,
        files=int(np.count_nonzero(kept)),
        chunks=int(kept.sum()),
        limits=limits,
        bundle=bundle.info,
    )

"""``set_scope`` and ``get_scope``, and what a ``scope_id`` does to a request."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from codequarry.schemas.answers import ProRequest
from codequarry.schemas.code_search import CodeSearchRequest
from codequarry.schemas.scope import GetScopeRequest, Scope, ScopeAnswer, SetScopeRequest, parse_scope_id
from codequarry.schemas.symbol_tools import DefinitionRequest, ReferencesRequest
from codequarry.schemas.tools import SearchRequest
from codequarry.serving.bundle import Bundle
from codequarry.serving.filters import scope_files

ScopedT = TypeVar("ScopedT", SearchRequest, CodeSearchRequest, DefinitionRequest, ReferencesRequest, ProRequest)


def set_scope(bundle: Bundle, request: SetScopeRequest) -> ScopeAnswer:
    """Answer with the id of a scope.

    Raises InvalidArgumentError: unknown language or repository, a glob that is not allowed, or too many of them.
    """
    return _answer(bundle, Scope.of(request))


def get_scope(bundle: Bundle, request: GetScopeRequest) -> ScopeAnswer:
    """Answer with the scope of an id; raises as `set_scope`."""
    return _answer(bundle, parse_scope_id(request.scope_id))


def scoped(request: ScopedT) -> ScopedT:
    """The request, with the filters of its scope beside its own: both must match, so that a scope never widens.

    Raises InvalidArgumentError: the id is not one of `set_scope`.
    """
    if not request.scope_id:
        return request
    scope = parse_scope_id(request.scope_id)
    return request.model_copy(update={"filters": request.filters.inside(scope.filters())})


def _answer(bundle: Bundle, scope: Scope) -> ScopeAnswer:
    directory = bundle.directory
    sizes = np.diff(directory.row_starts)
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

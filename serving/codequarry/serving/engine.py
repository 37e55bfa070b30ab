"""The engine: typed request in, typed answer out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pydantic import BaseModel

from codequarry.schemas.answers import ProAnswer, ProRequest
from codequarry.schemas.code_search import CodeSearchAnswer, CodeSearchRequest
from codequarry.schemas.health import HealthAnswer, HealthRequest
from codequarry.schemas.index_description import DescribeAnswer, DescribeRequest
from codequarry.schemas.scope import GetScopeRequest, ScopeAnswer, SetScopeRequest
from codequarry.schemas.settings import ServingSettings
from codequarry.schemas.symbol_tools import DefinitionAnswer, DefinitionRequest, ReferencesAnswer, ReferencesRequest
from codequarry.schemas.tools import FetchAnswer, FetchRequest, SearchAnswer, SearchRequest
from codequarry.serving.answers import semantic_search_pro
from codequarry.serving.budgets import briefer_result, shorter_match, shorter_result, within_budget
from codequarry.serving.bundle import Bundle
from codequarry.serving.call import current_call
from codequarry.serving.code_search import search_code
from codequarry.serving.deadline import Deadline
from codequarry.serving.definitions import go_to_definition
from codequarry.serving.fetch import fetch
from codequarry.serving.follower import Follower
from codequarry.serving.gate import Gate
from codequarry.serving.health import health
from codequarry.serving.index_description import describe_index
from codequarry.serving.lanes import Lanes
from codequarry.serving.references import find_references
from codequarry.serving.reranker import reranker_of
from codequarry.serving.scopes import get_scope, scoped, set_scope
from codequarry.serving.search import search
from codequarry.serving.served import Served
from codequarry.serving.trace import saw_version

if TYPE_CHECKING:
    from codequarry.serving.telemetry import Telemetry


class Engine:
    """Answers every tool from the version being served. Safe to share between threads.

    Each request leases one version and is computed from it alone, while another may take its place for the next.
    """

    def __init__(self, bundle: Bundle, settings: ServingSettings) -> None:
        self.served = Served(bundle)
        self.settings = settings
        self.gate = Gate(settings.max_concurrency)
        self.lanes = Lanes()
        self.follower: Follower | None = None
        self.reranker = reranker_of(settings)
        """A language model that orders first results; None when the settings name none."""
        self.telemetry: Telemetry | None = None
        """Listens to requests when set."""
        self._started = time.monotonic()

    @classmethod
    def open(cls, root: Path, settings: ServingSettings) -> Self:
        """Open the current version under a bundle root, and follow CURRENT; raises as `Bundle.open_current`."""
        engine = cls(Bundle.open_current(root, settings), settings)
        engine.follower = Follower(root, engine.served, settings)
        engine.follower.start()
        return engine

    @property
    def bundle(self) -> Bundle:
        """The version of this moment; requests lease it instead. Raises UnavailableError: there is none now."""
        return self.served.bundle

    def search(self, request: SearchRequest) -> SearchAnswer:
        """Search, when a place is free. Raises BusyError, InvalidArgumentError, DeadlineError, UnavailableError."""
        with self.gate.place():
            return self.admitted_search(request)

    def fetch(self, request: FetchRequest) -> FetchAnswer:
        """Fetch, when a place is free. Raises as `search`, and NotFoundError."""
        with self.gate.place():
            return self.admitted_fetch(request)

    def search_code(self, request: CodeSearchRequest) -> CodeSearchAnswer:
        """Search text, when a place is free. Raises BusyError, InvalidArgumentError, DeadlineError."""
        with self.gate.place():
            return self.admitted_search_code(request)

    def definitions(self, request: DefinitionRequest) -> DefinitionAnswer:
        """Look up definitions, when a place is free. Raises as `search`, and NotFoundError."""
        with self.gate.place():
            return self.admitted_definitions(request)

    def references(self, request: ReferencesRequest) -> ReferencesAnswer:
        """Look up references, when a place is free. Raises as `search`, and NotFoundError."""
        with self.gate.place():
            return self.admitted_references(request)

    def admitted_search(self, request: SearchRequest) -> SearchAnswer:
        """Search for a caller that holds a place at the gate."""
        with self._answering("search", request) as bundle:
            reranker = self.reranker if self.settings.reranker_always else None
            found = search(bundle, scoped(request), self.settings, self._search_deadline(), reranker=reranker)
        limits = list(found.limits)
        results = within_budget(found.results, request.max_tokens, limits, shorter_result, briefer_result)
        return found.model_copy(update={"results": results, "limits": limits})

    def admitted_pro(self, request: ProRequest) -> ProAnswer:
        """Search with chosen stages for a caller that holds a place at the gate."""
        with self._answering("semantic_search_pro", request) as bundle:
            return semantic_search_pro(
                bundle, scoped(request), self.settings, self._search_deadline(), reranker=self.reranker
            )

    def admitted_fetch(self, request: FetchRequest) -> FetchAnswer:
        """Fetch for a caller that holds a place at the gate."""
        with self._answering("fetch", request) as bundle:
            deadline = Deadline.after(self.settings.fetch_timeout_s, abandoned=current_call().is_abandoned)
            return fetch(bundle, request, deadline, version_before=self.served.version_before)

    def health(self, _: HealthRequest) -> HealthAnswer:
        """How the server is; needs no place at the gate and no disk."""
        return health(self.served, self.follower, uptime_s=time.monotonic() - self._started)

    def admitted_search_code(self, request: CodeSearchRequest) -> CodeSearchAnswer:
        """Search text for a caller that holds a place at the gate."""
        with self._answering("search_code", request) as bundle:
            found = search_code(bundle, scoped(request), self._search_deadline())
        limits = list(found.limits)
        results = within_budget(found.results, request.max_tokens, limits, shorter_match)
        return found.model_copy(update={"results": results, "limits": limits})

    def admitted_definitions(self, request: DefinitionRequest) -> DefinitionAnswer:
        """Look up definitions for a caller that holds a place at the gate."""
        with self._answering("go_to_definition", request) as bundle:
            return go_to_definition(bundle, scoped(request), self._search_deadline())

    def admitted_references(self, request: ReferencesRequest) -> ReferencesAnswer:
        """Look up references for a caller that holds a place at the gate."""
        with self._answering("find_references", request) as bundle:
            return find_references(bundle, scoped(request), self._search_deadline())

    def admitted_set_scope(self, request: SetScopeRequest) -> ScopeAnswer:
        """Make a scope's id for a caller that holds a place at the gate."""
        with self._answering("set_scope", request) as bundle:
            return set_scope(bundle, request)

    def admitted_get_scope(self, request: GetScopeRequest) -> ScopeAnswer:
        """Read a scope's id for a caller that holds a place at the gate."""
        with self._answering("get_scope", request) as bundle:
            return get_scope(bundle, request)

    def admitted_description(self, request: DescribeRequest) -> DescribeAnswer:
        """Tell what is indexed to a caller that holds a place at the gate."""
        with self._answering("describe_index", request) as bundle:
            return describe_index(bundle, request)

    def close(self) -> None:
        """Stop following, and close the version once its last request has ended."""
        if self.follower is not None:
            self.follower.stop()
        if self.telemetry is not None:
            self.telemetry.close()
        if self.reranker is not None:
            self.reranker.close()
        self.served.close()

    @contextmanager
    def _answering(self, tool: str, request: BaseModel) -> Iterator[Bundle]:
        """The version for one request, which the telemetry listens to."""
        if self.telemetry is None:
            with self.served.lease() as bundle:
                yield bundle
            return
        with self.telemetry.request(tool, request), self.served.lease() as bundle:
            saw_version(bundle.manifest.version)
            yield bundle

    def _search_deadline(self) -> Deadline:
        return Deadline.after(self.settings.search_timeout_s, abandoned=current_call().is_abandoned)

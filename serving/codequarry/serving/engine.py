"""The engine: typed request in, typed answer out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Self

from codequarry.schemas.code_search import CodeSearchAnswer, CodeSearchRequest
from codequarry.schemas.health import HealthAnswer, HealthRequest
from codequarry.schemas.settings import ServingSettings
from codequarry.schemas.symbol_tools import DefinitionAnswer, DefinitionRequest, ReferencesAnswer, ReferencesRequest
from codequarry.schemas.tools import FetchAnswer, FetchRequest, SearchAnswer, SearchRequest
from codequarry.serving.bundle import Bundle
from codequarry.serving.code_search import search_code
from codequarry.serving.deadline import Deadline
from codequarry.serving.definitions import go_to_definition
from codequarry.serving.fetch import fetch
from codequarry.serving.follower import Follower
from codequarry.serving.gate import Gate
from codequarry.serving.health import health
from codequarry.serving.references import find_references
from codequarry.serving.search import search
from codequarry.serving.served import Served


class Engine:
    """Answers every tool from the version being served. Safe to share between threads.

    Each request leases one version and is computed from it alone, while another may take its place for the next.
    """

    def __init__(self, bundle: Bundle, settings: ServingSettings) -> None:
        self.served = Served(bundle)
        self.settings = settings
        self.gate = Gate(settings.max_concurrency)
        self.follower: Follower | None = None
        self._started = time.monotonic()

    @classmethod
    def open(cls, root: Path, settings: ServingSettings) -> Self:
        """Open the current version under a bundle root, and follow CURRENT; raises as `Bundle.open_current`."""
        engine = cls(Bundle.open_current(root, warp_threads=settings.warp_threads), settings)
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
        with self.served.lease() as bundle:
            return search(bundle, request, self.settings, Deadline.after(self.settings.search_timeout_s))

    def admitted_fetch(self, request: FetchRequest) -> FetchAnswer:
        """Fetch for a caller that holds a place at the gate."""
        with self.served.lease() as bundle:
            return fetch(bundle, request, Deadline.after(self.settings.fetch_timeout_s))

    def health(self, _: HealthRequest) -> HealthAnswer:
        """How the server is; needs no place at the gate and no disk."""
        return health(self.served, self.follower, uptime_s=time.monotonic() - self._started)

    def admitted_search_code(self, request: CodeSearchRequest) -> CodeSearchAnswer:
        """Search text for a caller that holds a place at the gate."""
        with self.served.lease() as bundle:
            return search_code(bundle, request, Deadline.after(self.settings.search_timeout_s))

    def admitted_definitions(self, request: DefinitionRequest) -> DefinitionAnswer:
        """Look up definitions for a caller that holds a place at the gate."""
        with self.served.lease() as bundle:
            return go_to_definition(bundle, request, Deadline.after(self.settings.search_timeout_s))

    def admitted_references(self, request: ReferencesRequest) -> ReferencesAnswer:
        """Look up references for a caller that holds a place at the gate."""
        with self.served.lease() as bundle:
            return find_references(bundle, request, Deadline.after(self.settings.search_timeout_s))

    def close(self) -> None:
        """Stop following, and close the version once its last request has ended."""
        if self.follower is not None:
            self.follower.stop()
        self.served.close()

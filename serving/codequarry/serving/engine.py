"""The engine: typed request in, typed answer out. The only place that holds the open bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from codequarry.schemas.code_search import CodeSearchAnswer, CodeSearchRequest
from codequarry.schemas.settings import ServingSettings
from codequarry.schemas.symbol_tools import DefinitionAnswer, DefinitionRequest, ReferencesAnswer, ReferencesRequest
from codequarry.schemas.tools import FetchAnswer, FetchRequest, SearchAnswer, SearchRequest
from codequarry.serving.bundle import Bundle
from codequarry.serving.code_search import search_code
from codequarry.serving.deadline import Deadline
from codequarry.serving.definitions import go_to_definition
from codequarry.serving.fetch import fetch
from codequarry.serving.gate import Gate
from codequarry.serving.references import find_references
from codequarry.serving.search import search


class Engine:
    """Answers every tool from one bundle. Safe to share between threads.

    A request reads ``bundle`` once and keeps what it read, so that another version can take its place between requests.
    """

    def __init__(self, bundle: Bundle, settings: ServingSettings) -> None:
        self.bundle = bundle
        self.settings = settings
        self.gate = Gate(settings.max_concurrency)

    @classmethod
    def open(cls, root: Path, settings: ServingSettings) -> Self:
        """Open the current version under a bundle root; raises as `Bundle.open_current`."""
        return cls(Bundle.open_current(root), settings)

    def search(self, request: SearchRequest) -> SearchAnswer:
        """Search, when a place is free. Raises BusyError, InvalidArgumentError, DeadlineError."""
        with self.gate.place():
            return self.admitted_search(request)

    def fetch(self, request: FetchRequest) -> FetchAnswer:
        """Fetch, when a place is free. Raises BusyError, InvalidArgumentError, NotFoundError, DeadlineError."""
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
        return search(self.bundle, request, self.settings, Deadline.after(self.settings.search_timeout_s))

    def admitted_fetch(self, request: FetchRequest) -> FetchAnswer:
        """Fetch for a caller that holds a place at the gate."""
        return fetch(self.bundle, request, Deadline.after(self.settings.fetch_timeout_s))

    def admitted_search_code(self, request: CodeSearchRequest) -> CodeSearchAnswer:
        """Search text for a caller that holds a place at the gate."""
        return search_code(self.bundle, request, Deadline.after(self.settings.search_timeout_s))

    def admitted_definitions(self, request: DefinitionRequest) -> DefinitionAnswer:
        """Look up definitions for a caller that holds a place at the gate."""
        return go_to_definition(self.bundle, request, Deadline.after(self.settings.search_timeout_s))

    def admitted_references(self, request: ReferencesRequest) -> ReferencesAnswer:
        """Look up references for a caller that holds a place at the gate."""
        return find_references(self.bundle, request, Deadline.after(self.settings.search_timeout_s))

    def close(self) -> None:
        """Close the bundle."""
        self.bundle.close()

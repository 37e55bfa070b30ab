"""Engine of a fleet: every tool answers from many bundles as if they were one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

from codequarry.schemas.errors import InvalidArgumentError, UnavailableError
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.health import ChannelHealth, HealthAnswer, HealthRequest
from codequarry.serving.engine.engine import describe_refusal, health, query_of
from codequarry.serving.fleet.browse_answers import (
    merge_descriptions,
    merge_files,
    merge_get_scope,
    merge_outlines,
    merge_overviews,
    merge_set_scope,
)
from codequarry.serving.fleet.fleet_call import AskedBundle, FleetCall
from codequarry.serving.fleet.place_answers import merge_definitions, merge_matches, merge_references
from codequarry.serving.fleet.ranked_answers import merge_connector_search, merge_explore, merge_pro, merge_search
from codequarry.serving.fleet.read_answers import merge_connector_fetch, merge_fetch, merge_resource
from codequarry.serving.ranking.rerank import reranker_of
from codequarry.serving.request.admission import Gate, Lanes, current_call
from codequarry.serving.request.deadline import Deadline
from codequarry.serving.request.trace import Trace, saw_version, tracing_call
from codequarry.serving.server.chatgpt import connector_fetch, connector_search
from codequarry.serving.tools.browse.explore import explore
from codequarry.serving.tools.browse.list_files import list_files
from codequarry.serving.tools.browse.outline import outline
from codequarry.serving.tools.browse.overview import overview
from codequarry.serving.tools.browse.resource import read_resource
from codequarry.serving.tools.context import ToolContext, ToolFunction, no_version
from codequarry.serving.tools.definitions import go_to_definition
from codequarry.serving.tools.describe import describe_index
from codequarry.serving.tools.fetch import fetch
from codequarry.serving.tools.grep import search_code
from codequarry.serving.tools.pro import semantic_search_pro
from codequarry.serving.tools.references import find_references
from codequarry.serving.tools.scopes import get_scope, set_scope
from codequarry.serving.tools.search import search
from codequarry.serving.version.served import Served
from codequarry.serving.visible.visible_bundle import visible_bundle

if TYPE_CHECKING:
    from codequarry.serving.fleet.replica_follower import ReplicaFollower
    from codequarry.serving.telemetry.telemetry import Telemetry

RequestT = TypeVar("RequestT", bound=BaseModel)
AnswerT = TypeVar("AnswerT", bound=BaseModel)

_MERGED: dict[ToolFunction, Callable[[FleetCall, Any], BaseModel]] = {
    search: merge_search,
    semantic_search_pro: merge_pro,
    explore: merge_explore,
    connector_search: merge_connector_search,
    fetch: merge_fetch,
    read_resource: merge_resource,
    connector_fetch: merge_connector_fetch,
    search_code: merge_matches,
    go_to_definition: merge_definitions,
    find_references: merge_references,
    outline: merge_outlines,
    list_files: merge_files,
    overview: merge_overviews,
    describe_index: merge_descriptions,
    set_scope: merge_set_scope,
    get_scope: merge_get_scope,
}

_UNTOLD = "it cannot be read now; the server's operator can ask healthz"
"""Reason for callers who may not see every repository: the true one may name a hidden one."""


@dataclass(frozen=True, slots=True)
class MissingBundle:
    """A bundle of a generation that cannot be opened."""

    reason: str
    repositories: frozenset[str]
    """Its repositories, which decide to whom it is told."""


@dataclass(frozen=True, slots=True)
class ServedGeneration:
    """Bundles that are served together."""

    number: int
    created: str
    """When it was made, UTC."""
    served: Mapping[str, Served] = field(default_factory=dict[str, Served])
    """Version of each bundle, by name."""
    missing: Mapping[str, MissingBundle] = field(default_factory=dict[str, MissingBundle])
    """Bundles that could not be opened."""


class FleetEngine:
    """Engine that answers every tool from one generation of a fleet. Safe to share between threads.

    A call leases all bundles of a generation at once, so that no answer mixes two generations.
    """

    def __init__(self, generation: ServedGeneration, settings: ServingSettings) -> None:
        """Answer from a generation.

        Args:
            generation: Its bundles.
            settings: Limits, stages and model servers.
        """
        self.settings = settings
        self.gate = Gate(settings.max_concurrency)
        self.lanes = Lanes()
        self.reranker = reranker_of(settings)
        self.telemetry: Telemetry | None = None
        """Listens to requests when set."""
        self.follower: ReplicaFollower | None = None
        """Serves generations that arrive; None where the first one stays."""
        self._lock = threading.Lock()
        self._generation = generation
        self._started = time.monotonic()

    @property
    def version_name(self) -> str:
        """Name of the generation that is served now."""
        return f"fleet-{self._generation.number}"

    @property
    def generation(self) -> ServedGeneration:
        """The generation that is served now."""
        return self._generation

    def swap(self, generation: ServedGeneration) -> None:
        """Serve a generation from the next call on; versions that it does not have close after their last request."""
        with self._lock:
            before, self._generation = self._generation, generation
        kept = {id(served) for served in generation.served.values()}
        for served in before.served.values():
            if id(served) not in kept:
                served.close()

    def answer_admitted(
        self, name: str, tool: Callable[[ToolContext, RequestT], AnswerT], request: RequestT
    ) -> AnswerT:
        """Answer a call that holds a place at the gate.

        Args:
            name: Name of the tool.
            tool: Function that answers it from one version.
            request: Arguments of the call.

        Returns:
            The merged answer.

        Raises:
            InvalidArgumentError: An argument is not allowed.
            NotFoundError: The request names something that is in no bundle.
            DeadlineError: The deadline has passed.
            UnavailableError: No bundle can answer.
        """
        with tracing_call(name, query_of(request)) as trace, self._observed(trace, request), self._call() as call:
            current_call().trace = trace
            saw_version(f"fleet-{call.generation}")
            if getattr(getattr(request, "filters", None), "ref", ""):
                raise InvalidArgumentError("ref: a fleet has no other branches", suggestion="leave it out")
            return _MERGED[tool](call, request)  # pyright: ignore[reportReturnType]

    def health(self, _: HealthRequest) -> HealthAnswer:
        """Return the state of all bundles together, without admission."""
        generation, uptime, scope = self._generation, time.monotonic() - self._started, current_call().scope
        parts = {name: health(served, None, uptime_s=uptime) for name, served in generation.served.items()}
        damaged = [f"{name}/{file}" for name, part in parts.items() for file in part.damaged]
        damaged += [f"{name}: {each.reason}" for name, each in generation.missing.items()]
        if not parts:
            status = "unavailable"
        else:
            status = "ok" if all(part.status == "ok" for part in parts.values()) and not damaged else "degraded"
        channels = {name: channel for part in parts.values() for name, channel in part.channels.items()}
        channels |= {
            name: channel for part in parts.values() for name, channel in part.channels.items() if not channel.open
        }
        answer = HealthAnswer(
            status=status,
            verified=all(part.verified for part in parts.values()),
            damaged=damaged,
            catalog=all(part.catalog for part in parts.values()),
            chunks=sum(part.chunks for part in parts.values()),
            channels={name: channel.model_copy(update={"counts": {}}) for name, channel in channels.items()},
            encoders={name: encoder for part in parts.values() for name, encoder in part.encoders.items()},
            follows_current=True,
            uptime_s=int(uptime),
            in_flight=sum(part.in_flight for part in parts.values()),
            draining=sum(part.draining for part in parts.values()),
        )
        refusal = self.follower.refusal if self.follower is not None else None
        if not scope.whole:
            closed = {name: ChannelHealth(open=one.open, reason="") for name, one in answer.channels.items()}
            answer = answer.model_copy(update={"damaged": [], "channels": closed, "chunks": 0})
        elif refusal is not None:
            answer = answer.model_copy(
                update={"refused": describe_refusal(refusal), "follows_current": False, "status": "degraded"}
            )
        if not parts:
            return answer
        with self._call() as call:
            seen = sum(len(member.context.bundle.directory.chunk_ids) for member in call.members)
            return answer.model_copy(update={"bundle": call.info(), "chunks": answer.chunks if scope.whole else seen})

    def close(self) -> None:
        """Stop following and answering; versions close when their last request has ended."""
        if self.follower is not None:
            self.follower.stop()
        if self.telemetry is not None:
            self.telemetry.close()
        if self.reranker is not None:
            self.reranker.close()
        for served in self._generation.served.values():
            served.close()

    @contextmanager
    def _call(self) -> Iterator[FleetCall]:
        deadline = Deadline.after(self.settings.search_timeout_s, abandoned=current_call().is_abandoned)
        scope = current_call().scope
        members: list[AskedBundle] = []
        with ExitStack() as leases:
            with self._lock:  # until all are leased, so that none is closed meanwhile
                generation = self._generation
                bundles = [(name, each, leases.enter_context(each.lease())) for name, each in generation.served.items()]
            told = {name: each for name, each in generation.missing.items() if any(map(scope.sees, each.repositories))}
            missing = {name: each.reason if scope.whole else _UNTOLD for name, each in told.items()}
            views = [(name, served, bundle, visible_bundle(bundle, scope)) for name, served, bundle in bundles]
            # A caller who may see nothing asks an empty bundle, as where there is only one.
            shown = [view for view in views if view[-1].manifest.sources] or ([] if missing else views[:1])
            for name, served, bundle, seen in shown:
                try:
                    bundle.require_whole()
                except UnavailableError as error:
                    missing[name] = error.message if scope.whole else _UNTOLD
                    continue
                # An id that was there before may have been of any repository.
                before = served.version_before if scope.whole else no_version
                context = ToolContext(seen, self.settings, deadline, self.reranker, before)
                members.append(AskedBundle(name, context))
            yield FleetCall(members, generation.number, generation.created, missing)

    def _observed(self, trace: Trace, request: BaseModel) -> AbstractContextManager[None]:
        return nullcontext() if self.telemetry is None else self.telemetry.request(trace, request)

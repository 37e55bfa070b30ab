"""Engine of a fleet: every tool answers from many bundles as if they were one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel

from codequarry.schemas.errors import InvalidArgumentError, UnavailableError
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.health import ChannelHealth, HealthAnswer, HealthRequest
from codequarry.serving.engine.engine import describe_refusal, health, query_of
from codequarry.serving.fleet.bundle_host import AskedBundle, OpenBundles
from codequarry.serving.fleet.fleet_call import FleetCall, MissingBundle
from codequarry.serving.fleet.merged_tools import MERGED
from codequarry.serving.ranking.rerank import reranker_of
from codequarry.serving.request.admission import Gate, Lanes, current_call
from codequarry.serving.request.deadline import Deadline
from codequarry.serving.request.repository_scope import RepositoryScope
from codequarry.serving.request.trace import Trace, saw_version, tracing_call
from codequarry.serving.tools.context import ToolContext, no_version
from codequarry.serving.version.served import Served
from codequarry.serving.visible.visible_bundle import visible_bundle

if TYPE_CHECKING:
    from codequarry.serving.fleet.replica_follower import ReplicaFollower
    from codequarry.serving.telemetry.telemetry import Telemetry

RequestT = TypeVar("RequestT", bound=BaseModel)
AnswerT = TypeVar("AnswerT", bound=BaseModel)

UNTOLD = "it cannot be read now; the server's operator can ask healthz"
"""Reason for callers who may not see every repository: the true one may name a hidden one."""


@dataclass(frozen=True, slots=True)
class ServedGeneration:
    """Bundles that are served together."""

    number: int
    created: str
    """UTC time at which it was made."""
    served: Mapping[str, Served] = field(default_factory=dict[str, Served])
    """Version of each bundle, by name."""
    missing: Mapping[str, MissingBundle] = field(default_factory=dict[str, MissingBundle])
    """Bundles that could not be opened."""
    sha256: str = ""
    """Digest of its file in the fleet."""
    elsewhere: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """Bundles that the share of this replica does not have, with their repositories."""


def visible_missing(missing: Mapping[str, MissingBundle], scope: RepositoryScope) -> dict[str, MissingBundle]:
    """Return the missing bundles of which a caller may see a repository, without what tells of others."""
    seen = {name: frozenset(filter(scope.sees, each.repositories)) for name, each in missing.items()}
    return {
        name: MissingBundle(each.reason if scope.whole else UNTOLD, seen[name])
        for name, each in missing.items()
        if seen[name]
    }


class OtherGenerationError(UnavailableError):
    """A generation that is not served here: not yet, or not any more."""

    retryable = True


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
        self.keeps_before_s = 0.0
        """Seconds for which the generation before is still answered from, for routers that began with it."""
        self._lock = threading.Lock()
        self._generation = generation
        self._before: tuple[ServedGeneration, float] | None = None
        """The generation before, and when it goes."""
        self._started = time.monotonic()

    @property
    def version_name(self) -> str:
        """Name of the generation that is served now."""
        return f"fleet-{self._generation.number}"

    @property
    def generation(self) -> ServedGeneration:
        """The generation that is served now."""
        return self._generation

    @property
    def generations(self) -> list[ServedGeneration]:
        """The generations that are answered from, the newest first."""
        with self._lock:
            return [self._generation, *([self._before[0]] if self._before is not None else [])]

    def swap(self, generation: ServedGeneration) -> None:
        """Serve a generation from the next call on; versions that it does not have close after their last request."""
        with self._lock:
            older, before, self._generation = self._before, self._generation, generation
            self._before = (before, time.monotonic() + self.keeps_before_s) if self.keeps_before_s else None
        leaving = [before] if older is None else [older[0], before]
        self._close_unused(leaving)

    def drop_before(self) -> None:
        """Close the generation before when its time has passed."""
        with self._lock:
            if self._before is None or time.monotonic() < self._before[1]:
                return
            before, self._before = self._before[0], None
        self._close_unused([before])

    def _close_unused(self, leaving: Sequence[ServedGeneration]) -> None:
        kept = {id(served) for one in self.generations for served in one.served.values()}
        for served in {id(each): each for one in leaving for each in one.served.values()}.values():
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
            return MERGED[tool](call, request)  # pyright: ignore[reportReturnType]

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
            seen = sum(one.chunks for member in call.members for one in member.sources)
            return answer.model_copy(update={"bundle": call.info(), "chunks": answer.chunks if scope.whole else seen})

    def close(self) -> None:
        """Stop following and answering; versions close when their last request has ended."""
        if self.follower is not None:
            self.follower.stop()
        if self.telemetry is not None:
            self.telemetry.close()
        if self.reranker is not None:
            self.reranker.close()
        for served in {id(each): each for one in self.generations for each in one.served.values()}.values():
            served.close()

    @contextmanager
    def _call(self) -> Iterator[FleetCall]:
        deadline = Deadline.after(self.settings.search_timeout_s, abandoned=current_call().is_abandoned)
        with self.open_call(current_call().scope, deadline) as call:
            yield call

    @contextmanager
    def open_call(
        self, scope: RepositoryScope, deadline: Deadline, *, sha256: str = "", only: Collection[str] | None = None
    ) -> Iterator[FleetCall]:
        """Lease the bundles of a generation for a call.

        Args:
            scope: Repositories that the caller may see.
            deadline: Deadline of the call.
            sha256: Digest of the generation; the newest one when empty.
            only: Names of bundles to lease; all when None.

        Yields:
            The bundles, as the caller may see them.

        Raises:
            OtherGenerationError: The generation is not served.
        """
        host, members = OpenBundles(), list[AskedBundle]()
        with ExitStack() as leases:
            with self._lock:  # until all are leased, so that none is closed meanwhile
                generation = self._find_generation(sha256)
                asked = {name: each for name, each in generation.served.items() if only is None or name in only}
                bundles = [(name, each, leases.enter_context(each.lease())) for name, each in asked.items()]
            missing = visible_missing(generation.missing, scope)
            views = [(name, served, bundle, visible_bundle(bundle, scope)) for name, served, bundle in bundles]
            # A caller who may see nothing asks an empty bundle, as where there is only one.
            shown = [view for view in views if view[-1].manifest.sources] or ([] if missing else views[:1])
            for name, served, bundle, seen in shown:
                sources = seen.manifest.sources
                try:
                    bundle.require_whole()
                except UnavailableError as error:
                    repositories = frozenset(one.name for one in sources)
                    missing[name] = MissingBundle(error.message if scope.whole else UNTOLD, repositories)
                    continue
                # An id that was there before may have been of any repository.
                before = served.version_before if scope.whole else no_version
                host.contexts[name] = ToolContext(seen, self.settings, deadline, self.reranker, before)
                members.append(AskedBundle(name, sources, host))
            yield FleetCall(
                members, generation.number, generation.created, missing, self.settings, deadline, self.reranker
            )

    def _find_generation(self, sha256: str) -> ServedGeneration:
        known = [self._generation, *([self._before[0]] if self._before is not None else [])]
        found = next((one for one in known if not sha256 or one.sha256 == sha256), None)
        if found is None:
            raise OtherGenerationError(f"generation {known[0].number} is served here, and another was asked for")
        return found

    def _observed(self, trace: Trace, request: BaseModel) -> AbstractContextManager[None]:
        return nullcontext() if self.telemetry is None else self.telemetry.request(trace, request)

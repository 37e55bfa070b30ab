"""Engine of a router: every tool answers from the bundles of several replicas as if they were one."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel

from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.health import ChannelHealth, HealthAnswer, HealthRequest
from codequarry.serving.engine.engine import query_of
from codequarry.serving.fleet.bundle_host import AskedBundle
from codequarry.serving.fleet.fleet_call import FleetCall, MissingBundle
from codequarry.serving.fleet.fleet_engine import UNTOLD, visible_missing
from codequarry.serving.fleet.merged_tools import MERGED
from codequarry.serving.fleet.remote_replica import RemoteBundles, Replica
from codequarry.serving.fleet.replica_wire import GenerationState
from codequarry.serving.ranking.rerank import reranker_of
from codequarry.serving.request.admission import Gate, Lanes, current_call
from codequarry.serving.request.deadline import Deadline
from codequarry.serving.request.parallel import Threads
from codequarry.serving.request.repository_scope import RepositoryScope
from codequarry.serving.request.trace import Trace, saw_version, tracing_call
from codequarry.serving.tools.context import ToolContext

if TYPE_CHECKING:
    from codequarry.serving.telemetry.telemetry import Telemetry

logger = logging.getLogger(__name__)

RequestT = TypeVar("RequestT", bound=BaseModel)
AnswerT = TypeVar("AnswerT", bound=BaseModel)
_MOST_THREADS = 64
_STOP_S = 2.0


@dataclass(frozen=True, slots=True)
class _Held:
    """A generation, and the replicas that hold its bundles."""

    state: GenerationState
    """The generation, as one of the replicas tells it."""
    places: dict[str, list[tuple[Replica, GenerationState]]]
    """Replicas of each bundle that can be asked."""
    missing: dict[str, MissingBundle]
    """Bundles that none of them can be asked for."""


class RouterEngine:
    """Engine that answers every tool from the replicas of a fleet. Safe to share between threads.

    A call asks all replicas for the same generation, so that no answer mixes two.
    """

    def __init__(self, settings: ServingSettings) -> None:
        """Ask the replicas of the settings for their state, once; they may come later.

        Args:
            settings: Replicas, limits, stages and model servers.
        """
        self.settings = settings
        self.gate = Gate(settings.max_concurrency)
        self.lanes = Lanes()
        self.telemetry: Telemetry | None = None
        """Listens to requests when set."""
        self.replicas = [Replica(url, settings) for url in settings.replicas]
        self._reranker = reranker_of(settings)
        self._run = Threads(min(_MOST_THREADS, max(1, settings.max_concurrency * len(self.replicas))))
        self._turns = itertools.count()
        self._started = time.monotonic()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="follow-replicas", daemon=True)
        self.look()

    def follow(self) -> None:
        """Start to ask the replicas for their state every ``follow_interval_s``."""
        self._thread.start()

    def look(self) -> None:
        """Ask all replicas for their state, once."""
        self._run([replica.look for replica in self.replicas])

    @property
    def version_name(self) -> str:
        """Name of the generation that is served now; "" when no replica has answered."""
        held = self._choose_generation()
        return "" if held is None else f"fleet-{held.state.number}"

    def answer_admitted(
        self, name: str, tool: Callable[[ToolContext, RequestT], AnswerT], request: RequestT
    ) -> AnswerT:
        """Answer a call that holds a place at the gate; see `FleetEngine.answer_admitted`.

        Args:
            name: Name of the tool.
            tool: Function that answers it from one version.
            request: Arguments of the call.

        Returns:
            The merged answer. Where a replica was lost meanwhile, others that have its bundles are asked once more.

        Raises:
            InvalidArgumentError: An argument is not allowed.
            NotFoundError: The request names something that is in no bundle.
            DeadlineError: The deadline has passed.
            UnavailableError: No replica can answer.
        """
        with tracing_call(name, query_of(request)) as trace, self._observed(trace, request):
            current_call().trace = trace
            if getattr(getattr(request, "filters", None), "ref", ""):
                raise InvalidArgumentError("ref: a fleet has no other branches", suggestion="leave it out")
            deadline = Deadline.after(self.settings.search_timeout_s, abandoned=current_call().is_abandoned)
            call, hosts = self._open_call(current_call().scope, deadline)
            try:
                answer = MERGED[tool](call, request)
            except Exception:
                if not self._has_more(hosts):
                    raise
            else:
                if not self._has_more(hosts):
                    saw_version(f"fleet-{call.generation}")
                    return answer  # pyright: ignore[reportReturnType]
            call, _ = self._open_call(current_call().scope, deadline)
            saw_version(f"fleet-{call.generation}")
            return MERGED[tool](call, request)  # pyright: ignore[reportReturnType]

    def health(self, _: HealthRequest) -> HealthAnswer:
        """Return the state of all replicas together, without asking them."""
        scope, held = current_call().scope, self._choose_generation()
        parts = [replica.state.health for replica in self.replicas if replica.state is not None and not replica.down]
        missing = {} if held is None else held.missing
        down = [f"replica {number}: {one.down}" for number, one in enumerate(self.replicas, 1) if one.down]
        sound = not missing and not down and all(part.status == "ok" for part in parts)
        channels = {name: channel for part in parts for name, channel in part.channels.items()}
        channels |= {name: channel for part in parts for name, channel in part.channels.items() if not channel.open}
        answer = HealthAnswer(
            status="unavailable" if held is None or not held.places else "ok" if sound else "degraded",
            verified=all(part.verified for part in parts) and bool(parts),
            damaged=[*down, *(f"{name}: {each.reason}" for name, each in missing.items())],
            catalog=all(part.catalog for part in parts) and bool(parts),
            chunks=0,
            channels=channels,
            encoders={name: encoder for part in parts for name, encoder in part.encoders.items()},
            follows_current=not down,
            uptime_s=int(time.monotonic() - self._started),
            in_flight=sum(part.in_flight for part in parts),
            draining=sum(part.draining for part in parts),
        )
        if not scope.whole:
            closed = {name: ChannelHealth(open=one.open, reason="") for name, one in channels.items()}
            answer = answer.model_copy(update={"damaged": [], "channels": closed})
        if held is None:
            return answer
        call = self._open_call(scope, Deadline.after(self.settings.search_timeout_s))[0]
        chunks = sum(one.chunks for member in call.members for one in member.sources)
        return answer.model_copy(update={"bundle": call.info(), "chunks": chunks})

    def close(self) -> None:
        """Stop following and answering."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_S)
        self._run.close()
        if self.telemetry is not None:
            self.telemetry.close()
        if self._reranker is not None:
            self._reranker.close()

    def _follow(self) -> None:
        while not self._stopping.wait(self.settings.follow_interval_s):
            try:
                self.look()
            except Exception:
                # Without this thread, no generation would arrive any more.
                logger.exception("asking the replicas failed; the next look may go well")

    def _choose_generation(self) -> _Held | None:
        """Choose the generation of which fewest bundles are missing, the newest of these; None when none is known."""
        states = [(replica, replica.state) for replica in self.replicas if replica.state is not None]
        known = {each.sha256: each for _, state in states for each in state.generations}
        held = [self._find_holders(each) for each in known.values()]
        return min(held, key=lambda one: (len(one.missing), -one.state.number), default=None)

    def _find_holders(self, wanted: GenerationState) -> _Held:
        places: dict[str, list[tuple[Replica, GenerationState]]] = {}
        lost: dict[str, MissingBundle] = {}
        named = {name: frozenset(repositories) for name, repositories in wanted.elsewhere.items()}
        for replica in self.replicas:
            own = () if replica.state is None else replica.state.generations
            if (state := next((one for one in own if one.sha256 == wanted.sha256), None)) is None:
                continue
            for name, sources in state.bundles.items():
                if replica.down:
                    lost[name] = MissingBundle(replica.down, frozenset(one.name for one in sources))
                else:
                    places.setdefault(name, []).append((replica, state))
            for name, (reason, repositories) in state.missing.items():
                lost.setdefault(name, MissingBundle(replica.down or reason, frozenset(repositories)))
        unheld = {name: MissingBundle("no replica that answers has it", names) for name, names in named.items()}
        missing = {name: each for name, each in {**unheld, **lost}.items() if name not in places}
        return _Held(wanted, places, missing)

    def _open_call(self, scope: RepositoryScope, deadline: Deadline) -> tuple[FleetCall, Collection[RemoteBundles]]:
        """Return the bundles that a caller may see, each at one of its replicas, and the replicas as this call asks."""
        held = self._choose_generation()
        hosts: dict[Replica, RemoteBundles] = {}
        members: list[AskedBundle] = []
        missing: dict[str, MissingBundle] = {}
        if held is None:
            reasons = {f"of replica {number}": one.down for number, one in enumerate(self.replicas, 1)}
            missing = {
                name: MissingBundle(reason if scope.whole else UNTOLD, frozenset()) for name, reason in reasons.items()
            }
        else:
            missing = visible_missing(held.missing, scope)
            turn = next(self._turns)
            for name in sorted(held.places):
                replica, state = held.places[name][turn % len(held.places[name])]
                if replica not in hosts:
                    hosts[replica] = RemoteBundles(replica, held.state.sha256, scope, deadline)
                seen = tuple(one for one in state.bundles[name] if scope.sees(one.name))
                members.append(AskedBundle(name, seen, hosts[replica]))
            # A caller who may see nothing asks an empty bundle, as where there is only one.
            members = [one for one in members if one.sources] or ([] if missing else members[:1])
        number, created = (0, "") if held is None else (held.state.number, held.state.created)
        call = FleetCall(members, number, created, missing, self.settings, deadline, self._reranker, self._run)
        return call, hosts.values()

    def _has_more(self, hosts: Collection[RemoteBundles]) -> bool:
        """Tell whether to ask again: a replica was lost, and others have what it had, or it has moved on."""
        lost = [host for host in hosts if host.lost]
        moved = [host.replica for host in lost if host.moved]
        if moved:
            self._run([replica.look for replica in moved])
        return bool(moved) or bool(lost and any(self._copies_of(host.replica) for host in lost))

    def _copies_of(self, replica: Replica) -> bool:
        held = self._choose_generation()
        own: Sequence[str] = [] if replica.state is None else list(replica.state.generations[0].bundles)
        return held is not None and any(name in held.places for name in own)

    def _observed(self, trace: Trace, request: BaseModel) -> AbstractContextManager[None]:
        return nullcontext() if self.telemetry is None else self.telemetry.request(trace, request)

"""Answers of a replica to routers: each request names the generation, and the scope of the caller behind it.

A search takes several steps, between which the replica keeps the bundles leased, for as long as the router gave it.
"""

from __future__ import annotations

import secrets
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from pydantic import Field, ValidationError

from codequarry.schemas.errors import CodequarryError, InvalidArgumentError, UnavailableError
from codequarry.schemas.strict_model import StrictModel
from codequarry.schemas.wire.health import HealthRequest
from codequarry.serving.fleet.bundle_host import BundleHost
from codequarry.serving.fleet.fleet_call import FleetCall
from codequarry.serving.fleet.fleet_engine import FleetEngine, OtherGenerationError, ServedGeneration
from codequarry.serving.fleet.replica_wire import (
    SEARCHES,
    TOOLS,
    GenerationState,
    ReplicaState,
    StepWire,
    dump_error,
    request_type,
)
from codequarry.serving.request.deadline import Deadline
from codequarry.serving.request.repository_scope import RepositoryScope
from codequarry.serving.tools.version_search import SearchedVersions

KEEPS_BEFORE_S = 60.0
"""Seconds for which a replica of routers answers from the generation before."""
_MOST_SEARCHES = 1_000
_LONGEST_S = 600.0
_STEPS = ("measure", "best_scores", "gather", "rank", "interact", "rows", "build")


class _Begin(StrictModel):
    """Terms of a call of a router."""

    sha256: str = Field(min_length=1)
    scope: tuple[str, ...]
    seconds: float = Field(gt=0, le=_LONGEST_S)
    tool: str
    requests: dict[str, str] = Field(min_length=1)


class _RouterRequest(StrictModel):
    """Body of a request of a router."""

    begin: _Begin | None = None
    call: str = ""
    step: str = ""
    arguments: dict[str, Any] = Field(default_factory=dict[str, Any])


@dataclass(slots=True)
class _Search:
    """Search under way."""

    versions: SearchedVersions
    leases: ExitStack
    until: float
    """Moment on the monotonic clock at which it is forgotten."""


class ReplicaDoor:
    """Answers routers from the bundles of a replica. Safe to share between threads."""

    def __init__(self, engine: FleetEngine) -> None:
        """Answer routers.

        Args:
            engine: Engine of the replica.
        """
        self._engine, self._wire = engine, StepWire(engine.settings.fusion)
        self._lock = threading.Lock()
        self._searches: dict[str, _Search] = {}

    def answer(self, body: bytes, client: str, trusted: RepositoryScope) -> dict[str, Any]:
        """Answer one request of a router.

        Args:
            body: JSON of the request.
            client: Name of the router, for the gate.
            trusted: Repositories of the router's own grants, which the scope of a caller can only narrow.

        Returns:
            The answer, or ``error``; ``other_generation`` is true where the generation is not served here.
        """
        self._forget_old()
        try:
            asked = _RouterRequest.model_validate_json(body)
            if asked.begin is None and not asked.call:
                return {"state": self.state(trusted).model_dump_json(exclude_unset=True)}
            with self._engine.gate.place(client):
                if asked.step:
                    return self._answer_step(asked, trusted)
                return {"answers": self._ask(asked.begin, trusted)} if asked.begin is not None else {}
        except ValidationError:
            return {"error": dump_error(InvalidArgumentError("the request is none of a router of this version"))}
        except OtherGenerationError as error:
            return {"error": dump_error(error), "other_generation": True}
        except CodequarryError as error:
            return {"error": dump_error(error)}

    def state(self, trusted: RepositoryScope) -> ReplicaState:
        """Return the generations from which this replica answers, as far as a router may see their repositories."""
        generations = tuple(_state_of(one, trusted) for one in self._engine.generations)
        return ReplicaState(generations=generations, health=self._engine.health(HealthRequest()))

    def close(self) -> None:
        """Forget searches under way."""
        with self._lock:
            leaving, self._searches = list(self._searches.values()), {}
        for each in leaving:
            each.leases.close()

    def _scope(self, begin: _Begin, trusted: RepositoryScope) -> RepositoryScope:
        known = [
            source.name
            for generation in self._engine.generations
            for served in generation.served.values()
            for source in served.bundle.manifest.sources
        ]
        return trusted.narrowed(RepositoryScope(begin.scope), known)

    def _open(self, begin: _Begin, trusted: RepositoryScope, leases: ExitStack) -> BundleHost:
        call: FleetCall = leases.enter_context(
            self._engine.open_call(
                self._scope(begin, trusted),
                Deadline.after(begin.seconds),
                sha256=begin.sha256,
                only=begin.requests.keys(),
            )
        )
        lacking = sorted(begin.requests.keys() - {member.name for member in call.members})
        if lacking:
            raise UnavailableError(f"bundle {lacking[0]} does not answer", suggestion="ask the replica's healthz")
        return call.members[0].host

    def _ask(self, begin: _Begin, trusted: RepositoryScope) -> dict[str, Any]:
        tool = TOOLS.get(begin.tool)
        if tool is None:
            raise InvalidArgumentError("the tool is not one that routers ask for")
        kind = request_type(tool)
        requests = {name: kind.model_validate_json(one) for name, one in begin.requests.items()}
        with ExitStack() as leases:
            replies = self._open(begin, trusted, leases).ask(tool, requests)
            return {
                name: {"error": dump_error(reply)}
                if isinstance(reply, CodequarryError)
                else {"answer": reply.model_dump_json(exclude_unset=True)}
                for name, reply in replies.items()
            }

    def _answer_step(self, asked: _RouterRequest, trusted: RepositoryScope) -> dict[str, Any]:
        if asked.step not in _STEPS:
            raise InvalidArgumentError("the step is none of a search")
        name, search = asked.call, self._find(asked.call) if asked.begin is None else self._begin(asked.begin, trusted)
        try:
            arguments = self._wire.load_arguments(asked.arguments)
        except (KeyError, TypeError, ValueError):
            search.leases.close()
            raise InvalidArgumentError("the arguments are none of this step") from None
        try:
            result = self._wire.dump_result(asked.step, getattr(search.versions, asked.step)(**arguments))
        except BaseException:
            search.leases.close()
            raise
        if asked.step == "build":
            search.leases.close()
            return {"call": "", "result": result}
        name = name or secrets.token_hex(16)
        with self._lock:
            self._searches[name] = search
        return {"call": name, "result": result}

    def _begin(self, begin: _Begin, trusted: RepositoryScope) -> _Search:
        kind = SEARCHES.get(begin.tool)
        if kind is None:
            raise InvalidArgumentError("the tool is no search")
        if len(self._searches) >= _MOST_SEARCHES:
            raise UnavailableError("too many searches of routers are under way")
        requests = {name: kind.model_validate_json(one) for name, one in begin.requests.items()}
        with ExitStack() as leases:
            versions = self._open(begin, trusted, leases).search(requests)
            return _Search(versions, leases.pop_all(), time.monotonic() + begin.seconds)

    def _find(self, name: str) -> _Search:
        with self._lock:
            search = self._searches.pop(name, None)  # a step at a time
        if search is None:
            raise UnavailableError("the search is not under way any more", suggestion="call again")
        return search

    def _forget_old(self) -> None:
        now = time.monotonic()
        with self._lock:
            old = [name for name, each in self._searches.items() if each.until < now]
            leaving = [self._searches.pop(name) for name in old]
        for each in leaving:
            each.leases.close()


def _state_of(generation: ServedGeneration, trusted: RepositoryScope) -> GenerationState:
    bundles: dict[str, tuple[Any, ...]] = {}
    missing = {name: (each.reason, tuple(sorted(each.repositories))) for name, each in generation.missing.items()}
    for name, served in generation.served.items():
        sources = tuple(one for one in served.bundle.manifest.sources if trusted.sees(one.name))
        try:
            served.bundle.require_whole()
        except UnavailableError as error:
            missing[name] = (error.message, tuple(one.name for one in sources))
        else:
            bundles[name] = sources
    return GenerationState(
        sha256=generation.sha256,
        number=generation.number,
        created=generation.created,
        bundles=bundles,
        missing={name: (why, _select_visible(names, trusted)) for name, (why, names) in missing.items()},
        elsewhere={name: _select_visible(names, trusted) for name, names in generation.elsewhere.items()},
    )


def _select_visible(names: Any, trusted: RepositoryScope) -> tuple[str, ...]:
    return tuple(sorted(filter(trusted.sees, names)))

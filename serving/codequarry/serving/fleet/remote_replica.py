"""Replicas on other machines, as a router asks them: their state, their bundles, their part of a search."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from codequarry.schemas.errors import CodequarryError, EndpointError, ReplicaError
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.settings.model_servers import EndpointOptions
from codequarry.schemas.wire.pro import ProRequest
from codequarry.schemas.wire.search import SearchRequest, SearchResult
from codequarry.serving.catalog.catalog import ChunkRow
from codequarry.serving.channels.base import TermStatistics
from codequarry.serving.encoders.client import Endpoint
from codequarry.serving.fleet.replica_wire import ReplicaState, StepWire, answer_type, load_error
from codequarry.serving.http.protocol import ROUTER_PATH
from codequarry.serving.ranking.late import Decision
from codequarry.serving.ranking.promising import Measured
from codequarry.serving.ranking.ranking import CommonScale, Placed
from codequarry.serving.request.deadline import Deadline
from codequarry.serving.request.repository_scope import RepositoryScope
from codequarry.serving.tools.context import ToolFunction
from codequarry.serving.tools.version_search import Gathered, Rescored

_LEAST_S = 0.001


class Replica:
    """A replica and what it last said of itself. Safe to share between threads."""

    def __init__(self, url: str, settings: ServingSettings) -> None:
        """Name a replica, without asking it.

        Args:
            url: Its address.
            settings: Token and limits of requests to it.
        """
        self.url = url
        self.state: ReplicaState | None = None
        """Its last state; None before it answered once."""
        self.down = "its replica has not answered yet"
        """Reason why it is not asked; "" while it answers."""
        self.wire = StepWire(settings.fusion)
        self._endpoint = Endpoint(
            EndpointOptions(
                url, settings.replica_token, settings.replica_timeout_s, concurrency=settings.max_concurrency
            )
        )

    def look(self) -> None:
        """Ask for its state."""
        try:
            self.state = ReplicaState.model_validate_json(self.post({})["state"])
            self.down = ""
        except ReplicaError as error:
            self.down = error.message
        except (KeyError, TypeError, ValidationError, CodequarryError):
            self.down = "its replica has another version of this program"

    def post(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request.

        Args:
            body: The request.

        Returns:
            The answer.

        Raises:
            ReplicaError: It does not answer, does not trust this router, or is busy.
            CodequarryError: The error that it answers with.
        """
        try:
            found = self._endpoint.post(ROUTER_PATH, body)
        except EndpointError as error:
            self.down = f"its replica does not answer: {error.message}"
            raise ReplicaError(self.down, suggestion="look at the replica, and at its auth.routers") from error
        if (refusal := found.get("error")) is None:
            return found
        error = load_error(refusal)
        if found.get("other_generation"):
            raise _MovedError("its replica serves another generation now", suggestion="call again")
        if error.code in ("BUSY", "UNAVAILABLE"):
            raise ReplicaError(f"its replica cannot answer now: {error.message}", suggestion="call again")
        raise error


class _MovedError(ReplicaError):
    """The replica does not have the generation any more, or not yet."""


class RemoteBundles:
    """Bundles of a replica for one call."""

    def __init__(self, replica: Replica, sha256: str, scope: RepositoryScope, deadline: Deadline) -> None:
        """Ask a replica for one call.

        Args:
            replica: The replica.
            sha256: Digest of the generation.
            scope: Repositories that the caller may see.
            deadline: Deadline of the call.
        """
        self.lost = ""
        self.moved = False
        """True when it is lost because it serves another generation."""
        self.replica = replica
        self._sha256, self._scope, self._deadline = sha256, scope, deadline

    def ask(self, tool: ToolFunction, requests: Mapping[str, BaseModel]) -> dict[str, BaseModel | CodequarryError]:
        """See `BundleHost.ask`."""
        found = self.post({"begin": self.begin(tool.__name__, requests)})
        kind = answer_type(tool)
        try:
            return {
                name: load_error(each["error"]) if "error" in each else kind.model_validate_json(each["answer"])
                for name, each in found["answers"].items()
            }
        except (KeyError, TypeError, ValidationError):
            raise self.lose("its replica has another version of this program") from None

    def search(self, requests: Mapping[str, SearchRequest | ProRequest]) -> RemoteVersions:
        """See `BundleHost.search`."""
        tool = "search" if isinstance(next(iter(requests.values())), SearchRequest) else "semantic_search_pro"
        return RemoteVersions(self, self.begin(tool, requests), len(requests))

    def begin(self, tool: str, requests: Mapping[str, BaseModel]) -> dict[str, Any]:
        """Return the terms of a request of a tool."""
        left = max(_LEAST_S, min(self._deadline.at - time.monotonic(), self._deadline.seconds))
        return {
            "sha256": self._sha256,
            "scope": list(self._scope.globs),
            "seconds": left,
            "tool": tool,
            "requests": {name: one.model_dump_json(exclude_unset=True) for name, one in requests.items()},
        }

    def post(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request; raises as `BundleHost.ask`, and what the replica answers with."""
        if self.lost:
            raise ReplicaError(self.lost)
        try:
            return self.replica.post(body)
        except ReplicaError as error:
            self.moved = isinstance(error, _MovedError)
            raise self.lose(error.message) from error

    def lose(self, reason: str) -> ReplicaError:
        """Leave the replica out of the call from now on, and return the error of that."""
        self.lost = reason
        return ReplicaError(reason, suggestion="call again")


class RemoteVersions:
    """Versions of a replica that are searched; see `SearchedVersions`, whose steps raise as `BundleHost.ask`."""

    def __init__(self, host: RemoteBundles, begin: Mapping[str, Any], count: int) -> None:
        """Search versions of a replica.

        Args:
            host: The replica.
            begin: Terms of the search.
            count: Number of versions.
        """
        self.count = count
        self._host, self._begin, self._call = host, begin, ""

    def measure(self, *, nearness: bool) -> list[Measured]:
        """See `SearchedVersions.measure`."""
        return self._step("measure", nearness=nearness)

    def best_scores(self, total: TermStatistics, versions: Sequence[int]) -> list[float]:
        """See `SearchedVersions.best_scores`."""
        return self._step("best_scores", total=total, versions=versions)

    def gather(self, total: TermStatistics | None, versions: Sequence[int], *, alone: bool) -> list[Gathered]:
        """See `SearchedVersions.gather`."""
        return self._step("gather", total=total, versions=versions, alone=alone)

    def rank(self, common: CommonScale | None, limit: int) -> list[list[Placed]]:
        """See `SearchedVersions.rank`."""
        return self._step("rank", common=common, limit=limit)

    def interact(self, decision: Decision) -> list[Rescored]:
        """See `SearchedVersions.interact`."""
        return self._step("interact", decision=decision)

    def rows(self, chunks: Sequence[Placed]) -> list[ChunkRow]:
        """See `SearchedVersions.rows`."""
        return self._step("rows", chunks=list(chunks))

    def build(self, first: Sequence[Placed], rest: Sequence[Placed], *, code: bool) -> list[SearchResult]:
        """See `SearchedVersions.build`."""
        return self._step("build", first=list(first), rest=list(rest), code=code)

    def _step(self, step: str, **arguments: Any) -> Any:
        wire = self._host.replica.wire
        body = {"step": step, "arguments": wire.dump_arguments(arguments)}
        body |= {"call": self._call} if self._call else {"begin": self._begin}
        found = self._host.post(body)
        try:
            self._call = found["call"]
            return wire.load_result(step, found["result"])
        except (KeyError, TypeError, ValueError):
            raise self._host.lose("its replica has another version of this program") from None

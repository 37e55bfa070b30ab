"""Engine of the service: typed request in, typed answer out, and the state of the server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pydantic import BaseModel

from codequarry.schemas.errors import IntegrityError, InvalidArgumentError, NoBundleError, UnavailableError
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.describe import RefDescription
from codequarry.schemas.wire.grep import CodeSearchAnswer, CodeSearchRequest
from codequarry.schemas.wire.health import ChannelHealth, HealthAnswer, HealthRequest, HealthStatus, RefusedVersion
from codequarry.schemas.wire.search import FetchAnswer, FetchRequest, SearchAnswer, SearchRequest
from codequarry.schemas.wire.symbols import DefinitionAnswer, DefinitionRequest, ReferencesAnswer, ReferencesRequest
from codequarry.serving.engine.first_version import FirstVersion
from codequarry.serving.engine.follow import Follower, Refusal
from codequarry.serving.engine.local_files import LocalFiles
from codequarry.serving.engine.served_refs import Choice, ServedRefs, is_commit
from codequarry.serving.ranking.rerank import reranker_of
from codequarry.serving.request.admission import Gate, Lanes, current_call
from codequarry.serving.request.deadline import Deadline
from codequarry.serving.request.repository_scope import RepositoryScope
from codequarry.serving.request.trace import Trace, saw_version, tracing_call
from codequarry.serving.tools.context import ToolContext, no_version
from codequarry.serving.tools.definitions import go_to_definition
from codequarry.serving.tools.fetch import fetch
from codequarry.serving.tools.references import find_references
from codequarry.serving.tools.search import search
from codequarry.serving.tools.text_search.grep import search_code
from codequarry.serving.version.open import Bundle
from codequarry.serving.version.served import Served
from codequarry.serving.visible.visible_bundle import visible_bundle

if TYPE_CHECKING:
    from codequarry.serving.telemetry.telemetry import Telemetry

RequestT = TypeVar("RequestT", bound=BaseModel)
AnswerT = TypeVar("AnswerT", bound=BaseModel)


class Engine:
    """Engine that answers every tool from the version being served. Safe to share between threads.

    A tool is a function of a `ToolContext` and its request. `server.descriptions` has the table of all tools.
    Each request leases one version and is computed from it alone; the next request may use another one.
    """

    def __init__(self, bundle: Bundle | None, settings: ServingSettings, *, first: FirstVersion | None = None) -> None:
        """Answer from a version.

        Args:
            bundle: The version; None while `first` is being made.
            settings: Limits, stages and model servers.
            first: Progress of the first version, where another process makes it.
        """
        self.first = first
        self.served = Served(bundle, self._no_version_error)
        self.settings = settings
        self.gate = Gate(settings.max_concurrency)
        self.lanes = Lanes()
        self.follower: Follower | None = None
        self.reranker = reranker_of(settings)
        """A language model that orders first results; None when the settings name none."""
        self.refs: ServedRefs | None = None
        """Versions of further refs; None where only one version is known."""
        self.local_files: LocalFiles | None = None
        """Compares the files that answers name with those on this machine; None where clients may be elsewhere."""
        self.telemetry: Telemetry | None = None
        """Listens to requests when set."""
        self._started = time.monotonic()

    @classmethod
    def open(cls, root: Path, settings: ServingSettings, *, first: FirstVersion | None = None) -> Self:
        """Open the current version under a bundle root, and follow CURRENT.

        Args:
            root: Bundle root.
            settings: Limits, stages and model servers.
            first: Progress of the first version, where another process makes it: then none need be published yet.

        Returns:
            The engine.

        Raises:
            UnavailableError: As `Bundle.open_current` does.
        """
        try:
            bundle = Bundle.open_current(root, settings)
        except NoBundleError:
            if first is None:
                raise
            bundle = None
        engine = cls(bundle, settings, first=first)
        engine.follower = Follower(root, engine.served, settings, awaiting=bundle is None)
        engine.refs = engine.follower.refs = ServedRefs(root, settings)
        engine.follower.start()
        return engine

    @property
    def bundle(self) -> Bundle:
        """Version that is served now; requests lease it instead.

        Raises:
            UnavailableError: No version is served now.
        """
        return self.served.bundle

    @property
    def version_name(self) -> str:
        """Name of the version that is served now; "" when there is none."""
        try:
            return self.bundle.manifest.version
        except UnavailableError:
            return ""

    def answer(self, name: str, tool: Callable[[ToolContext, RequestT], AnswerT], request: RequestT) -> AnswerT:
        """Answer one call, after admission control.

        Args:
            name: Name of the tool.
            tool: Function that answers it.
            request: Arguments of the call.

        Returns:
            The answer.

        Raises:
            BusyError: All places are taken.
            InvalidArgumentError: An argument is not allowed.
            NotFoundError: The request names something that does not exist.
            DeadlineError: The deadline has passed.
            UnavailableError: No version, or no channel, can answer.
        """
        with self.gate.place():
            return self.answer_admitted(name, tool, request)

    def answer_admitted(
        self, name: str, tool: Callable[[ToolContext, RequestT], AnswerT], request: RequestT
    ) -> AnswerT:
        """Answer a call that holds a place at the gate; arguments and errors are those of `answer`."""
        with tracing_call(name, query_of(request)) as trace, self._observed(trace, request), ExitStack() as stack:
            scope = current_call().scope
            choice = self._choose(request, scope)
            if choice.ref is None or self.refs is None:
                bundle, files = stack.enter_context(self._leased()), self.local_files
            else:
                bundle, files = stack.enter_context(self.refs.lease(choice.ref))
            if self.refs is not None:
                request = _without_ref(request)
            current_call().trace = trace
            saw_version(bundle.manifest.version)
            deadline = Deadline.after(self.settings.search_timeout_s, abandoned=current_call().is_abandoned)
            refs = list[RefDescription] if self.refs is None else partial(self.refs.describe, scope)
            # An id that was there before may have been of any repository.
            before = self.served.version_before if scope.whole else no_version
            seen = visible_bundle(bundle, scope)
            context = ToolContext(seen, self.settings, deadline, self.reranker, before, refs)
            answer = tool(context, request)
            return _add_note(answer if files is None else files.mark(answer, bundle), choice.note)

    def search(self, request: SearchRequest) -> SearchAnswer:
        """Answer the tool ``search``, see `answer`."""
        return self.answer("search", search, request)

    def fetch(self, request: FetchRequest) -> FetchAnswer:
        """Answer the tool ``fetch``, see `answer`."""
        return self.answer("fetch", fetch, request)

    def search_code(self, request: CodeSearchRequest) -> CodeSearchAnswer:
        """Answer the tool ``search_code``, see `answer`."""
        return self.answer("search_code", search_code, request)

    def definitions(self, request: DefinitionRequest) -> DefinitionAnswer:
        """Answer the tool ``go_to_definition``, see `answer`."""
        return self.answer("go_to_definition", go_to_definition, request)

    def references(self, request: ReferencesRequest) -> ReferencesAnswer:
        """Answer the tool ``find_references``, see `answer`."""
        return self.answer("find_references", find_references, request)

    def health(self, _: HealthRequest) -> HealthAnswer:
        """Return the state of the server, without admission; over HTTP it needs no disk either."""
        answer = health(self.served, self.follower, uptime_s=time.monotonic() - self._started, first=self.first)
        scope = current_call().scope
        if not scope.whole:
            return self._visible_health(answer, scope)
        if self.local_files is None:
            return answer
        try:
            with self.served.lease() as bundle:
                heads = self.local_files.heads(bundle)
        except UnavailableError:  # refused meanwhile
            return answer
        moved = [each for each in heads if each.indexed.removesuffix("+dirty") != each.head]
        return answer.model_copy(update={"heads": moved}) if moved else answer

    def _visible_health(self, answer: HealthAnswer, scope: RepositoryScope) -> HealthAnswer:
        """Return the state of the server without what tells of repositories that the caller may not see."""
        channels = {name: ChannelHealth(open=one.open, reason="") for name, one in answer.channels.items()}
        given = answer.model_dump(exclude_unset=True, exclude={"first_index", "refused", "bundle", "heads", "channels"})
        told: dict[str, Any] = {**given, "damaged": [], "chunks": 0, "channels": channels}
        try:
            with self.served.lease() as bundle:
                seen = visible_bundle(bundle, scope)
                told |= {"chunks": len(seen.directory.chunk_ids), "bundle": seen.info}
        except UnavailableError:  # there is no version
            pass
        return HealthAnswer(**told)

    def close(self) -> None:
        """Stop following, and close the version once its last request has ended."""
        if self.follower is not None:
            self.follower.stop()
        if self.telemetry is not None:
            self.telemetry.close()
        if self.reranker is not None:
            self.reranker.close()
        if self.refs is not None:
            self.refs.close()
        self.served.close()

    def _no_version_error(self) -> UnavailableError:
        """Return the error of requests until the first version is served."""
        refusal = self.follower.refusal if self.follower is not None else None
        if not current_call().scope.whole:  # the reason may name a repository
            return UnavailableError("no version is served now", suggestion="call again in a minute")
        if refusal is not None or self.first is None:
            reason = refusal.reason if refusal is not None else "no version is served"
            return UnavailableError(reason, suggestion="ask healthz, and look into the server's log")
        return self.first.error()

    def _choose(self, request: BaseModel, scope: RepositoryScope) -> Choice:
        if self.refs is not None:
            return self.refs.choose(request, scope)
        if getattr(getattr(request, "filters", None), "ref", ""):
            raise InvalidArgumentError("ref: no other branch is indexed", suggestion="leave it out")
        return Choice(None)

    def _observed(self, trace: Trace, request: BaseModel) -> AbstractContextManager[None]:
        return nullcontext() if self.telemetry is None else self.telemetry.request(trace, request)

    @contextmanager
    def _leased(self) -> Iterator[Bundle]:
        """Lease the version after checking that its mapped files have their sizes.

        Yields:
            The version.

        Raises:
            IntegrityError: A mapped file was shortened or lengthened.
        """
        with self.served.lease() as bundle:
            try:
                bundle.require_whole()
            except IntegrityError:
                if self.follower is not None:
                    self.follower.alarm()
                raise
            yield bundle


def _without_ref(request: RequestT) -> RequestT:
    """Return a request whose own field ``ref`` has chosen the version, and says no more."""
    own = getattr(request, "ref", "") and not getattr(request, "filters", None)
    return request.model_copy(update={"ref": ""}) if own and not is_commit(str(request.ref)) else request  # pyright: ignore


def _add_note(answer: AnswerT, note: str) -> AnswerT:
    """Return an answer with one more sentence in its limits."""
    limits = getattr(answer, "limits", None)
    return answer.model_copy(update={"limits": [*limits, note]}) if note and isinstance(limits, list) else answer


def query_of(request: BaseModel) -> str:
    return next((str(query) for name in ("query", "pattern", "symbol") if (query := getattr(request, name, ""))), "")


def health(
    served: Served, follower: Follower | None, *, uptime_s: float, first: FirstVersion | None = None
) -> HealthAnswer:
    """Report the served version, since when it is served, and what is wrong.

    Args:
        served: The served version.
        follower: None when CURRENT is not followed.
        uptime_s: Seconds since the server started.
        first: Progress of the first version, where another process makes it.

    Returns:
        The state of the server.
    """
    try:
        bundle = served.bundle
    except UnavailableError:
        bundle = None
    channels = _channels(bundle) if bundle else {}
    chunks = len(bundle.directory.chunk_ids) if bundle else 0
    catalog = bundle is not None and bundle.catalog.answers()
    follows = follower is None or follower.following
    damaged = sorted(follower.damage) if follower else []
    fitting = all(count == chunks for channel in channels.values() for count in channel.counts.values())
    sound = follows and catalog and fitting and not damaged and all(channel.open for channel in channels.values())
    refused = follower.refusal if follower is not None else None
    making = bundle is None and first is not None and refused is None
    starting = making and first is not None and not first.has_failed
    status: HealthStatus = "starting" if starting else "unavailable" if bundle is None else "degraded"
    answer = HealthAnswer(
        status="ok" if bundle is not None and sound else status,
        verified=follower is not None and follower.verified,
        damaged=damaged,
        catalog=catalog,
        chunks=chunks,
        channels=channels,
        encoders={leg.channel: leg.encoder.name for leg in bundle.manifest.legs} if bundle else {},
        follows_current=follows,
        uptime_s=int(uptime_s),
        in_flight=served.requests,
        draining=served.leaving,
    )
    given: dict[str, object] = {}
    if bundle is not None:
        given |= {"bundle": bundle.info, "since": _utc(served.since)}
    if making and first is not None:
        given["first_index"] = first.sentence()
    if refused is not None:
        given["refused"] = describe_refusal(refused)
    return answer.model_copy(update=given)


def _channels(bundle: Bundle) -> dict[str, ChannelHealth]:
    problems = bundle.problems()
    names = sorted({*bundle.channels, *problems})
    opened = {name: channel.counts() for name, channel in bundle.channels.items()}
    return {
        name: ChannelHealth(open=name not in problems, reason=problems.get(name, ""), counts=opened.get(name, {}))
        for name in names
    }


def describe_refusal(refusal: Refusal) -> RefusedVersion:
    return RefusedVersion(
        version=refusal.current.version if refusal.current else "",
        reason=refusal.reason,
        at=_utc(refusal.at),
        attempts=refusal.attempts,
    )


def _utc(moment: datetime | None) -> str:
    return moment.isoformat(timespec="seconds") if moment else ""

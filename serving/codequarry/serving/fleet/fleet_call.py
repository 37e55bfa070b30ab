"""One call to a fleet: the bundles that it concerns, the request to each, and their replies."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from codequarry.schemas.errors import (
    CodequarryError,
    DeadlineError,
    InvalidArgumentError,
    NotFoundError,
    ReplicaError,
    UnavailableError,
)
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.pro import ProRequest
from codequarry.schemas.wire.scope import Scope, SetScopeRequest, parse_scope_id
from codequarry.schemas.wire.search import BundleInfo, SearchRequest
from codequarry.serving.catalog.filters import check_repositories
from codequarry.serving.fleet.bundle_host import AskedBundle, BundleHost
from codequarry.serving.ranking.rerank import Reranker
from codequarry.serving.request.deadline import Deadline
from codequarry.serving.request.parallel import RunTasks, run_in_turn
from codequarry.serving.tools.context import ToolContext
from codequarry.serving.tools.search import SearchTerms
from codequarry.serving.tools.version_search import SearchedVersions

logger = logging.getLogger(__name__)

AnswerT = TypeVar("AnswerT", bound=BaseModel)
RequestT = TypeVar("RequestT", bound=BaseModel)
_LEAST_COMMITS = 2
"""Repositories that an answer names where there are as many: of one alone, texts leave the name out of paths."""
_NAMED_REPOSITORIES = 3
"""Repositories of a missing bundle that are named."""


@dataclass(frozen=True, slots=True)
class MissingBundle:
    """A bundle of a generation that does not answer."""

    reason: str
    repositories: frozenset[str]
    """Its repositories, as far as the caller may see them."""


@dataclass(frozen=True, slots=True)
class Replies(Generic[AnswerT]):
    """Answers of the bundles that answered."""

    answers: list[tuple[AskedBundle, AnswerT]]
    notes: list[str]
    """Sentences about bundles that did not."""

    def limits(self, found: Callable[[AnswerT], object]) -> list[str]:
        """Join the notes of all answers, each with the name of its bundle unless all say it.

        Args:
            found: Returns what an answer found; what an empty one says is left out where another found something.

        Returns:
            The notes.
        """
        telling = [each for each in self.answers if found(each[1])] or self.answers
        said = [(member.name, list(getattr(answer, "limits", []))) for member, answer in telling]
        common = [note for note in said[0][1] if all(note in notes for _, notes in said)] if said else []
        own = [f"bundle {name}: {note}" for name, notes in said for note in dict.fromkeys(notes) if note not in common]
        return list(dict.fromkeys([*self.notes, *common, *own]))


@dataclass(frozen=True, slots=True)
class FleetCall:
    """The bundles of one generation, held open while a call is answered."""

    members: Sequence[AskedBundle]
    generation: int
    created: str
    """UTC time at which the generation was made."""
    unserved: Mapping[str, MissingBundle]
    """Bundles of the generation that are not served, by name."""
    settings: ServingSettings
    deadline: Deadline
    reranker: Reranker | None = None
    run: RunTasks = run_in_turn
    """Asks several hosts."""
    least_commits: int = _LEAST_COMMITS
    """Repositories that an answer names where there are as many."""

    @property
    def missing(self) -> dict[str, MissingBundle]:
        """Bundles that are not in the answer, with those of hosts that were lost meanwhile."""
        lost = {
            member.name: MissingBundle(member.host.lost, frozenset(member.repositories))
            for member in self.members
            if member.host.lost
        }
        return {**self.unserved, **lost}

    @property
    def terms(self) -> SearchTerms:
        """Terms of a search."""
        return SearchTerms(
            self.settings, self.deadline, self.reranker, self.info(), most=self.settings.fleet_bundles, run=self.run
        )

    def choose(self, request: RequestT) -> list[tuple[AskedBundle, RequestT]]:
        """Choose the bundles that a request concerns.

        Args:
            request: Arguments of any tool.

        Returns:
            Those bundles, each with the request to it, whose filters and scope name its own repositories alone.

        Raises:
            InvalidArgumentError: A repository is in no bundle, or the scope is none.
        """
        scope = parse_scope_id(request.scope_id) if getattr(request, "scope_id", "") else None  # pyright: ignore[reportAttributeAccessIssue]
        filters = getattr(request, "filters", None)
        asked = list(getattr(request if filters is None else filters, "repos", []))
        known = [name for member in self.members for name in member.repositories]
        known += [name for each in self.unserved.values() for name in each.repositories]
        check_repositories("repos" if filters is None else "filters.repos", asked, known)
        check_repositories("scope_id", scope.repos if scope is not None else [], known)
        chosen: list[tuple[AskedBundle, RequestT]] = []
        for member in self.members:
            own = set(member.repositories)
            if any(names and own.isdisjoint(names) for names in (asked, scope.repos if scope is not None else [])):
                continue
            changes: dict[str, Any] = {}
            if asked and filters is not None:
                narrowed = filters.model_copy(update={"repos": [name for name in asked if name in own]})
                changes["filters"] = narrowed
            elif asked:
                changes["repos"] = [name for name in asked if name in own]
            if scope is not None and scope.repos:
                changes["scope_id"] = _narrowed_scope(scope, own)
            chosen.append((member, request.model_copy(update=changes)))
        return chosen

    def each(self, tool: Callable[[ToolContext, Any], AnswerT], request: BaseModel) -> Replies[AnswerT]:
        """Ask every bundle that a request concerns.

        Args:
            tool: Function that answers for one version.
            request: Arguments of the call.

        Returns:
            The replies. A bundle that refuses the request is left out where another one answers it.

        Raises:
            InvalidArgumentError: Every bundle refuses the request.
            NotFoundError: No bundle has what the request names.
            DeadlineError: No time is left, and nothing is found.
            UnavailableError: No bundle can answer.
        """
        answers: list[tuple[AskedBundle, AnswerT]] = []
        notes: list[str] = []
        refused: list[CodequarryError] = []
        failed: list[CodequarryError] = []
        chosen = self.choose(request)
        for (member, _), reply in zip(chosen, self.ask(tool, chosen), strict=True):
            if not isinstance(reply, CodequarryError):
                answers.append((member, reply))
            elif isinstance(reply, InvalidArgumentError | NotFoundError):
                refused.append(reply)
            elif isinstance(reply, DeadlineError | UnavailableError):
                failed.append(reply)
                notes += [] if member.host.lost else [_without(member.name, MissingBundle(reply.message, frozenset()))]
            else:
                raise reply
        if not answers:
            raise next(iter([*failed, *map(self.clear_up, refused)]), nothing_served(self.missing))
        return Replies(answers, [*self.notes(), *notes])

    def ask(
        self, tool: Callable[[ToolContext, Any], AnswerT], requests: Sequence[tuple[AskedBundle, BaseModel]]
    ) -> list[AnswerT | CodequarryError]:
        """Ask bundles, those of different hosts at the same time.

        Args:
            tool: Function that answers for one version.
            requests: Bundles, each with the request to it.

        Returns:
            The answer of each, or its refusal, in the same order.
        """

        def ask_host(host: BundleHost, own: Mapping[str, BaseModel]) -> Mapping[str, BaseModel | CodequarryError]:
            try:
                return host.ask(tool, own)
            except ReplicaError as error:
                return dict.fromkeys(own, error)

        tasks = [(lambda each=each: ask_host(*each)) for each in _by_host(requests).items()]
        replies = {name: reply for each in self.run(tasks) for name, reply in each.items()}
        return [replies[member.name] for member, _ in requests]  # pyright: ignore[reportReturnType]

    def ask_one(self, tool: Callable[[ToolContext, Any], AnswerT], member: AskedBundle, request: BaseModel) -> AnswerT:
        """Ask one bundle, whose refusal is raised."""
        (reply,) = self.ask(tool, [(member, request)])
        if isinstance(reply, CodequarryError):
            raise reply
        return reply

    def open_searches(self, chosen: Sequence[tuple[AskedBundle, SearchRequest | ProRequest]]) -> list[SearchedVersions]:
        """Return the bundles that a search is asked of, by their hosts; raises UnavailableError where there is none."""
        if not chosen:
            raise nothing_served(self.missing)
        return [host.search(own) for host, own in _by_host(chosen).items()]

    def clear_up(self, error: CodequarryError) -> CodequarryError:
        """Return the error of what no bundle has which answered: where others are missing, they may have it."""
        if not isinstance(error, NotFoundError) or not (notes := self.notes()):
            return error
        return UnavailableError(
            f"{error.message}; but {'; '.join(notes)}", suggestion="call again in a minute, or ask healthz"
        )

    def notes(self) -> list[str]:
        """Return a sentence for each bundle that is missing."""
        return [_without(name, each) for name, each in self.missing.items()]

    def info(self, uris: Iterable[str] = ()) -> BundleInfo:
        """Describe the generation in an answer.

        Args:
            uris: Places that the answer names, as repository/path.

        Returns:
            The generation with the commits of their repositories, and of others where these are fewer than two.
        """
        commits = {one.name: one.revision for member in self.members for one in member.sources}
        named = dict.fromkeys(uri.partition("/")[0] for uri in uris)
        shown = [name for name in named if name in commits]
        shown += [name for name in sorted(commits) if name not in named][: max(0, self.least_commits - len(shown))]
        return BundleInfo(
            version=f"fleet-{self.generation}",
            created=self.created,
            commits={name: commits[name] for name in sorted(shown)},
        )


def _by_host(requests: Sequence[tuple[AskedBundle, RequestT]]) -> dict[BundleHost, dict[str, RequestT]]:
    parts: dict[BundleHost, dict[str, RequestT]] = {}
    for member, own in requests:
        parts.setdefault(member.host, {})[member.name] = own
    return parts


def _without(name: str, missing: MissingBundle) -> str:
    of = f" ({name_some(missing.repositories)})" if missing.repositories else ""
    return f"bundle {name} is missing in this answer{of}: {missing.reason}"


def name_some(repositories: Iterable[str]) -> str:
    """Return the first of several names, and how many more there are.

    >>> name_some(["b", "a", "d", "c"])
    'a, b, c and 1 more'
    """
    names = sorted(repositories)
    more = f" and {len(names) - _NAMED_REPOSITORIES} more" if len(names) > _NAMED_REPOSITORIES else ""
    return ", ".join(names[:_NAMED_REPOSITORIES]) + more


def nothing_served(missing: Mapping[str, MissingBundle]) -> UnavailableError:
    """Return the error of a call when no bundle can answer it, with the reasons."""
    reason = "; ".join(f"{name}: {each.reason}" for name, each in missing.items()) or "the fleet has no bundle"
    return UnavailableError(f"no bundle is served: {reason}", suggestion="ask healthz, and look into the server's log")


def _narrowed_scope(scope: Scope, own: set[str]) -> str:
    names = [name for name in scope.repos if name in own]
    asked = SetScopeRequest(languages=scope.languages, include=scope.include, exclude=scope.exclude, repos=names)
    return Scope.of(asked).id()

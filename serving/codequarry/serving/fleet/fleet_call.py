"""One call to a fleet: the bundles that it concerns, the request to each, and their replies."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from pydantic import BaseModel

from codequarry.schemas.errors import (
    CodequarryError,
    DeadlineError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
)
from codequarry.schemas.wire.scope import Scope, SetScopeRequest, parse_scope_id
from codequarry.schemas.wire.search import BundleInfo
from codequarry.serving.catalog.filters import check_repositories
from codequarry.serving.tools.context import ToolContext

logger = logging.getLogger(__name__)

AnswerT = TypeVar("AnswerT", bound=BaseModel)
RequestT = TypeVar("RequestT", bound=BaseModel)
_LEAST_COMMITS = 2
"""Repositories that an answer names where there are as many: of one alone, texts leave the name out of paths."""


class AskedBundle(NamedTuple):
    """A bundle of the fleet, open for one call."""

    name: str
    context: ToolContext

    @property
    def repositories(self) -> list[str]:
        """Names of its repositories."""
        return list(self.context.bundle.info.commits)


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
    """When the generation was made, UTC."""
    missing: Mapping[str, str]
    """Bundles of the generation that are not served, with the reasons."""

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
        notes = self.notes()
        refused: list[CodequarryError] = []
        failed: list[CodequarryError] = []
        for member, own in self.choose(request):
            try:
                answers.append((member, tool(member.context, own)))
            except (InvalidArgumentError, NotFoundError) as error:
                refused.append(error)
            except (DeadlineError, UnavailableError) as error:
                failed.append(error)
                notes.append(_without(member.name, error.message))
        if not answers:
            raise next(iter([*failed, *refused]), nothing_served(self.missing))
        return Replies(answers, notes)

    def notes(self) -> list[str]:
        """Return a sentence for each bundle that is not served."""
        return [_without(name, reason) for name, reason in self.missing.items()]

    def info(self, uris: Iterable[str] = ()) -> BundleInfo:
        """Describe the generation in an answer.

        Args:
            uris: Places that the answer names, as repository/path.

        Returns:
            The generation with the commits of their repositories, and of others where these are fewer than two.
        """
        commits = {
            name: commit for member in self.members for name, commit in member.context.bundle.info.commits.items()
        }
        named = dict.fromkeys(uri.partition("/")[0] for uri in uris)
        shown = [name for name in named if name in commits]
        shown += [name for name in sorted(commits) if name not in named][: max(0, _LEAST_COMMITS - len(shown))]
        return BundleInfo(
            version=f"fleet-{self.generation}",
            created=self.created,
            commits={name: commits[name] for name in sorted(shown)},
        )


def _without(name: str, reason: str) -> str:
    return f"bundle {name} is missing in this answer: {reason}"


def nothing_served(missing: Mapping[str, str]) -> UnavailableError:
    """Return the error of a call when no bundle can answer it, with the reasons."""
    reason = "; ".join(f"{name}: {why}" for name, why in missing.items()) or "the fleet has no bundle"
    return UnavailableError(f"no bundle is served: {reason}", suggestion="ask healthz, and look into the server's log")


def _narrowed_scope(scope: Scope, own: set[str]) -> str:
    names = [name for name in scope.repos if name in own]
    asked = SetScopeRequest(languages=scope.languages, include=scope.include, exclude=scope.exclude, repos=names)
    return Scope.of(asked).id()

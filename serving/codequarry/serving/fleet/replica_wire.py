"""JSON between a router and its replicas: what the steps of a search take and return, and answers of tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, get_type_hints

import numpy as np
from pydantic import BaseModel, Field, TypeAdapter

from codequarry.schemas.bundle.manifest import SourceEntry
from codequarry.schemas.errors import CodequarryError, error_of
from codequarry.schemas.strict_model import StrictModel
from codequarry.schemas.wire.health import HealthAnswer
from codequarry.schemas.wire.pro import ProRequest
from codequarry.schemas.wire.search import ErrorBody, SearchRequest, SearchResult
from codequarry.serving.catalog.catalog import ChunkRow
from codequarry.serving.channels.base import TermStatistics
from codequarry.serving.channels.fusion import deciding_scores
from codequarry.serving.fleet.place_answers import match_places
from codequarry.serving.fleet.read_answers import locate
from codequarry.serving.ranking.late import Decision
from codequarry.serving.ranking.promising import Measured
from codequarry.serving.ranking.ranking import CommonScale, Placed
from codequarry.serving.server.chatgpt import connector_fetch
from codequarry.serving.tools.browse.explore import explore
from codequarry.serving.tools.browse.list_files import list_files
from codequarry.serving.tools.browse.outline import outline
from codequarry.serving.tools.browse.overview import overview
from codequarry.serving.tools.browse.resource import read_resource
from codequarry.serving.tools.context import ToolFunction
from codequarry.serving.tools.definitions import go_to_definition
from codequarry.serving.tools.describe import describe_index
from codequarry.serving.tools.fetch import error_body, fetch
from codequarry.serving.tools.pro import semantic_search_pro
from codequarry.serving.tools.references import find_references
from codequarry.serving.tools.relations.relations import relations
from codequarry.serving.tools.scopes import set_scope
from codequarry.serving.tools.search import search
from codequarry.serving.tools.version_search import Gathered, Rescored

SEARCHES: dict[str, type[SearchRequest | ProRequest]] = {"search": SearchRequest, "semantic_search_pro": ProRequest}
"""Requests of searches by the name of the tool."""

_TOOLS: tuple[ToolFunction, ...] = (
    explore, fetch, locate, read_resource, connector_fetch, match_places, go_to_definition, find_references, relations,
    outline, list_files, overview, describe_index, set_scope, search, semantic_search_pro,
)  # fmt: skip
TOOLS: dict[str, ToolFunction] = {tool.__name__: tool for tool in _TOOLS}
"""Functions of which a replica asks its bundles, by name."""


class GenerationState(StrictModel):
    """A generation from which a replica answers."""

    sha256: str = Field(description="Digest of its file in the fleet.")
    number: int = Field(description="Its number.")
    created: str = Field(description="When it was made, UTC.")
    bundles: dict[str, tuple[SourceEntry, ...]] = Field(description="Repositories of each bundle that answers.")
    missing: dict[str, tuple[str, tuple[str, ...]]] = Field(
        description="Bundles of the replica that do not answer: the reason, and their repositories."
    )
    elsewhere: dict[str, tuple[str, ...]] = Field(description="Bundles of other replicas, with their repositories.")


class ReplicaState(StrictModel):
    """The state of a replica."""

    generations: tuple[GenerationState, ...] = Field(description="Generations from which it answers, the newest first.")
    health: HealthAnswer = Field(description="Its health.")


def request_type(tool: ToolFunction) -> type[BaseModel]:
    """Return the class of a tool's requests."""
    return get_type_hints(tool)["request"]


def answer_type(tool: ToolFunction) -> type[BaseModel]:
    """Return the class of a tool's answers."""
    return get_type_hints(tool)["return"]


def dump_error(error: CodequarryError) -> dict[str, Any]:
    """Return an error as JSON."""
    return error_body(error).model_dump(mode="json")


def load_error(found: Mapping[str, Any]) -> CodequarryError:
    """Return the error that JSON tells."""
    body = ErrorBody.model_validate(found)
    return error_of(body.code, body.message, body.suggestion)


def _dump_statistics(total: TermStatistics | None) -> Any:
    return None if total is None else [total.documents, [[*key, count] for key, count in total.frequencies.items()]]


def _load_statistics(found: Any) -> TermStatistics | None:
    if found is None:
        return None
    documents, frequencies = found
    return TermStatistics(int(documents), {(str(field), str(term)): int(n) for field, term, n in frequencies})


def _dump_scale(scale: CommonScale | None, method: str) -> Any:
    if scale is None:
        return None
    scores = {name: deciding_scores(each, method).tolist() for name, each in scale.scores.items()}
    return [scores, scale.cards.tolist(), scale.names_repository]


def _load_scale(found: Any) -> CommonScale | None:
    if found is None:
        return None
    scores, cards, named = found
    known = {str(name): np.array(each, np.float64) for name, each in scores.items()}
    return CommonScale(known, np.array(cards, np.float32), bool(named))


_PLACED = TypeAdapter(list[Placed])
_RANKINGS = TypeAdapter(list[list[Placed]])
_ROWS = TypeAdapter(list[ChunkRow])
_NUMBERS = TypeAdapter(list[int])
_SCORES = TypeAdapter(list[float])
_DECISION = TypeAdapter(Decision)
_GATHERED_FIELDS = (
    "limits",
    "notes",
    "stages",
    "late",
    "answered",
    "count",
    "nearest",
    "rarity",
    "similarity",
    "rescores",
)


_Convert = Callable[[Any, Any], Any]


class StepWire:
    """Arguments and results of the steps of `SearchedVersions` as JSON, for one method of fusion."""

    def __init__(self, method: str) -> None:
        """Convert steps.

        Args:
            method: Method of fusion, see `pool`; it decides how many scores travel.
        """
        self._method = method

    def dump_arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a step as JSON."""
        return {name: self._ARGUMENTS[name][0](self, value) for name, value in given.items()}

    def load_arguments(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a step that JSON tells."""
        return {name: self._ARGUMENTS[name][1](self, value) for name, value in found.items()}

    def dump_result(self, step: str, result: Any) -> Any:
        """Return the result of a step as JSON."""
        return self._RESULTS[step][0](self, result)

    def load_result(self, step: str, found: Any) -> Any:
        """Return the result of a step that JSON tells."""
        return self._RESULTS[step][1](self, found)

    def _dump_gathered(self, each: Sequence[Gathered]) -> Any:
        return [
            {name: getattr(one, name) for name in _GATHERED_FIELDS} | {"scale": _dump_scale(one.scale, self._method)}
            for one in each
        ]

    def _load_gathered(self, found: Any) -> list[Gathered]:
        return [replace(Gathered(**{**one, "scale": None}), scale=_load_scale(one["scale"])) for one in found]

    def _dump_rescored(self, each: Sequence[Rescored]) -> Any:
        return [
            [one.notes, one.count, None if one.scores is None else deciding_scores(one.scores, self._method).tolist()]
            for one in each
        ]

    def _load_rescored(self, found: Any) -> list[Rescored]:
        return [
            Rescored(notes, count, None if scores is None else np.array(scores, np.float64))
            for notes, count, scores in found
        ]

    _ARGUMENTS: ClassVar[dict[str, tuple[_Convert, _Convert]]] = {
        "nearness": (lambda _, value: value, lambda _, found: bool(found)),
        "alone": (lambda _, value: value, lambda _, found: bool(found)),
        "code": (lambda _, value: value, lambda _, found: bool(found)),
        "limit": (lambda _, value: value, lambda _, found: int(found)),
        "total": (lambda _, value: _dump_statistics(value), lambda _, found: _load_statistics(found)),
        "versions": (lambda _, value: list(value), lambda _, found: _NUMBERS.validate_python(found)),
        "common": (lambda self, value: _dump_scale(value, self._method), lambda _, found: _load_scale(found)),
        "decision": (lambda _, value: _DECISION.dump_python(value), lambda _, found: _DECISION.validate_python(found)),
        "chunks": (lambda _, value: _PLACED.dump_python(value), lambda _, found: _PLACED.validate_python(found)),
        "first": (lambda _, value: _PLACED.dump_python(value), lambda _, found: _PLACED.validate_python(found)),
        "rest": (lambda _, value: _PLACED.dump_python(value), lambda _, found: _PLACED.validate_python(found)),
    }
    _RESULTS: ClassVar[dict[str, tuple[_Convert, _Convert]]] = {
        "measure": (
            lambda _, each: [[_dump_statistics(one.statistics), one.nearest] for one in each],
            lambda _, found: [Measured(_load_statistics(known), float(near)) for known, near in found],
        ),
        "best_scores": (lambda _, each: list(each), lambda _, found: _SCORES.validate_python(found)),
        "gather": (_dump_gathered, _load_gathered),
        "rank": (lambda _, each: _RANKINGS.dump_python(each), lambda _, found: _RANKINGS.validate_python(found)),
        "interact": (_dump_rescored, _load_rescored),
        "rows": (lambda _, each: [list(one) for one in each], lambda _, found: _ROWS.validate_python(found)),
        "build": (
            lambda _, each: [one.model_dump_json(exclude_unset=True) for one in each],
            lambda _, found: [SearchResult.model_validate_json(one) for one in found],
        ),
    }

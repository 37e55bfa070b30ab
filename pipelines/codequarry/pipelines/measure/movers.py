"""Results of a query that entered, left or moved between two versions, and the parts of the score that caused it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from math import log, prod
from typing import Any, NamedTuple

from codequarry.schemas.wire.search import SearchAnswer, SearchResult
from codequarry.serving.version.version_differences import Chunk

_NOTHING = 1e-9
NEW, REMOVED, SAME, MOVED = "new", "removed", "same", "moved"


@dataclass(frozen=True, slots=True)
class Mover:
    """A result whose rank differs between two answers to one query."""

    query: str
    id: str
    """Id of the chunk in the version after, or in the version before when it left."""
    place: str
    before: int | None
    """1-based rank; None when it was not returned."""
    after: int | None
    score_before: float | None
    score_after: float | None
    chunk: str
    """State of the chunk itself: new, removed, moved (the same text elsewhere) or same."""
    through: str
    """The part of the score that changed most; "other results" when its own parts stayed."""

    def distance(self, depth: int) -> int:
        """Return the ranks between the two places; outside of the answer counts as one rank after the last."""
        return abs((self.before or depth + 1) - (self.after or depth + 1))


def movers(
    query: str,
    before: SearchAnswer,
    after: SearchAnswer,
    *,
    heirs: Mapping[int, int],
    chunks_before: Mapping[int, Chunk],
    chunks_after: Mapping[int, Chunk],
) -> list[Mover]:
    """Return every result that entered, left or changed its rank, by rank after and then before.

    Args:
        query: The query.
        before: Answer of the older version.
        after: Answer of the newer version.
        heirs: Id before, by id after, of chunks that moved.
        chunks_before: Chunks of the older version by id.
        chunks_after: Chunks of the newer version by id.

    Returns:
        The results.
    """
    was = {int(result.id): (rank, result) for rank, result in enumerate(before.results, start=1)}
    found: list[Mover] = []
    seen: set[int] = set()
    for rank, result in enumerate(after.results, start=1):
        own = int(result.id)
        earlier = heirs.get(own, own)
        seen.add(earlier)
        held = was.get(earlier)
        if held is not None and held[0] == rank:
            continue
        state = MOVED if own in heirs else SAME if own in chunks_before else NEW
        found.append(_mover(query, held, (rank, result), state))
    inherited = set(heirs.values())
    for chunk_id, held in was.items():
        if chunk_id not in seen:
            state = SAME if chunk_id in chunks_after else MOVED if chunk_id in inherited else REMOVED
            found.append(_mover(query, held, None, state))
    return found


def changes(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> dict[str, float]:
    """Return the contribution of each part of the score to its change; their sum is the difference of the two scores.

    A score is the sum of a side of the chunk and a side of its file, and each is a sum of parts times factors. Of the
    difference of two, each part gets its own difference times the mean of the products of factors. The factors share
    the rest by the logarithm of their own change.

    Args:
        before: Explanation in its wire form; None when the result was not returned, which counts as 0.
        after: The same of the newer version.

    Returns:
        Contributions by part and factor.
    """
    found = defaultdict[str, float](float)
    for had, has in zip(_sides(before or after or {}), _sides(after or before or {}), strict=True):
        old, new = had if before else had._replace(parts={}), has if after else has._replace(parts={})
        for name, amount in _changes_of_side(old, new).items():
            found[name] += amount
    return dict(found)


class _ScoreSide(NamedTuple):
    """One side of a score, taken apart."""

    parts: dict[str, float]
    factors: dict[str, float]


def _changes_of_side(had: _ScoreSide, has: _ScoreSide) -> dict[str, float]:
    old, new = had.parts, has.parts
    products = [prod(each.factors.values()) for each in (had, has)]
    found = {
        name: (new.get(name, 0.0) - old.get(name, 0.0)) * sum(products) / 2 for name in sorted({*old, *new})
    }  # fmt: skip
    ratios = {
        name: log(max(has.factors.get(name, 1.0), _NOTHING) / max(had.factors.get(name, 1.0), _NOTHING))
        for name in sorted({*had.factors, *has.factors})
    }
    if (whole := sum(ratios.values())) and products[0] != products[1]:
        rest = (products[1] - products[0]) * (sum(old.values()) + sum(new.values())) / 2
        found |= {f"factor {name}": rest * ratio / whole for name, ratio in ratios.items() if ratio}
    return found


def _sides(explain: Mapping[str, Any]) -> tuple[_ScoreSide, _ScoreSide]:
    """Return the side of the chunk and that of its file: parts before all factors, and the factors."""
    channels: Mapping[str, Mapping[str, float]] = explain.get("channels", {})
    scoring: Mapping[str, Any] = explain.get("scoring", {})
    share, power = scoring.get("file_share", 0.0), scoring.get("form_on_file", 0.0)
    of_chunk = (1 - share) / (scoring.get("best_chunk") or 1.0)
    of_file = share / (scoring.get("best_file") or 1.0)
    factors = {**scoring.get("factors", {}), "repeat": scoring.get("repeat", 1.0)}
    form: Mapping[str, float] = scoring.get("form", {})
    return (
        _ScoreSide(
            _weighed("channel", channels, of_chunk) | _weighed("chunk", scoring.get("chunk", {}), of_chunk),
            {**factors, **form},
        ),
        _ScoreSide(
            _weighed("file", scoring.get("file", {}), of_file),
            factors | {rule: factor**power for rule, factor in form.items()},
        ),
    )


def _weighed(whose: str, evidence: Mapping[str, Mapping[str, float]], scale: float) -> dict[str, float]:
    return {f"{whose} {name}": part["value"] * part["weight"] * scale for name, part in evidence.items()}


def _mover(
    query: str, before: tuple[int, SearchResult] | None, after: tuple[int, SearchResult] | None, state: str
) -> Mover:
    shown = (after or before or (0, None))[1]
    assert shown is not None  # one of the two is there
    return Mover(
        query=query,
        id=shown.id,
        place=_where(shown),
        before=before[0] if before else None,
        after=after[0] if after else None,
        score_before=before[1].score if before else None,
        score_after=after[1].score if after else None,
        chunk=state,
        through=_through(before and before[1], after and after[1]),
    )


def _through(before: SearchResult | None, after: SearchResult | None) -> str:
    sides = (each and each.metadata.explain.model_dump() for each in (before, after))
    amounts = changes(*sides)
    name = max(amounts, key=lambda one: abs(amounts[one]), default="")
    return f"{name} {amounts[name]:+.3f}" if name and abs(amounts[name]) > _NOTHING else "other results"


def _where(result: SearchResult) -> str:
    place = result.metadata
    return f"{place.uri}:{place.start_line + 1}-{place.end_line + 1}"

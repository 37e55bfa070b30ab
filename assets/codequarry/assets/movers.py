"""Which results of a query entered, left or moved between two versions, and through what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from codequarry.pipelines.evaluation.version_diff import Chunk
from codequarry.schemas.tools import Explain, SearchAnswer, SearchResult

NEW, REMOVED, SAME, MOVED = "new", "removed", "same", "moved"


@dataclass(frozen=True, slots=True)
class Mover:
    """A result whose rank differs between two answers to one query."""

    query: str
    id: str
    """Of the chunk as the version after has it, or as the version before had it where it left."""
    place: str
    before: int | None
    """1-based rank; None when it was not returned."""
    after: int | None
    score_before: float | None
    score_after: float | None
    chunk: str
    """What became of the chunk itself: new, removed, moved (the same text elsewhere) or same."""
    through: str
    """The part of the score that changed most; "other results" when its own parts stayed."""

    def distance(self, depth: int) -> int:
        """Ranks between the two places; outside of the answer counts as one rank after the last."""
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
    """Every result that entered, left or changed its rank, by rank after and then before.

    heirs: id before, by id after, of chunks that moved.
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


def parts_of(explain: Explain) -> dict[str, float]:
    """What each channel gave to a score; the parts add up to it."""
    fusion = explain.fusion
    return {
        f"channel {name}": part.weight / (fusion.k + part.rank) / fusion.normalizer
        for name, part in explain.channels.items()
    }


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
    had, has = (parts_of(result.metadata.explain) if result else {} for result in (before, after))
    changes = {name: has.get(name, 0.0) - had.get(name, 0.0) for name in sorted({*had, *has})}
    name = max(changes, key=lambda one: abs(changes[one]), default="")
    return f"{name} {changes[name]:+.3f}" if name and abs(changes[name]) > 1e-9 else "other results"


def _where(result: SearchResult) -> str:
    place = result.metadata
    return f"{place.uri}:{place.start_line + 1}-{place.end_line + 1}"

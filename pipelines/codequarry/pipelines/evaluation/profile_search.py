"""Fitting the ranking profile: one weight after the other, each kept while the questions are answered better by it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from codequarry.pipelines.workspace import Progress
from codequarry.schemas.ranking import ClassProfile, FactorProfile, FileProfile, RankingProfile

_STEPS = (0.6, 1.6)
"""What a weight is tried multiplied by."""
_SHARES = frozenset({"file_share", "repeat", "fan_in", *FactorProfile.model_fields})
"""Weights that may not exceed 1."""
_LEAST_GAIN = 1e-3
TUNED = "tuned"

_Part = TypeVar("_Part", ClassProfile, FileProfile, FactorProfile)

Judge = Callable[[RankingProfile], float]
"""How well a profile answers; larger is better."""


def fit_profile(start: RankingProfile, judge: Judge, *, budget_s: float, progress: Progress) -> RankingProfile:
    """Coordinate ascent from a profile, until no step helps or the time is over.

    Classes of queries are fitted together where they share a value, so that a handful of questions moves few weights.
    """
    ends = time.monotonic() + budget_s
    best, value = start, judge(start)
    for turn in (1, 2):
        before = value
        steps = list(_moves(best))
        for done, move in enumerate(steps):
            progress(f"fitting, turn {turn}", done, len(steps))
            for step in _STEPS:
                if time.monotonic() >= ends:
                    return best.model_copy(update={"name": TUNED})
                tried = move(best, step)
                if tried != best and (found := judge(tried)) > value + _LEAST_GAIN:
                    best, value = tried, found
                    break
        progress(f"fitting, turn {turn}", len(steps), len(steps))
        if value == before:
            break
    return best.model_copy(update={"name": TUNED})


_Move = Callable[[RankingProfile, float], RankingProfile]


def _moves(profile: RankingProfile) -> Iterator[_Move]:
    for field in FileProfile.model_fields:
        yield lambda one, step, field=field: one.model_copy(update={"file": _scaled(one.file, field, step)})
    for field in ("test", "example", "docs", "header", "size"):
        yield lambda one, step, field=field: one.model_copy(update={"factors": _scaled(one.factors, field, step)})
    for field in ClassProfile.model_fields:
        for value in sorted({getattr(kind, field) for kind in profile.classes.values()} - {0.0}):
            yield lambda one, step, field=field, value=value: one.model_copy(
                update={
                    "classes": {
                        name: _scaled(kind, field, step) if getattr(kind, field) == value else kind
                        for name, kind in one.classes.items()
                    }
                }
            )


def _scaled(part: _Part, field: str, step: float) -> _Part:
    value = round(getattr(part, field) * step, 4)
    return part.model_copy(update={field: min(value, 1.0) if field in _SHARES else value})

"""Fitting the ranking profile to repositories, and the proof on held-out questions that it is better."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from codequarry.pipelines.evaluation.mining import mine
from codequarry.pipelines.indexes.ranking_profile import profile_of
from codequarry.pipelines.measure.asking import Asker, engine_over
from codequarry.pipelines.measure.questions import Question
from codequarry.pipelines.measure.ranking_metrics import intervals
from codequarry.pipelines.measure.results import scores_of
from codequarry.pipelines.store.workspace import Progress
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.ranking_profile import ChunkProfile, ClassProfile, FactorProfile, FileProfile, RankingProfile
from codequarry.schemas.settings.load import Settings
from codequarry.serving.engine.engine import Engine

_LEAST_QUESTIONS = 20
"""Least number of questions on either side; fewer prove nothing."""
_STEPS = (0.6, 1.6)
"""Factors that are tried on a weight."""
_SHARES = frozenset(
    {"file_share", "repeat", "fan_in", "file_share_long", "repeat_long", "form_on_file", "form_on_file_long"}
    | {*FactorProfile.model_fields, *ChunkProfile.model_fields}
)
"""Weights that may not exceed 1."""
_LEAST_GAIN = 1e-3
TUNED = "tuned"

_Part = TypeVar("_Part", ClassProfile, FileProfile, FactorProfile, ChunkProfile)

Judge = Callable[[RankingProfile], float]
"""Score of a profile's answers; larger is better."""
_Move = Callable[[RankingProfile, float], RankingProfile]


@dataclass(frozen=True, slots=True)
class RankingVerdict:
    """Result of fitting on the questions held out."""

    profile: RankingProfile
    fitted_on: int
    held_out: int
    before: float
    """Mean NDCG@10 on the questions held out, by the profile in use."""
    after: float
    interval: tuple[float, float]
    """95 % interval of the difference, paired."""

    @property
    def better(self) -> bool:
        """True when the profile is better beyond doubt."""
        return self.interval[0] > 0


def tune_ranking(settings: Settings, *, queries: int, seed: int, budget_s: float, progress: Progress) -> RankingVerdict:
    """Fit the profile of the settings to questions mined from their repositories.

    Questions are halved by the files that answer them; one half is fitted on, the other decides.

    Args:
        settings: Settings of the repositories and indexes.
        queries: Most questions of each kind.
        seed: Seed of the drawing.
        budget_s: Seconds that fitting may take.
        progress: Told of the work done.

    Returns:
        The fitted profile and its figures.

    Raises:
        InvalidArgumentError: Too few questions can be mined.
        CodequarryError: As `mine` does.
    """
    prepared = mine(settings, settings.paths.work / "evaluation", queries, seed, progress)
    learned = [one for one in prepared.questions if _half(one) == 0]
    held_out = [one for one in prepared.questions if _half(one) == 1]
    if min(len(learned), len(held_out)) < _LEAST_QUESTIONS:
        raise InvalidArgumentError(
            f"{len(prepared.questions)} questions can be mined, expected {2 * _LEAST_QUESTIONS} or more",
            suggestion="tune on larger repositories; the built-in profile stays",
        )
    start = profile_of(settings)
    with engine_over(prepared.root, settings.asking) as engine:
        asker = Asker(engine)
        fitted = fit_profile(
            start, lambda profile: float(ndcg_by(engine, asker, profile, learned).mean()), budget_s=budget_s,
            progress=progress,
        )  # fmt: skip
        before, after = (ndcg_by(engine, asker, profile, held_out) for profile in (start, fitted))
    low, high = intervals((after - before)[:, None], seed=seed)
    return RankingVerdict(
        fitted, len(learned), len(held_out), float(before.mean()), float(after.mean()), (float(low[0]), float(high[0]))
    )


def write_profile(verdict: RankingVerdict, out: Path) -> None:
    """Write the fitted profile in the form that ``[ranking] profile`` takes."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(verdict.profile.model_dump_json(indent=1) + "\n", encoding="utf-8")


def _half(question: Question) -> int:
    """Return 0 or 1: the same for all questions that have the same first file as their answer."""
    return hashlib.sha256(question.targets[0].path.encode("utf-8", "surrogatepass")).digest()[0] % 2


def ndcg_by(engine: Engine, asker: Asker, profile: RankingProfile, questions: Sequence[Question]) -> np.ndarray:
    """Return NDCG@10 of every question by a profile: (n,) float64."""
    engine.bundle.rank_by(profile)
    run = asker.ask("hybrid", questions, "hybrid", lambda _: None)
    return np.array([scores.ndcg_10 for scores in scores_of(questions, run)])


def fit_profile(start: RankingProfile, judge: Judge, *, budget_s: float, progress: Progress) -> RankingProfile:
    """Fit a profile by coordinate ascent, until no step helps or the time is over.

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


def _moves(profile: RankingProfile) -> Iterator[_Move]:
    for field in FileProfile.model_fields:
        yield lambda one, step, field=field: one.model_copy(update={"file": _scaled(one.file, field, step)})
    for field in ("test", "example", "docs", "header", "size"):
        yield lambda one, step, field=field: one.model_copy(update={"factors": _scaled(one.factors, field, step)})
    for field in ChunkProfile.model_fields:
        yield lambda one, step, field=field: one.model_copy(update={"chunk": _scaled(one.chunk, field, step)})
    for field in ClassProfile.model_fields:
        for value in sorted({getattr(kind, field) for kind in profile.classes.values()} - {0.0, None}):
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

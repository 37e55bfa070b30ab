"""Fitting the ranking profile to repositories, and the proof that it is better on questions it was not fitted on."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from codequarry.assets.asking import Asker, engine_over
from codequarry.pipelines.evaluation.bootstrap import intervals
from codequarry.pipelines.evaluation.mining import mine
from codequarry.pipelines.evaluation.profile_search import fit_profile
from codequarry.pipelines.evaluation.records import Question
from codequarry.pipelines.evaluation.results import scores_of
from codequarry.pipelines.ranking_profile import profile_of
from codequarry.pipelines.workspace import Progress
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.ranking import RankingProfile
from codequarry.schemas.settings import Settings
from codequarry.serving.engine import Engine

_LEAST_QUESTIONS = 20
"""On either side; fewer prove nothing."""


@dataclass(frozen=True, slots=True)
class RankingVerdict:
    """What fitting did on the questions held out."""

    profile: RankingProfile
    fitted_on: int
    held_out: int
    before: float
    """Mean NDCG@10 on the questions held out, by the profile in use."""
    after: float
    interval: tuple[float, float]
    """95 % of the difference, paired."""

    @property
    def better(self) -> bool:
        """Beyond doubt."""
        return self.interval[0] > 0


def tune_ranking(settings: Settings, *, queries: int, seed: int, budget_s: float, progress: Progress) -> RankingVerdict:
    """Fit the profile of the settings to questions mined from their repositories.

    Questions are halved by the files that answer them; one half is fitted on, the other decides.

    queries: most questions of each kind. budget_s: seconds that fitting may take.

    Raises InvalidArgumentError: too few questions can be mined. Raises as `mine` besides.
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
    """Write the fitted profile as ``[ranking] profile`` takes it."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(verdict.profile.model_dump_json(indent=1) + "\n", encoding="utf-8")


def _half(question: Question) -> int:
    """0 or 1: the same for all questions that a file answers first."""
    return hashlib.sha256(question.targets[0].path.encode("utf-8", "surrogatepass")).digest()[0] % 2


def ndcg_by(engine: Engine, asker: Asker, profile: RankingProfile, questions: Sequence[Question]) -> np.ndarray:
    """(n,) float64: NDCG@10 of every question by a profile."""
    engine.bundle.rank_by(profile)
    run = asker.ask("hybrid", questions, "hybrid", lambda _: None)
    return np.array([scores.ndcg_10 for scores in scores_of(questions, run)])

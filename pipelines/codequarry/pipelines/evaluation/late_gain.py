"""Late interaction measured by the reader that serves it: mined questions with it and without."""

from __future__ import annotations

from dataclasses import asdict
from typing import NamedTuple

from codequarry.pipelines.evaluation import commit_questions
from codequarry.pipelines.evaluation.mining import mine
from codequarry.pipelines.evaluation.tune_ranking import ndcg_by
from codequarry.pipelines.indexes.ranking_profile import late_file, profile_of
from codequarry.pipelines.measure import doc_questions
from codequarry.pipelines.measure.asking import Asker, engine_over
from codequarry.pipelines.measure.ranking_metrics import intervals
from codequarry.pipelines.store.workspace import Progress, exclusive, silent, write_json
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.ranking_profile import LateVerdict, without_late
from codequarry.schemas.settings.load import Settings

QUESTIONS = 40
"""Most questions of each kind."""
LEAST_QUESTIONS = 20
"""Least number of questions that decide anything."""
SAMPLE_BYTES = 1_500_000
"""Bytes of source text that is indexed to ask in: about two thousand chunks, a minute of one core for the token
encoder."""
_SEED = 0
_KINDS = (doc_questions.KIND, commit_questions.KIND)


class LateGain(NamedTuple):
    """NDCG@10 over mined questions, by the ranking profile in use."""

    questions: int
    without: float
    with_late: float
    low: float
    """Lower bound of the difference's 95 % interval, paired."""
    high: float


def measure_late(settings: Settings, progress: Progress = silent) -> LateVerdict:
    """Measure whether late interaction helps on questions mined from a sample of the repositories.

    The verdict is kept in the store. Versions built later with the same settings leave late interaction out of their
    ranking if it does not help. Too few questions decide nothing.

    Args:
        settings: Settings of the repositories and indexes.
        progress: Told of the work done.

    Returns:
        The verdict.

    Raises:
        InvalidArgumentError: The settings have no late interaction, or nothing can be mined.
        CodequarryError: As `late_gain` does.
    """
    if not settings.late_interaction:
        raise InvalidArgumentError(
            "the settings have no late interaction to measure",
            suggestion='set [warp] enabled = true, or [indexes] tier = "full"',
        )
    file = late_file(settings)
    file.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(file.with_name(f".{file.stem}.lock"), "measuring late interaction", wait=True):
        verdict = verdict_of(late_gain(settings, progress))
        write_json(file, asdict(verdict))
    return verdict


def late_gain(settings: Settings, progress: Progress) -> LateGain:
    """Measure NDCG@10 of mined questions, of documentation and of commits; names are found without late interaction.

    Args:
        settings: Settings of the repositories and indexes.
        progress: Told of the work done.

    Returns:
        The figures without late interaction and with it.

    Raises:
        InvalidArgumentError: Nothing can be mined.
        CodequarryError: As `mine` does.
    """
    own = settings.model_copy(update={"embedding": settings.embedding.model_copy(update={"adapt": False})})
    home = settings.paths.work / "late"
    prepared = mine(own, home, QUESTIONS, _SEED, progress, sample_bytes=SAMPLE_BYTES)
    questions = [one for one in prepared.questions if one.kind in _KINDS]
    if len(questions) < LEAST_QUESTIONS:
        return LateGain(len(questions), 0.0, 0.0, 0.0, 0.0)
    profile = profile_of(settings)
    with engine_over(prepared.root, settings.asking) as engine:
        asker = Asker(engine)
        before, after = (ndcg_by(engine, asker, each, questions) for each in (without_late(profile), profile))
    low, high = intervals((after - before)[:, None], seed=_SEED)
    return LateGain(len(questions), float(before.mean()), float(after.mean()), float(low[0]), float(high[0]))


def verdict_of(gain: LateGain) -> LateVerdict:
    """Judge a measurement: late interaction stays when it answers questions better, by whatever margin.

    >>> verdict_of(LateGain(30, 0.5, 0.5, -0.1, 0.1))
    LateVerdict(helps=False, said='off: 0.500 -> 0.500 NDCG@10 over 30 mined questions (-0.100 to +0.100)')
    >>> verdict_of(LateGain(3, 0.0, 0.0, 0.0, 0.0)).helps
    True
    """
    if gain.questions < LEAST_QUESTIONS:
        return LateVerdict(
            True, f"undecided: {gain.questions} questions can be mined, expected {LEAST_QUESTIONS} or more"
        )
    helps = gain.with_late > gain.without
    said = (
        f"{'on' if helps else 'off'}: {gain.without:.3f} -> {gain.with_late:.3f} NDCG@10 over {gain.questions} "
        f"mined questions ({gain.low:+.3f} to {gain.high:+.3f})"
    )
    return LateVerdict(helps, said)

"""Late interaction measured by the reader that will serve it: mined questions with it and without."""

from __future__ import annotations

from codequarry.assets.asking import Asker, engine_over
from codequarry.assets.tuning_ranking import ndcg_by
from codequarry.pipelines.evaluation import commit_questions, doc_questions
from codequarry.pipelines.evaluation.bootstrap import intervals
from codequarry.pipelines.evaluation.mining import mine
from codequarry.pipelines.late_gain import LEAST_QUESTIONS, LateGain
from codequarry.pipelines.ranking_profile import profile_of
from codequarry.pipelines.workspace import Progress
from codequarry.schemas.ranking import without_late
from codequarry.schemas.settings import Settings

QUESTIONS = 40
"""Most of each kind."""
SAMPLE_BYTES = 1_500_000
"""Of source text that is indexed to ask in: about two thousand chunks, a minute of one core for the token encoder."""
_SEED = 0
_KINDS = (doc_questions.KIND, commit_questions.KIND)


def late_gain(settings: Settings, progress: Progress) -> LateGain:
    """NDCG@10 of mined questions, of documentation and of commits; names are found without late interaction.

    Raises InvalidArgumentError: nothing can be mined. Raises as `mine` besides.
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

"""A staged version and CURRENT asked the same: whose answers are worse, and which takes longer.

Questions that look worse answered are asked with more of their kind before anybody is stopped by them. A file that only
one of the versions holds is no answer, better or worse, to a question about another one: nobody judged it, and it is
left out of both (condensed lists, Sakai 2007). So what an honest change adds does not count against it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import replace
from statistics import median

from codequarry.assets.asking import Asker
from codequarry.assets.gate_questions import gate_questions, question_checks, same_files
from codequarry.assets.verdict import Comparison
from codequarry.pipelines.evaluation.bootstrap import LEVEL
from codequarry.pipelines.evaluation.metrics import METRICS, TITLES
from codequarry.pipelines.evaluation.records import Question
from codequarry.pipelines.evaluation.results import COMPARED, OVERALL, Run, difference, scores_of, summary_of_run
from codequarry.schemas.checks import Check
from codequarry.schemas.layout import DENSE_LEGS
from codequarry.schemas.retrieval_settings import RetrievalSettings
from codequarry.schemas.tools import Channel
from codequarry.serving.engine import Engine

_DEPTH = 20
"""Results of an answer that are looked at; 4,000 tokens are seldom more."""
_NOISE_MS = 5.0
"""Times below this are taken for it: their ratios say nothing."""
_EXAMPLES = 3


def compare(
    own: Engine, other: Engine, open_ms: tuple[float, float], limits: RetrievalSettings
) -> tuple[Comparison, list[Check]]:
    """Ask both, and say what is worse. own, other: over the staged version and CURRENT.

    open_ms: times to open the two. Where their encoders differ, vectors are also asked alone: in a hybrid answer words
    can hide that they find nothing any more.
    """
    compared = _compared(own, other, "hybrid", open_ms, limits)
    checks = losses(compared, limits)
    if compared.questions:
        checks = [*question_checks(own.bundle.paths, compared.questions), *checks]
    if _encoder(own) != _encoder(other) and all(DENSE_LEGS[0] in each.bundle.channels for each in (own, other)):
        checks += losses(_compared(own, other, "faiss", open_ms, limits), limits, " by vectors")
    return compared, [*checks, *delays(compared, limits)]


def losses(compared: Comparison, limits: RetrievalSettings, how: str = "") -> list[Check]:
    """What is answered worse, over all questions and by language. how: they were asked, for the names of the checks."""
    checks: list[Check] = []
    sizes = _sizes(compared.questions)
    for one in compared.differences:
        kind, metric = one["class"], one["metric"]
        if sizes[kind] < limits.min_questions:
            continue
        checks.append(
            Check(
                f"{TITLES[metric]}{how} of {'all languages' if kind == OVERALL else kind} against CURRENT",
                not (one["high"] < 0 and one["difference"] < -limits.max_drop),
                f"{one['difference']:+.3f} ({one['low']:+.3f} to {one['high']:+.3f}, {sizes[kind]} questions)",
                f"no drop beyond {limits.max_drop:g}",
                _worst(compared, kind, metric),
                regression=True,
            )
        )
    return checks


def delays(compared: Comparison, limits: RetrievalSettings) -> list[Check]:
    """What takes longer."""
    checks = [_ratio("time to open against CURRENT", *compared.open_ms, limits.max_open_ratio)]
    if compared.questions:
        own, other = (median(run.milliseconds) for run in (compared.staged, compared.current))
        checks.append(_ratio("time of a search against CURRENT", own, other, limits.max_latency_ratio))
    return checks


def _compared(
    own: Engine, other: Engine, channel: Channel, open_ms: tuple[float, float], limits: RetrievalSettings
) -> Comparison:
    """Both asked a few questions, and many where the answers to those look worse."""
    alike = same_files(own.bundle.paths, other.bundle.paths)
    asked: list[Question] = []
    differences = ()
    run, against = (Run(name, (), (), {}, frozenset()) for name in ("staged", "CURRENT"))
    for count in (limits.questions, limits.more_questions):
        more = gate_questions(own.bundle.paths, alike, count)
        if len(more) <= len(asked):
            break
        asked = more
        run, against = (
            _asked(name, engine, channel, asked, alike) for name, engine in (("staged", own), ("CURRENT", other))
        )
        differences = tuple(difference(asked, run, against, level=_level(asked, limits)))
        if all(one["difference"] >= -limits.max_drop for one in differences):
            break
    return Comparison(
        version=own.bundle.manifest.version,
        against=other.bundle.manifest.version,
        questions=tuple(asked),
        staged=run,
        current=against,
        summaries={each.name: summary_of_run(asked, each) for each in (run, against)} if asked else {},
        differences=differences,
        open_ms=open_ms,
    )


def _asked(
    name: str, engine: Engine, channel: Channel, questions: Sequence[Question], alike: Container[tuple[str, str]]
) -> Run:
    """Answers, of which only the chunks count that are of files which both versions hold."""
    run = Asker(engine, _DEPTH).ask(name, questions, channel, lambda _: None)
    kept = tuple(tuple(hit for hit in hits if (hit.repo, hit.path) in alike) for hits in run.hits)
    return replace(run, hits=kept)


def _encoder(engine: Engine) -> str:
    return engine.bundle.manifest.encoder.fingerprint


def _level(questions: Sequence[Question], limits: RetrievalSettings) -> float:
    """How sure each comparison has to be, so that all that are judged are together (Bonferroni)."""
    judged = len(COMPARED) * sum(size >= limits.min_questions for size in _sizes(questions).values())
    return 1 - (1 - LEVEL) / max(1, judged)


def _sizes(questions: Sequence[Question]) -> dict[str, int]:
    """Questions by class, and of all."""
    return {OVERALL: len(questions), **Counter(question.kind for question in questions)}


def _ratio(name: str, own: float, other: float, most: float) -> Check:
    ratio = max(own, _NOISE_MS) / max(other, _NOISE_MS)
    return Check(
        name, ratio <= most, f"x {ratio:.2f} ({own:.1f} and {other:.1f} ms)", f"at most x {most:g}", regression=True
    )


def _worst(compared: Comparison, kind: str, metric: str) -> tuple[str, ...]:
    """The questions of a class that lost most."""
    place = METRICS.index(metric)
    own, other = (scores_of(compared.questions, run) for run in (compared.staged, compared.current))
    lost = [
        (after[place] - before[place], question.query)
        for question, after, before in zip(compared.questions, own, other, strict=True)
        if kind in (OVERALL, question.kind) and after[place] < before[place]
    ]
    return tuple(f"{query!r} {change:+.2f}" for change, query in sorted(lost)[:_EXAMPLES])

"""The gate that asks: a staged version is opened by the reader that will serve it, and asked what CURRENT is asked."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from contextlib import closing
from statistics import median

from codequarry.assets.ann_recall import ann_recall
from codequarry.assets.asking import Asker
from codequarry.assets.gate_questions import gate_questions
from codequarry.assets.golden import check_golden
from codequarry.assets.verdict import Comparison, Verdict, write_verdict
from codequarry.pipelines.evaluation.metrics import METRICS, TITLES
from codequarry.pipelines.evaluation.records import Question
from codequarry.pipelines.evaluation.results import OVERALL, Run, difference, scores_of, summary_of_run
from codequarry.pipelines.faiss_stage import questions as index_questions
from codequarry.pipelines.tools import tool_versions
from codequarry.pipelines.workspace import Progress, write_json
from codequarry.schemas.checks import Check
from codequarry.schemas.faiss_tuning import read_tuning
from codequarry.schemas.integrity import current_manifest, file_sha256, read_manifest
from codequarry.schemas.layout import BundlePaths, BundleRoot, Current
from codequarry.schemas.manifest import Manifest
from codequarry.schemas.retrieval_settings import RetrievalSettings
from codequarry.schemas.settings import Settings
from codequarry.serving.bundle import Bundle
from codequarry.serving.dense import FaissChannel
from codequarry.serving.engine import Engine

_OPENINGS = 2
_DEPTH = 20
"""Results of an answer that are looked at; 4,000 tokens are seldom more."""
_NOISE_MS = 5.0
"""Times below this are taken for it: their ratios say nothing."""
_EXAMPLES = 3


def ask_staged(paths: BundlePaths, settings: Settings, progress: Progress) -> tuple[Check, ...]:
    """Every check of a staged version's answers; those that compare with CURRENT may be accepted by a reason.

    paths: of the staged version, whose files are those of its manifest. Writes the verdict page below the bundle root.

    Raises as `Bundle.open_paths` does: the reader cannot open the staged version.
    """
    progress("asking", 0, 3)
    manifest, root = read_manifest(paths), BundleRoot(settings.bundle.root)
    held = current_manifest(root)
    own, open_ms = _opened(paths, settings)
    with closing(own):
        checks = [_closed(own), *_ann_checks(own, paths, settings)]
        progress("asking", 1, 3)
        checks += _golden(settings, progress)
        compared = None
        if held is not None and held.digest != manifest.digest:
            compared = _compared(own, open_ms, manifest, held, root, settings)
            checks += _regressions(compared, settings.retrieval)
        progress("asking", 2, 3)
    tunings = {leg.channel: read_tuning(paths.leg(leg.channel).tuning) for leg in manifest.legs}
    known = {channel: tuning for channel, tuning in tunings.items() if tuning is not None}
    write_verdict(root, Verdict(manifest.version, tuple(checks), compared, known))
    progress("asking", 3, 3)
    return tuple(checks)


def _opened(paths: BundlePaths, settings: Settings) -> tuple[Engine, float]:
    """An engine over a version, and the least of a few times that opening it took, in milliseconds."""
    current = Current(paths.path.name, file_sha256(paths.manifest))
    times: list[float] = []
    for _ in range(_OPENINGS - 1):
        started = time.perf_counter()
        bundle = Bundle.open_paths(paths, current)
        times.append(1000 * (time.perf_counter() - started))
        bundle.close()
    started = time.perf_counter()
    bundle = Bundle.open_paths(paths, current, settings.serving)
    times.append(1000 * (time.perf_counter() - started))
    return Engine(bundle, settings.serving), min(times)


def _closed(engine: Engine) -> Check:
    problems = engine.bundle.problems()
    told = tuple(f"{name}: {why}" for name, why in problems.items())
    return Check(
        "channels that the reader cannot open", not problems, ", ".join(problems) or "none", "none", told[:_EXAMPLES]
    )


def _ann_checks(engine: Engine, paths: BundlePaths, settings: Settings) -> list[Check]:
    """Recall of each dense leg that could be opened, on other questions than its tuning, where there are any."""
    checks: list[Check] = []
    limits = settings.retrieval
    asked = index_questions(paths, settings.indexes.faiss_queries + limits.ann_queries)[-limits.ann_queries :]
    for leg in engine.bundle.manifest.legs:
        channel = engine.bundle.channels.get(leg.channel)
        if not isinstance(channel, FaissChannel) or channel.problem() is not None:
            continue
        found, worst = ann_recall(channel, paths.leg(leg.channel), leg.encoder.dim, asked)
        checks.append(
            Check(
                f"recall@10 of {leg.channel} against exact search",
                found >= limits.min_ann_recall,
                f"{found:.3f} ({leg.faiss.factory}, {len(asked)} questions)",
                f"at least {limits.min_ann_recall:g}",
                tuple(worst[:_EXAMPLES]),
            )
        )
    return checks


def _golden(settings: Settings, progress: Progress) -> list[Check]:
    """The golden oracle pack with these tools; what passed once is not checked again."""
    if not settings.retrieval.golden:
        return []
    known = settings.paths.work / "golden.json"
    tools = hashlib.sha256(json.dumps(tool_versions(), sort_keys=True).encode()).hexdigest()
    name, expected = "golden oracle pack", "every promise kept"
    try:
        if json.loads(known.read_text(encoding="utf-8")) == {"tools": tools}:
            return [Check(name, True, "kept, when first asked with these tools", expected)]
    except (OSError, ValueError):
        pass
    made = check_golden(progress)
    broken = [f"{check.index}: {check.what}: {check.found}" for check in made if not check.kept]
    if not broken:
        write_json(known, {"tools": tools})
    return [Check(name, not broken, f"{len(broken)} of {len(made)} broken", expected, tuple(broken[:_EXAMPLES]))]


def _compared(
    own: Engine, open_ms: float, manifest: Manifest, held: Manifest, root: BundleRoot, settings: Settings
) -> Comparison:
    """Both versions asked the same."""
    other_paths = root.version(held.version)
    asked = gate_questions(own.bundle.paths, other_paths, settings.retrieval.questions)
    other, other_ms = _opened(other_paths, settings)
    with closing(other):
        run = Asker(own, _DEPTH).ask("staged", asked, "hybrid", _quiet) if asked else _nothing("staged")
        against = Asker(other, _DEPTH).ask("CURRENT", asked, "hybrid", _quiet) if asked else _nothing("CURRENT")
    return Comparison(
        version=manifest.version,
        against=held.version,
        questions=tuple(asked),
        staged=run,
        current=against,
        summaries={each.name: summary_of_run(asked, each) for each in (run, against)} if asked else {},
        differences=tuple(difference(asked, run, against)) if asked else (),
        open_ms=(open_ms, other_ms),
    )


def _regressions(compared: Comparison, limits: RetrievalSettings) -> list[Check]:
    """What is worse than in CURRENT, over all questions and by language; and what takes longer."""
    checks: list[Check] = []
    sizes = {kind: sum(each.kind == kind for each in compared.questions) for kind in _kinds(compared.questions)}
    sizes[OVERALL] = len(compared.questions)
    for one in compared.differences:
        kind, metric = one["class"], one["metric"]
        if sizes[kind] < limits.min_questions:
            continue
        checks.append(
            Check(
                f"{TITLES[metric]} of {'all languages' if kind == OVERALL else kind} against CURRENT",
                not (one["high"] < 0 and one["difference"] < -limits.max_drop),
                f"{one['difference']:+.3f} ({one['low']:+.3f} to {one['high']:+.3f}, {sizes[kind]} questions)",
                f"no drop beyond {limits.max_drop:g}",
                _worst(compared, kind, metric),
                regression=True,
            )
        )
    own, other = compared.open_ms
    checks.append(_ratio("time to open against CURRENT", own, other, limits.max_open_ratio))
    if compared.questions:
        own, other = (median(run.milliseconds) for run in (compared.staged, compared.current))
        checks.append(_ratio("time of a search against CURRENT", own, other, limits.max_latency_ratio))
    return checks


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


def _kinds(questions: Sequence[Question]) -> list[str]:
    return sorted({question.kind for question in questions})


def _nothing(name: str) -> Run:
    return Run(name, (), (), {}, frozenset())


def _quiet(_: int) -> None:
    """Nobody watches single questions."""

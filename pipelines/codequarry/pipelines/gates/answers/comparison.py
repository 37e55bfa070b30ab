"""Comparison of a staged version and CURRENT on the same questions: quality of the answers, and time.

Questions are about files that are the same in both versions. When answers look worse, more questions of their kind are
asked before a version is stopped. A file that only one of the versions holds is no answer, better or worse, to a
question about another one, since nobody judged it. It is left out of both (condensed lists, Sakai 2007). So what an
honest change adds does not count against it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Any

import pyarrow as pa

from codequarry.pipelines.gates.answers.latency import Times, searching, slowdown
from codequarry.pipelines.gates.answers.verdict import Comparison
from codequarry.pipelines.measure.asking import Asker
from codequarry.pipelines.measure.doc_questions import sentence_of
from codequarry.pipelines.measure.name_questions import is_telling_name
from codequarry.pipelines.measure.questions import CandidateKey, Question, Target, spread
from codequarry.pipelines.measure.ranking_metrics import LEVEL, METRICS, TITLES
from codequarry.pipelines.measure.results import COMPARED, OVERALL, Run, difference, scores_of, summary_of_run
from codequarry.pipelines.sources.path_classes import SOURCE, path_class
from codequarry.schemas.bundle.layout import DENSE_LEGS, BundlePaths
from codequarry.schemas.bundle.tables import read_table
from codequarry.schemas.gates.expectation import build_frames, run_suite
from codequarry.schemas.gates.suites import QRELS
from codequarry.schemas.settings.gates import RetrievalSettings
from codequarry.schemas.wire.search import Channel
from codequarry.serving.engine.engine import Engine
from codequarry.serving.version.file_checks import Check, as_check

_DEPTH = 20
"""Results of an answer that are compared; 4,000 tokens rarely hold more."""
_EXAMPLES = 3


def compare(
    own: Engine, other: Engine, open_ms: tuple[float, float], limits: RetrievalSettings
) -> tuple[Comparison, list[Check]]:
    """Ask two versions the same questions, and check what became worse.

    When their encoders differ, vectors are also asked alone: in a hybrid answer words can hide that they find nothing.

    Args:
        own: Engine over the staged version.
        other: Engine over CURRENT.
        open_ms: Times to open the two, see `latency.opening`.
        limits: Number of questions, and limits of the checks.

    Returns:
        The comparison and its checks.
    """
    compared = _compared(own, other, "hybrid", open_ms, limits)
    checks = losses(compared, limits)
    if compared.questions:
        checks = [*question_checks(own.bundle.paths, compared.questions), *checks]
    if _encoder(own) != _encoder(other) and all(DENSE_LEGS[0] in each.bundle.channels for each in (own, other)):
        checks += losses(_compared(own, other, "faiss", open_ms, limits), limits, " by vectors")
    if compared.questions:
        queries = [question.query for question in compared.questions]
        search_ms = searching(own, other, queries, "hybrid", limits.max_latency_ratio)
        compared = replace(compared, search_ms=search_ms)
    return compared, [*checks, *delays(compared, limits)]


def losses(compared: Comparison, limits: RetrievalSettings, how: str = "") -> list[Check]:
    """Check for worse answers, over all questions and by language.

    Args:
        compared: The comparison.
        limits: Limits of the checks.
        how: Way of asking, for the names of the checks.

    Returns:
        The checks.
    """
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
    """Check for longer times to open and to search."""
    checks = [_ratio("time to open against CURRENT", compared.open_ms, limits.max_open_ratio)]
    if compared.search_ms is not None:
        checks.append(_ratio("time of a search against CURRENT", compared.search_ms, limits.max_latency_ratio))
    return checks


def _compared(
    own: Engine, other: Engine, channel: Channel, open_ms: tuple[float, float], limits: RetrievalSettings
) -> Comparison:
    """Ask both versions a few questions, and more when the answers to those look worse."""
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
            _ask_questions(name, engine, channel, asked, alike)
            for name, engine in (("staged", own), ("CURRENT", other))
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


def _ask_questions(
    name: str, engine: Engine, channel: Channel, questions: Sequence[Question], alike: Container[tuple[str, str]]
) -> Run:
    """Ask the questions, and keep only result chunks of files that both versions hold."""
    run = Asker(engine, _DEPTH).ask(name, questions, channel, lambda _: None)
    kept = tuple(tuple(hit for hit in hits if (hit.repo, hit.path) in alike) for hits in run.hits)
    return replace(run, hits=kept)


def _encoder(engine: Engine) -> str:
    return engine.bundle.manifest.encoder.fingerprint


def _level(questions: Sequence[Question], limits: RetrievalSettings) -> float:
    """Return the confidence level of each comparison so that all comparisons together have LEVEL (Bonferroni)."""
    judged = len(COMPARED) * sum(size >= limits.min_questions for size in _sizes(questions).values())
    return 1 - (1 - LEVEL) / max(1, judged)


def _sizes(questions: Sequence[Question]) -> dict[str, int]:
    """Return the number of questions by class, and of all."""
    return {OVERALL: len(questions), **Counter(question.kind for question in questions)}


def _ratio(name: str, times: Times, most: float) -> Check:
    ratio = slowdown(times)
    said = f"x {ratio:.2f} ({times[0]:.1f} and {times[1]:.1f} ms of CPU time)"
    return Check(name, ratio <= most, said, f"at most x {most:g}", regression=True)


def _worst(compared: Comparison, kind: str, metric: str) -> tuple[str, ...]:
    """Return the questions of a class that lost most."""
    place = METRICS.index(metric)
    own, other = (scores_of(compared.questions, run) for run in (compared.staged, compared.current))
    lost = [
        (after[place] - before[place], question.query)
        for question, after, before in zip(compared.questions, own, other, strict=True)
        if kind in (OVERALL, question.kind) and after[place] < before[place]
    ]
    return tuple(f"{query!r} {change:+.2f}" for change, query in sorted(lost)[:_EXAMPLES])


_NODE = ("repo", "path", "name", "doc", "start_line", "end_line")


def gate_questions(staged: BundlePaths, alike: Mapping[tuple[str, str], str], count: int) -> list[Question]:
    """Return questions, half by documentation, half by name, each of the class of its language.

    A definition is asked for by the first sentence of its documentation, or by its name, when no other has the same.
    Both versions index the documentation. These questions tell whether answers are as good as before;
    `codequarry evaluate` measures how good they are. A larger count gives the same questions and more.

    Args:
        staged: Paths of the staged version.
        alike: Files in both versions, by `same_files`.
        count: Most questions.

    Returns:
        The questions.
    """
    classes = cache(path_class)
    nodes = [node for node in _rows(staged, "ast_nodes", _NODE) if classes(node["path"]) == SOURCE]
    said = [(node, sentence_of(node["doc"], node["name"])) for node in nodes if node["doc"]]
    named = [(node, node["name"]) for node in nodes if is_telling_name(node["name"])]
    found: list[Question] = []
    for asked, share in ((said, count - count // 2), (named, count // 2)):
        texts = Counter(text for _, text in asked)
        drawn = spread(
            (
                (CandidateKey(node["repo"], node["path"], f"{node['start_line']}:{text}"), (node, text))
                for node, text in asked
                if text and texts[text] == 1 and (node["repo"], node["path"]) in alike
            ),
            0,
        )
        for node, text in islice(drawn, share):
            target = Target(node["path"], node["repo"], node["start_line"], node["end_line"])
            kind = alike[node["repo"], node["path"]]
            found.append(Question(f"G{len(found) + 1:04d}", kind, text, (target,)))
    return found


def question_checks(staged: BundlePaths, questions: Sequence[Question]) -> list[Check]:
    """Run the suite of questions over those that a staged version is asked."""
    import duckdb

    rows = [
        {"id": each.id, "query": each.query, **target._asdict()} for each in questions for target in each.targets
    ]  # fmt: skip
    files = _rows(staged, "files", ("repo", "path", "lines", "skip_reason"))
    with closing(duckdb.connect()) as connection:
        for name, table in (("qrels", rows), ("files", files)):
            connection.register(name, pa.Table.from_pylist(table))
        build_frames(connection, (QRELS,))
        return [as_check(outcome) for outcome in run_suite(connection, QRELS)]


def same_files(staged: BundlePaths, current: BundlePaths) -> dict[tuple[str, str], str]:
    """Return the language, by repository and path, of the indexed files that both versions hold with the same bytes."""
    columns = ("repo", "path", "lang", "sha256", "skip_reason")
    held, before = (
        {(row["repo"], row["path"]): row for row in _rows(paths, "files", columns) if not row["skip_reason"]}
        for paths in (staged, current)
    )
    return {
        place: row["lang"]
        for place, row in held.items()
        if place in before and before[place]["sha256"] == row["sha256"]
    }


def _rows(paths: BundlePaths, name: str, columns: tuple[str, ...]) -> list[dict[str, Any]]:
    return [row for file in paths.table_files(name) for row in read_table(file, list(columns)).to_pylist()]

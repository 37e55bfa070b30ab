"""Comparison of a staged version and CURRENT on the same questions: quality of the answers, and time.

Questions are about files that are the same in both versions; those of a delta version about files that changed. When
answers look worse, more questions of their kind are asked before a version is stopped. A file that only one of the
versions holds is no answer, better or worse, to a question about another one, since nobody judged it. It is left out of
both (condensed lists, Sakai 2007). So what an honest change adds does not count against it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, islice, zip_longest
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from codequarry.pipelines.gates.answers.latency import Times, slowdown
from codequarry.pipelines.gates.answers.verdict import Comparison
from codequarry.pipelines.gates.live_rows import FileState, Place, indexed_files, live_rows
from codequarry.pipelines.measure.asking import Asker
from codequarry.pipelines.measure.doc_questions import sentence_of
from codequarry.pipelines.measure.name_questions import is_telling_name
from codequarry.pipelines.measure.questions import CandidateKey, Question, Target, spread
from codequarry.pipelines.measure.ranking_metrics import LEVEL, METRICS, TITLES
from codequarry.pipelines.measure.results import COMPARED, OVERALL, Run, difference, scores_of, summary_of_run
from codequarry.pipelines.sources.path_classes import SOURCE, path_class
from codequarry.pipelines.store.row_groups import rows_among
from codequarry.schemas.bundle.layout import DENSE_LEGS, BundlePaths
from codequarry.schemas.bundle.tables import read_table
from codequarry.schemas.gates.expectation import build_frames, run_suite
from codequarry.schemas.gates.suites import QRELS
from codequarry.schemas.settings.gates import RetrievalSettings
from codequarry.schemas.wire.search import Channel
from codequarry.serving.engine.engine import Engine
from codequarry.serving.version.file_checks import Check, as_check
from codequarry.serving.version.open import Bundle

_WORD = re.compile(r"\w+")
_DEPTH = 20
"""Results of an answer that are compared; 4,000 tokens rarely hold more."""
_EXAMPLES = 3
_MOST_CANDIDATES = 1_000
"""Most sentences, and most names, of changed files that are looked for in the whole of both versions."""


def compare(own: Engine, other: Engine, limits: RetrievalSettings) -> tuple[Comparison, list[Check]]:
    """Ask two versions the same questions, and check what became worse.

    When their encoders differ, vectors are also asked alone: in a hybrid answer words can hide that they find nothing.

    Args:
        own: Engine over the staged version.
        other: Engine over CURRENT.
        limits: Number of questions, and limits of the checks.

    Returns:
        The comparison and its checks.
    """
    subject = _subject_of(own, other)
    compared = _compared(own, other, "hybrid", limits, subject)
    checks = losses(compared, limits)
    if compared.questions:
        checks = [*question_checks(own.bundle.paths, subject.with_lines(compared.questions)), *checks]
    if _encoder(own) != _encoder(other) and all(DENSE_LEGS[0] in each.bundle.channels for each in (own, other)):
        checks += losses(_compared(own, other, "faiss", limits, subject), limits, " by vectors")
    return compared, checks


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


def delays(open_ms: Times, search_ms: Times | None, limits: RetrievalSettings) -> list[Check]:
    """Check for longer times to open and to search.

    Args:
        open_ms: Times to open the two versions, see `latency.opening`.
        search_ms: Times of a search, see `latency.searching`; None when nothing was asked.
        limits: Limits of the checks.

    Returns:
        The checks.
    """
    checks = [_ratio("time to open against CURRENT", open_ms, limits.max_open_ratio)]
    if search_ms is not None:
        checks.append(_ratio("time of a search against CURRENT", search_ms, limits.max_latency_ratio))
    return checks


@dataclass(frozen=True)
class _AskedFiles:
    """Files that two versions are asked about."""

    kept: Container[Place]
    """Files that may be answers: those that both versions hold."""
    draw: Callable[[int], list[Question]]
    """Draws at most so many questions; more are the same and further ones."""
    lines: Mapping[str, Target]
    """Places in the staged version by the id of a question whose target is a whole file."""

    def with_lines(self, questions: Sequence[Question]) -> list[Question]:
        """Return questions whose targets are lines of the staged version."""
        return [one._replace(targets=(self.lines[one.id],)) if one.id in self.lines else one for one in questions]


def _subject_of(own: Engine, other: Engine) -> _AskedFiles:
    """Return what is asked: files that are alike, or, of a delta version, those that it changes."""
    staged, before = own.bundle, other.bundle
    files, earlier = (indexed_files(each.paths, each.manifest) for each in (staged, before))
    if staged.manifest.stack is None:
        alike = same_files(files, earlier)
        return _AskedFiles(alike, lambda count: gate_questions(staged.paths, alike, count), {})
    kept = files.keys() & earlier.keys()
    of_delta = {(row["repo"], row["path"]) for row in _rows(staged.paths, "files", ("repo", "path"))}
    changed = {place: files[place].lang for place in kept & of_delta}
    drawn, lines = changed_questions(staged, before, changed)
    return _AskedFiles(kept, lambda count: drawn[:count], lines)


def _compared(
    own: Engine,
    other: Engine,
    channel: Channel,
    limits: RetrievalSettings,
    subject: _AskedFiles,
) -> Comparison:
    """Ask both versions a few questions, and more when the answers to those look worse."""
    asked: list[Question] = []
    differences = ()
    run, against = (Run(name, (), (), {}, frozenset()) for name in ("staged", "CURRENT"))
    for count in (limits.questions, limits.more_questions):
        more = subject.draw(count)
        if len(more) <= len(asked):
            break
        asked = more
        run, against = (
            _ask_questions(name, engine, channel, asked, subject.kept)
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
    )


def _ask_questions(
    name: str, engine: Engine, channel: Channel, questions: Sequence[Question], alike: Container[Place]
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


_NODES = "ast_nodes"
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
    nodes = [node for node in _rows(staged, _NODES, _NODE) if classes(node["path"]) == SOURCE]
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


def same_files(staged: Mapping[Place, FileState], current: Mapping[Place, FileState]) -> dict[Place, str]:
    """Return the language of the indexed files that both versions hold with the same bytes."""
    return {place: file.lang for place, file in staged.items() if place in current and current[place] == file}


def changed_questions(
    staged: Bundle, current: Bundle, changed: Mapping[Place, str]
) -> tuple[list[Question], dict[str, Target]]:
    """Return questions about the files of a delta version, as `gate_questions` does about equal ones.

    A definition is asked for when both versions hold it in the same file, by the same sentence or name, and only there.
    Its lines may differ, so that any chunk of the file is an answer.

    Args:
        staged: The delta version.
        current: The published version.
        changed: Languages of the files that differ from the base and that both hold.

    Returns:
        The questions, and their places in the staged version by id.
    """
    nodes = [
        row
        for row in _rows(staged.paths, _NODES, _NODE)
        if (row["repo"], row["path"]) in changed and path_class(row["path"]) == SOURCE
    ]
    here, there = (live_rows(each.paths, each.manifest, _NODES, _NODE) for each in (staged, current))
    found: list[list[tuple[str, dict[str, Any]]]] = []
    for text_of, fitting in ((_sentence, _with_sentences), (_telling_name, _with_names)):
        candidates = (
            (CandidateKey(row["repo"], row["path"], f"{row['start_line']}:{text}"), (text, row))
            for row in nodes
            if (text := text_of(row))
        )
        drawn = list(islice(spread(candidates, 0), _MOST_CANDIDATES))
        texts = {text for text, _ in drawn}
        own, earlier = (fitting(table, texts).to_pylist() for table in (here, there))
        times, before = (Counter(map(text_of, rows)) for rows in (own, earlier))
        places = {(text_of(row), row["repo"], row["path"]) for row in earlier}
        found.append(
            [
                (text, row)
                for text, row in drawn
                if times[text] == before[text] == 1 and (text, row["repo"], row["path"]) in places
            ]
        )
    lines: dict[str, Target] = {}
    questions: list[Question] = []
    by_turns = chain.from_iterable(zip_longest(*found))
    for text, row in (each for each in by_turns if each is not None):
        name = f"G{len(questions) + 1:04d}"
        lines[name] = Target(row["path"], row["repo"], row["start_line"], row["end_line"])
        target = Target(row["path"], row["repo"])
        questions.append(Question(name, changed[row["repo"], row["path"]], text, (target,)))
    return questions, lines


def _sentence(node: Mapping[str, Any]) -> str:
    return (node["doc"] and sentence_of(node["doc"], node["name"])) or ""


def _telling_name(node: Mapping[str, Any]) -> str:
    return node["name"] if is_telling_name(node["name"]) else ""


def _with_sentences(nodes: pa.Table, sentences: Collection[str]) -> pa.Table:
    """Return the definitions whose documentation may begin with one of the sentences: it holds two words of it."""
    if not sentences:
        return nodes.slice(0, 0)
    pairs = pc.MatchSubstringOptions("|".join(sorted({_telling_pair(sentence) for sentence in sentences})))
    return nodes.filter(pc.call_function("match_substring_regex", [nodes["doc"]], pairs))


def _telling_pair(sentence: str) -> str:
    """Return a pattern for the longest word of a sentence and the word before it, or behind the first one.

    >>> _telling_pair("Retry until it succeeds")
    'it\\\\W+succeeds'
    """
    words = _WORD.findall(sentence)
    at = max(range(len(words)), key=lambda one: len(words[one])) or 1
    return rf"{words[at - 1]}\W+{words[at]}"


def _with_names(nodes: pa.Table, names: Collection[str]) -> pa.Table:
    """Return the definitions with one of the names."""
    return rows_among(nodes, "name", pa.array(sorted(names), nodes["name"].type))


def _rows(paths: BundlePaths, name: str, columns: tuple[str, ...]) -> list[dict[str, Any]]:
    return [row for file in paths.table_files(name) for row in read_table(file, list(columns)).to_pylist()]

"""A data set in CoIR's format from packages of registries, and the ladder of ablations over it.

Functions of packages on which nothing here was trained, fitted or measured are the corpus; the first sentence of the
documentation of some is the question. No document holds documentation. The packages are pinned, fetched by pip and npm,
and kept below ``.codequarry/bench/coir``; the data set and its bundles lie in a temporary folder.

``python -m benchmarks.quality.coir [FOLDER]`` writes the data set to FOLDER alone, for ``codequarry evaluate --qrels
FOLDER``.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.corpus import CODEQUARRY, HOME
from codequarry.pipelines.adapt.pairs import word_count
from codequarry.pipelines.measure.doc_questions import sentence_of
from codequarry.pipelines.measure.questions import CandidateKey, spread
from codequarry.pipelines.measure.results import OVERALL
from codequarry.pipelines.sources.path_classes import SOURCE, path_class
from codequarry.pipelines.syntax.definitions.definitions import outline
from codequarry.pipelines.syntax.definitions.nodes import Surroundings
from codequarry.pipelines.syntax.grammars import grammar
from codequarry.pipelines.syntax.parsing import parse
from codequarry.schemas.languages import BY_NAME, language_of
from tools.train_encoder.sources import TrainingSource, fetch, files, read_sources

_PINNED = (
    ("pypi", "blessed", "1.52.0", "MIT", "1936f421f3feb130035a4629e6477d1432e33b2674ab2b9841292c74d479eac2"),
    ("pypi", "boltons", "26.2.0", "BSD-3-Clause", "41942cbce440211bbcf2487ccdc356964ad674f95a01068b8a0dd7a1d1fed036"),
    ("pypi", "dnspython", "2.9.2", "ISC", "af15f7d385a6ae2fb35a796fde2138004c8c42c7389090e2addc83e3b3340fd8"),
    ("pypi", "geopy", "2.5.0", "MIT", "8ad8cc226b505ca4d272ae9a2eeba08b8a2c565fc9a04eaefc33ad49c32b51aa"),
    ("pypi", "humanize", "4.17.0", "MIT", "02d0899527760efe18011944f882df4970943b4cdff7b5a0ba7fed43a576ef98"),
    ("pypi", "icalendar", "7.3.0", "BSD-2-Clause", "8355acfe17be81b368f0b1e3740817cea9b56ea889931f8f1a87c62f2d28db0b"),
    ("pypi", "mpmath", "1.4.1", "BSD-3-Clause", "dc4f0ea2304480d4a9a48a94c1020571558ade522b44a6912efac63a586e140f"),
    ("pypi", "pymodbus", "3.16.1", "BSD-3-Clause", "bb433f7417280bdea1190d95495aa6fb8e1fa8e0d720c436922b270bc378024c"),
    ("pypi", "textdistance", "4.6.3", "MIT", "0cb1b2cc8e3339ddc3e0f8c870e49fb49de6ecc42a718917308b3c971f34aa56"),
    ("pypi", "toolz", "1.2.0", "BSD-3-Clause", "890f820b1cb8152785aaf9386d8707770110809035800985ca65cb24ce1120ef"),
    ("npm", "ml-matrix", "6.15.1", "MIT", "561a1f07fde272746832ce98dc9e53529bb86c91a8f45610c30a811effaed3a4"),
    ("npm", "simple-statistics", "7.12.1", "ISC", "4758b97379e160793f676bada37fdf3c5708314bf1e01f96a43629a1b7e8799f"),
)
_LANGUAGES = ("python", "javascript")
_FUNCTIONS = ("function", "method")
_BYTES = range(60, 20_000)
_LEAST_WORDS = 15
_EMPTY_STRING = re.compile(r"^\s*[rRuU]?(\"{6}|'{6}|\"\"|'')$")
"""Remains of a docstring."""
_FIELD = re.compile(r"(?m)^\s*(?:@\w|:\w[^:\n]*:)")
"""Beginning of what documentation says about parameters and the like."""
_NO_SENTENCE = re.compile(r"^>|https?://")
"""Documentation that begins with an example, or points elsewhere."""
QUESTIONS = 300
_SEED = 0
MODES = ("rescore", "wide", "uncertain", "off")
LIMITS = {
    "as it is": {},
    "without the margin": {"LATE_MARGIN": "0"},
    "without the similarity": {"LATE_SIMILARITY": "-1"},
    "without the entropy": {"LATE_ENTROPY": "1"},
    "50 scored again": {"LATE_RESCORED": "50"},
    "200 scored again": {"LATE_RESCORED": "200"},
    "wide, 100 candidates": {"LATE_MODE": "wide", "LATE_CANDIDATES": "100"},
    "wide, 400 candidates": {"LATE_MODE": "wide", "LATE_CANDIDATES": "400"},
}
"""Settings that decide about late interaction, each changed by itself."""
_ABLATED = ("faiss+warp", "hybrid")
"""Runs that late interaction takes part in beside other channels."""
_FIGURES = ("ndcg_10", "mrr_10", "recall_10", "recall_50")
_TITLES = ("NDCG@10", "MRR@10", "R@10", "R@50")


class Function(NamedTuple):
    """A function of a package, without its documentation."""

    package: str
    path: str
    qualified_name: str
    language: str
    code: str
    question: str
    """First sentence of its documentation; "" when that says nothing."""

    @property
    def id(self) -> str:
        return f"{self.package}/{self.path}:{self.qualified_name}"


def run() -> None:
    """Fetch the packages, build the data set, measure and print."""
    with tempfile.TemporaryDirectory(prefix="codequarry-coir-") as temporary:
        folder = Path(temporary)
        corpus, questions = write_collection(folder / "coir", functions_of_packages())
        measure(folder, corpus, questions)


def functions_of_packages() -> list[Function]:
    """Functions of the pinned packages, which are fetched where they are not there."""
    never = read_sources().never
    found: list[Function] = []
    for source in packages():
        for path, data in files(fetch(source, HOME / "coir"), _is_source):
            if never.isdisjoint(part.lower() for part in Path(path).parts):
                found += functions_of(source.key, path, data)
    return found


def packages() -> list[TrainingSource]:
    """The pinned packages, as the fetcher of training sources takes them."""
    return [
        TrainingSource(registry, name, version, license, _file(registry, name, version), sha256, "")
        for registry, name, version, license, sha256 in _PINNED
    ]


def _file(registry: str, name: str, version: str) -> str:
    return f"{name}-{version}{'.tgz' if registry == 'npm' else '-py3-none-any.whl'}"


def _is_source(path: str) -> bool:
    # What npm packages call dist is made of what they call src.
    return language_of(path) in _LANGUAGES and path_class(path) == SOURCE and "dist" not in Path(path).parts


def functions_of(package: str, path: str, data: bytes) -> Iterator[Function]:
    """Functions and methods of a file that lie in no other, each without its documentation and that of those inside."""
    language = language_of(path)
    assert language is not None
    name = BY_NAME[language].grammar
    assert name is not None
    loaded = grammar(name)
    tree = parse(loaded, data)
    if tree is None:
        return
    found = outline(loaded, tree, data)
    surroundings = Surroundings(found.leading, data)
    documentation = [span for entry in found.definitions for span in surroundings.doc_ranges(entry)]
    end = 0
    for entry in sorted(found.definitions, key=lambda one: (one.start_byte, -one.end_byte)):
        if entry.kind not in _FUNCTIONS or entry.start_byte < end:
            continue
        end = entry.end_byte
        code = _without(data, entry.start_byte, entry.end_byte, documentation)
        if len(code) in _BYTES and word_count(code) >= _LEAST_WORDS:
            question = sentence_of(_FIELD.split(surroundings.doc(entry))[0], entry.name)
            yield Function(package, path, entry.qualified_name, language, code, question)


def _without(data: bytes, start: int, end: int, ranges: Iterable[tuple[int, int]]) -> str:
    """Text of a function without some ranges, lines that they leave empty, and its indentation."""
    parts, at = [b" " * (start - data.rfind(b"\n", 0, start) - 1)], start
    for first, last in sorted(ranges):
        if at <= first and last <= end:
            parts.append(data[at:first])
            at = last
    text = b"".join([*parts, data[at:end]]).decode("utf-8", "replace")
    lines = [line.rstrip() for line in text.splitlines() if line.strip() and not _EMPTY_STRING.match(line)]
    return textwrap.dedent("\n".join(lines)) + "\n"


def write_collection(folder: Path, functions: Iterable[Function], count: int = QUESTIONS) -> tuple[int, int]:
    """Write ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/test.tsv``: numbers of documents and questions.

    Of functions with the same text the first stays. A sentence is a question if it documents one function, and is
    written in no document.
    """
    documents: dict[str, Function] = {}
    for each in functions:
        documents.setdefault(each.code, each)
    # Definitions of one name in a file would share an id.
    corpus = list({each.id: each for each in documents.values()}.values())
    alike = Counter(each.question for each in corpus)
    texts = "\0".join(" ".join(each.code.split()) for each in corpus).lower()
    candidates = (
        (CandidateKey(each.package, each.path, each.qualified_name), each)
        for each in corpus
        if each.question
        and alike[each.question] == 1
        and not _NO_SENTENCE.search(each.question)
        and each.question.lower().rstrip(".") not in texts
    )
    asked = [each for each, _ in zip(spread(candidates, _SEED), range(count), strict=False)]
    (folder / "qrels").mkdir(parents=True)
    entries = [{"_id": one.id, "title": "", "text": one.code, "language": one.language} for one in corpus]
    _write_lines(folder / "corpus.jsonl", map(json.dumps, entries))
    queries = [{"_id": f"q{number}", "text": one.question} for number, one in enumerate(asked)]
    _write_lines(folder / "queries.jsonl", map(json.dumps, queries))
    judged = [f"q{number}\t{one.id}\t1" for number, one in enumerate(asked)]
    _write_lines(folder / "qrels" / "test.tsv", ["query-id\tcorpus-id\tscore", *judged])
    return len(corpus), len(asked)


def _write_lines(file: Path, lines: Iterable[str]) -> None:
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def measure(folder: Path, corpus: int, questions: int, changes: Mapping[str, str] | None = None) -> None:
    """Ask the ladder of ``folder``/coir, then the modes of late interaction, and print.

    Args:
        folder: Folder with the data set, which also keeps store and reports.
        corpus: Number of documents.
        questions: Number of questions.
        changes: Settings of the environment beside late interaction.
    """
    settings = {"CODEQUARRY__WARP__ENABLED": "true", **(changes or {})}
    summary = evaluate(folder, settings)
    print(f"\n## CoIR's format: {corpus:,} functions of {len(_PINNED)} packages, {questions} questions\n")
    print(f"| rung | search | {' | '.join(_TITLES)} | NDCG@10 minus the rung before, 95 % |\n|---|---|{'---|' * 5}")
    for rung in summary["ladder"]:
        print(_rung_row(rung, summary), flush=True)
    print("\nEach channel alone:\n")
    _print_runs(summary, ("bm25", "symbol", "splade"), "channel")
    print("\nModes of late interaction (`serving.late_mode`), rung C and rung D:\n")
    print(f"| mode | run | {' | '.join(_TITLES)} | p50 ms |\n|---|---|{'---|' * 5}")
    for mode in MODES:
        changed = {**settings, "CODEQUARRY__SERVING__LATE_MODE": mode}
        found = evaluate(folder, changed, _ABLATED)
        for name in _ABLATED:
            if name in found["runs"]:
                p50 = found["runs"][name]["latency_ms"]["p50"]
                print(f"| {mode} | {name} | {_figures(found, name)} | {p50:.1f} |", flush=True)
    print("\nThe limits of doubt and the numbers of candidates, one by one, rung D:\n")
    print(f"| change | {' | '.join(_TITLES)} | p50 ms |\n|---|{'---|' * 5}")
    for change, limits in LIMITS.items():
        changed = settings | {f"CODEQUARRY__SERVING__{name}": value for name, value in limits.items()}
        found = evaluate(folder, changed, ("hybrid",))
        p50 = found["runs"]["hybrid"]["latency_ms"]["p50"]
        print(f"| {change} | {_figures(found, 'hybrid')} | {p50:.1f} |", flush=True)


def evaluate(folder: Path, settings: Mapping[str, str], channels: Sequence[str] = ()) -> dict[str, Any]:
    """Summary of ``codequarry evaluate`` over ``folder``/coir."""
    out = folder / "report"
    command = [*CODEQUARRY, "evaluate", "--qrels", str(folder / "coir"), "--out", str(out), "--json"]
    command += ["--channels", ",".join(channels)] if channels else []
    places = {f"CODEQUARRY__PATHS__{name.upper()}": str(folder / name) for name in ("store", "work")}
    environment = {**os.environ, **places, **settings}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"codequarry evaluate failed: {done.stderr[-2_000:]}")
    return json.loads(done.stdout)


def _rung_row(rung: Mapping[str, str], summary: Mapping[str, Any]) -> str:
    head = f"| {rung['rung']} | {rung['title']} |"
    if not rung["run"]:
        return f"{head} {' | '.join('' for _ in _TITLES)} | not here: {rung['reason']} |"
    pair = (rung["run"], rung["against"], OVERALL, "ndcg_10")
    said = [
        f"{one['low']:+.3f} to {one['high']:+.3f}"
        for one in summary["differences"]
        if (one["run"], one["against"], one["class"], one["metric"]) == pair
    ]
    return f"{head} {_figures(summary, rung['run'])} | {''.join(said)} |"


def _print_runs(summary: Mapping[str, Any], runs: Iterable[str], head: str) -> None:
    print(f"| {head} | {' | '.join(_TITLES)} |\n|---|{'---|' * 4}")
    for name in runs:
        if name in summary["runs"]:
            print(f"| {name} | {_figures(summary, name)} |")


def _figures(summary: Mapping[str, Any], run: str) -> str:
    figures = summary["runs"][run]["figures"]["all"]
    return " | ".join(f"{figures[name]['mean']:.3f}" for name in _FIGURES)


def main() -> None:
    """Write the data set to a folder, or measure."""
    if len(sys.argv) < 2:
        run()
        return
    corpus, questions = write_collection(Path(sys.argv[1]), functions_of_packages())
    print(f"{corpus:,} documents and {questions} questions in {sys.argv[1]}")


if __name__ == "__main__":
    main()

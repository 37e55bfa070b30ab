"""Questions of `benchmarks/quality/questions`: NDCG@10 of the definitions that answer them, by kind and by repository.

    python -m benchmarks.quality.question_search --repositories FOLDER [--part train] [--worth] [--cross-validate]
        [--out FILE] [--against FILE]

``--repositories`` (or CODEQUARRY_REPOSITORIES): a folder of git clones, as of `benchmarks.quality.repository_search`.
What is not there is fetched at its commit from its address. ``--part``: questions are divided by repository; ``test``
is read once for a change that is done, and nothing is fitted on it. ``--against`` takes the ``--out`` of other code and
says how the two differ, with the 95 % interval of a bootstrap over repositories.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.quality.ranking_parts import Corpus, print_cross_validated, print_worth
from benchmarks.quality.repository_search import RawDescription, bundle_of, clone_of
from benchmarks.report import percentile
from codequarry.pipelines.indexes.ranking_profile import profile_of
from codequarry.pipelines.measure.asking import Asker, engine_over
from codequarry.pipelines.measure.questions import Question, Target
from codequarry.pipelines.measure.ranking_metrics import intervals
from codequarry.pipelines.measure.results import scores_of
from codequarry.schemas.settings.load import Settings, load_settings

QUESTIONS = Path(__file__).resolve().parent / "questions"
HOME = Path(__file__).resolve().parents[2] / ".codequarry" / "bench" / "question-search"
PARTS = ("train", "development", "test")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One question and how it was answered."""

    repo: str
    id: str
    kind: str
    ndcg_10: float
    recall_10: float
    recall_4k: float
    file_10: float
    """1 when a chunk of one of the files is among the first ten."""
    milliseconds: float


def part_of(name: str) -> str:
    """Return the part that a repository's questions belong to: half train, a quarter each of the others.

    >>> [part_of(name) for name in ("okhttp", "rake", "zlib")]
    ['train', 'train', 'train']
    """
    drawn = hashlib.sha256(f"questions {name}".encode()).digest()[0] % 4
    return {0: "test", 1: "development"}.get(drawn, "train")


def read_questions(folder: Path = QUESTIONS) -> list[dict[str, Any]]:
    """Read the files of questions, by name."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]


def asked_of(entry: dict[str, Any]) -> list[Question]:
    """Return the questions of one repository, with the definitions that answer them as targets."""
    return [
        Question(one["id"], one["kind"], one["query"], tuple(_target(place) for place in one["relevant"]))
        for one in entry["questions"]
    ]


def _target(place: dict[str, Any]) -> Target:
    return Target(place["path"], "", place["start_line"] - 1, place["end_line"] - 1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Index what is not indexed yet, ask, and print.

    Returns:
        Exit status: 1 where no repository was here or could be fetched.
    """
    options = _options(arguments)
    settings = load_settings(options.settings)
    outcomes: list[Outcome] = []
    corpora: list[Corpus] = []
    missing: list[str] = []
    for entry in read_questions():
        if part_of(entry["name"]) not in options.part or (options.only and entry["name"] not in options.only):
            continue
        clone = fetched_clone(options.repositories, options.home, entry)
        if clone is None:
            missing.append(entry["name"])
            continue
        place = {"name": entry["name"], "url": entry["url"], "revision": entry["commit"]}
        root = bundle_of(options.home, settings, place, clone, "", fresh=options.fresh)
        questions = asked_of(entry)
        corpora.append((root, questions))
        own = list(ask(root, entry["name"], questions, settings, options.channel))
        print(f"{entry['name']}: {np.mean([one.ndcg_10 for one in own]):.3f}", file=sys.stderr, flush=True)
        outcomes += own
    if not outcomes:
        reason = f"none of these repositories is here or could be fetched: {', '.join(missing)}"
        print(f"No question was asked: {reason if missing else 'these parts have no repository of that name'}.")
        return 1
    _print(outcomes, missing)
    if options.against:
        before = [Outcome(**one) for one in json.loads(options.against.read_text(encoding="utf-8"))]
        _print_difference(outcomes, before)
    if options.worth:
        print_worth(corpora, settings.serving)
    if options.cross_validate:
        print_cross_validated(corpora, settings.serving)
    if options.out:
        options.out.write_text(json.dumps([asdict(one) for one in outcomes], indent=1) + "\n", encoding="utf-8")
    return 0


def run() -> None:
    """Print the tables of the development part."""
    main(["--part", "development"])


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="question_search", description=__doc__, formatter_class=RawDescription)
    given = os.environ.get("CODEQUARRY_REPOSITORIES")
    parser.add_argument("--repositories", type=Path, default=given and Path(given))
    parser.add_argument("--home", type=Path, default=HOME, help="where clones and bundles are kept")
    parser.add_argument("--settings", type=Path, help="settings file (default: dagster_project.toml of this folder)")
    parser.add_argument("--part", action="append", choices=PARTS, help="may be repeated (default: development)")
    parser.add_argument("--channel", default="hybrid", help="ask one channel only")
    parser.add_argument("--only", action="append", help="only this repository; may be repeated")
    parser.add_argument("--worth", action="store_true", help="ask without each part of the ranking as well")
    parser.add_argument(
        "--cross-validate", action="store_true", help="fit a profile to two thirds and ask the rest, three times"
    )
    parser.add_argument("--fresh", action="store_true", help="build every bundle again")
    parser.add_argument("--out", type=Path, help="write the outcome of each question there, as JSON")
    parser.add_argument("--against", type=Path, help="compare with the outcomes that --out of other code wrote")
    options = parser.parse_args(arguments)
    options.part = options.part or ["development"]
    return options


def fetched_clone(folder: Path | None, home: Path, entry: dict[str, Any]) -> Path | None:
    """Return a git folder that has the commit; None where it cannot be fetched."""
    place = {"name": entry["name"], "url": entry["url"], "revision": entry["commit"]}
    for parent in filter(None, (folder, home / "clones")):
        if (clone := clone_of(parent, place)) is not None:
            return clone
    target = home / "clones" / entry["name"]
    subprocess.run(["git", "init", "--quiet", "--bare", target / "repo"], check=True)
    fetched = subprocess.run(
        ["git", "-C", target / "repo", "fetch", "--quiet", "--depth=1", entry["url"], entry["commit"]],
        check=False, capture_output=True, timeout=600, env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
    )  # fmt: skip
    return target / "repo" if fetched.returncode == 0 else None


def ask(root: Path, repo: str, questions: Sequence[Question], settings: Settings, channel: Any) -> Iterator[Outcome]:
    """Ask all questions of one bundle.

    Args:
        root: Bundle root.
        repo: Name of the repository.
        questions: What to ask.
        settings: Settings of the ranking.
        channel: Channel to ask.

    Yields:
        How each was answered.
    """
    with engine_over(root, settings.serving) as engine:
        engine.bundle.rank_by(profile_of(settings))
        answered = Asker(engine).ask("", questions, channel, lambda _: None)
        for number, (question, scores) in enumerate(zip(questions, scores_of(questions, answered), strict=True)):
            files = {target.path for target in question.targets}
            yield Outcome(
                repo, question.id, question.kind, scores.ndcg_10, scores.recall_10, scores.recall_4k,
                float(any(hit.path in files for hit in answered.hits[number][:10])), answered.milliseconds[number],
            )  # fmt: skip


def _print(outcomes: Sequence[Outcome], missing: Sequence[str]) -> None:
    def row(name: str, chosen: Sequence[Outcome]) -> str:
        figures = ((one.ndcg_10, one.recall_10, one.recall_4k, one.file_10) for one in chosen)
        return f"| {name} | {len(chosen)} | " + " | ".join(f"{mean:.3f}" for mean in np.mean(list(figures), 0)) + " |"

    for title, key in (("repository", "repo"), ("kind", "kind")):
        groups: dict[str, list[Outcome]] = defaultdict(list)
        for one in outcomes:
            groups[getattr(one, key)].append(one)
        print(f"\n| {title} | questions | NDCG@10 | R@10 | R@4k | file among ten |\n|---|---|---|---|---|---|")
        for name, chosen in sorted(groups.items()):
            print(row(name, chosen))
    print(row("all", outcomes))
    times = [one.milliseconds for one in outcomes]
    print(f"\nlatency p50 {percentile(times, 0.5):.1f} ms, p95 {percentile(times, 0.95):.1f} ms")
    if missing:
        print(f"left out, the commit is not here and could not be fetched: {', '.join(missing)}")


def _print_difference(after: Sequence[Outcome], before: Sequence[Outcome]) -> None:
    """Print the change of NDCG@10 by kind; repositories are drawn, not questions."""
    old = {one.id: one for one in before}
    changes: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in after:
        if one.id in old:
            for kind in (one.kind, "all"):
                changes[kind][one.repo].append(one.ndcg_10 - old[one.id].ndcg_10)
    print("\n| kind | change of NDCG@10 | 95 % |\n|---|---|---|")
    for kind, by_repo in sorted(changes.items()):
        rows = np.array([[np.mean(values)] for values in by_repo.values()])
        (low,), (high,) = intervals(rows)
        print(f"| {kind} | {rows.mean():+.3f} | {low:+.3f} to {high:+.3f} |")


if __name__ == "__main__":
    sys.exit(main())

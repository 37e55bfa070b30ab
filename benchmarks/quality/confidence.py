"""Confidence of a match: fits it to mined questions, and measures it on other repositories.

    python -m benchmarks.quality.confidence --fit FOLDER --repositories FOLDER [--annotations FOLDER] [--home FOLDER]

``--fit``: a folder of git clones to fit to. ``--repositories``: other clones, those of ``benchmarks/agents/questions``,
to measure on. ``--annotations``: annotated queries for clones of ``--fit``, as `benchmarks.quality.repository_search`
takes them.

Questions are mined from every repository (documentation of functions that is blanked in what is indexed, names, keys,
literals); annotated ones and those of ``benchmarks/agents/questions`` are added. Each is asked of its own repository,
which holds an answer, and `FOREIGN` others of each repository, which mostly holds none. A second index, without the
files that answer half of the questions, is asked those.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.report import Figure, at_least, at_most, print_figures
from codequarry.pipelines.evaluation.mining import index_folder, mine
from codequarry.schemas.settings.load import RepositorySettings, Settings, SourcesSettings
from codequarry.schemas.wire.search import SearchRequest
from codequarry.serving.engine.engine import Engine
from codequarry.serving.ranking.confidence import MOST_TERMS, MatchStrength
from codequarry.serving.tools.search import WEAK_MATCH

PROJECT = Path(__file__).resolve().parents[2]
HOME = PROJECT / ".codequarry" / "bench" / "confidence"
MINED, FOREIGN, FOLDS = 40, 120, 5
OWN, OTHERS, WITHOUT = "its own repository", "another repository", "its own, the answer taken out"


@dataclass(frozen=True, slots=True)
class Ask:
    """A question, and the files that answer it."""

    query: str
    files: frozenset[str]
    written: bool
    """True when a person wrote it, False when it was mined."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A question asked of an index."""

    repo: str
    of: str
    written: bool
    features: tuple[float, float, float]
    """Coverage, logarithm of the number of terms, similarity."""
    low: bool
    """True when its confidence is low."""
    weak: bool
    """True when the answer says that it is weak: its confidence is low, and nothing bears its name."""


def run() -> None:
    """Explain how to run it: it needs clones, which nothing here fetches."""
    print("\n## Confidence\n\nnot measured: python -m benchmarks.quality.confidence --fit FOLDER --repositories FOLDER")


def main() -> None:
    """Index, ask, fit, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fit", type=Path, required=True)
    parser.add_argument("--repositories", type=Path, required=True)
    parser.add_argument("--annotations", type=Path)
    parser.add_argument("--home", type=Path, default=HOME)
    options = parser.parse_args()
    fitted = _outcomes(options.fit, options.home / "fit", lambda name: _annotated(options.annotations, name))
    questions = PROJECT / "benchmarks" / "agents" / "questions" / "questions.jsonl"
    asked = [json.loads(line) for line in questions.read_text("utf-8").splitlines()]
    held_out = _outcomes(
        options.repositories,
        options.home / "held-out",
        lambda name: [
            Ask(one["query"], frozenset(gold["path"] for gold in one["gold"] + one["secondary"]), written=True)
            for one in asked
            if one["repo"] == name
        ],
    )
    for title, columns in (("with similarity", [0, 1, 2]), ("without", [0, 1])):
        _print_fit(title, [one for one in fitted if one.of != WITHOUT], columns)
    _print_weak("questions of the repositories fitted to", fitted)
    _print_weak("questions of other repositories", held_out)


def _annotated(folder: Path | None, name: str) -> list[Ask]:
    file = folder / "annotations" / f"{name}.json" if folder is not None else None
    if file is None or not file.exists():
        return []
    targets = [
        (one["query"], one["relevant"] + one["secondary"]) for one in json.loads(file.read_text(encoding="utf-8"))
    ]
    return [
        Ask(query, frozenset(one if isinstance(one, str) else one["path"] for one in gold), written=True)
        for query, gold in targets
    ]


def _outcomes(clones: Path, home: Path, written: Callable[[str], list[Ask]]) -> list[Outcome]:
    """Mine and index every clone, and ask all questions."""
    asks: dict[str, list[Ask]] = {}
    roots: dict[str, tuple[Path, Path, frozenset[str]]] = {}
    for clone in sorted(one for one in clones.iterdir() if one.is_dir()):
        name, own = clone.name, home / clone.name
        settings = Settings(sources=SourcesSettings(repositories=(RepositorySettings(name=name, path=clone),)))
        mined = mine(settings, own, MINED)
        # A subject of a commit seldom says what the code does.
        asks[name] = [
            Ask(one.query, frozenset(target.path for target in one.targets), written=False)
            for one in mined.questions
            if not one.kind.startswith("B")
        ] + written(name)
        cut, gone = _without_answers(name, own / "repositories" / name, own / "cut", asks[name])
        roots[name] = (mined.root, index_folder(name, cut, settings, own / "without"), gone)
        print(f"{name}: {len(asks[name])} questions", flush=True)
    outcomes: list[Outcome] = []
    for name, (root, cut_root, gone) in roots.items():
        foreign = [ask for other, listed in asks.items() if other != name for ask in listed]
        random.Random(name).shuffle(foreign)
        outcomes += _ask_all(root, name, OWN, asks[name])
        outcomes += _ask_all(root, name, OTHERS, foreign[:FOREIGN])
        outcomes += _ask_all(cut_root, name, WITHOUT, [ask for ask in asks[name] if ask.files <= gone])
    return outcomes


def _without_answers(name: str, source: Path, folder: Path, asks: Sequence[Ask]) -> tuple[Path, frozenset[str]]:
    """Copy a folder without the files that answer about half of the questions."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder / name)
    drawn = list(asks)
    random.Random(name).shuffle(drawn)
    gone = frozenset[str]().union(*(ask.files for ask in drawn[: len(drawn) // 2]))
    for path in gone:
        if (folder / name / path).is_file():
            (folder / name / path).unlink()
    return folder / name, gone


def _ask_all(root: Path, name: str, of: str, asks: Sequence[Ask]) -> Iterator[Outcome]:
    engine = Engine.open(root, Settings().serving)
    try:
        for ask in asks:
            answer = engine.search(SearchRequest(query=ask.query, explain=True))
            if (match := answer.match) is not None:
                length = float(np.log1p(min(match.terms, MOST_TERMS)))
                yield Outcome(
                    name, of, ask.written, (match.coverage, length, match.similarity or 0.0),
                    MatchStrength(match.coverage, match.terms, match.similarity).weak, WEAK_MATCH in answer.limits,
                )  # fmt: skip
    finally:
        engine.close()


def _fit(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Fit a logistic regression by Newton's method; both classes weigh the same, and coefficients are held small.

    Args:
        x: (n, d) features.
        y: (n,) 1 for questions with an answer, 0 for others.

    Returns:
        (1 + d,) the constant, and the coefficients.
    """
    x = np.column_stack([np.ones(len(x)), x])
    weight = np.where(y == 1, len(y) / 2 / y.sum(), len(y) / 2 / (1 - y).sum())
    least, found = np.diag([0.0, *[0.01] * (x.shape[1] - 1)]), np.zeros(x.shape[1])
    for _ in range(30):
        p = 1 / (1 + np.exp(-x @ found))
        step = x.T @ (weight * (y - p)) - least @ found
        found = found + np.linalg.solve((x * (weight * p * (1 - p))[:, None]).T @ x + least, step)
    return found


def _print_fit(title: str, outcomes: Sequence[Outcome], columns: Sequence[int]) -> None:
    """Print the coefficients, and figures of a cross-validation by repository."""
    x = np.array([one.features for one in outcomes])[:, columns]
    y = np.array([float(one.of == OWN) for one in outcomes])
    repos = np.array([one.repo for one in outcomes])
    odds = np.zeros(len(y))
    for fold in range(FOLDS):
        out = np.isin(repos, np.unique(repos)[fold::FOLDS])
        found = _fit(x[~out], y[~out])
        odds[out] = found[0] + x[out] @ found[1:]
    limit = float(np.quantile(odds[y == 1], 0.04))
    ranks = (odds[y == 1][:, None] > odds[y == 0]).mean()
    print(f"\n{title}: coefficients {np.round(_fit(x, y), 2).tolist()}; cross-validated area under the curve "
          f"{ranks:.3f}; 4 of 100 with an answer are below confidence {1 / (1 + np.exp(-limit)):.2f}, and "
          f"{(odds[y == 0] < limit).mean():.0%} of those of other repositories")  # fmt: skip


def _print_weak(title: str, outcomes: Sequence[Outcome]) -> None:
    """Print how many questions are called weak by the program as it is."""

    def share(of: str, *, written: bool | None = None) -> tuple[float, int]:
        chosen = [one.weak for one in outcomes if one.of == of and written in (None, one.written)]
        return 100 * sum(chosen) / max(len(chosen), 1), len(chosen)

    own, count = share(OWN)
    own_written, count_written = share(OWN, written=True)
    others, count_others = share(OTHERS)
    without, count_without = share(WITHOUT)
    unsure = sum(one.low and not one.weak for one in outcomes)
    print_figures(
        f"Weak matches: {title}",
        [
            at_most(f"of {count} with an answer called weak", own, 5, "%"),
            Figure(f"of {count_written} of them that a person wrote", f"{own_written:.1f} %"),
            at_least(f"of {count_others} of other repositories called weak", others, 80, "%"),
            at_least(f"of {count_without} whose files were taken out called weak", without, 80, "%"),
            Figure("low, but a definition bears the name", str(unsure)),
        ],
    )


if __name__ == "__main__":
    main()

"""Worth of each part of the ranking: the profile with one part off, on annotated and on mined questions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from codequarry.pipelines.evaluation.tune_ranking import fit_profile
from codequarry.pipelines.measure.asking import Asker, engine_over
from codequarry.pipelines.measure.questions import Question
from codequarry.pipelines.measure.ranking_metrics import intervals
from codequarry.pipelines.measure.results import scores_of
from codequarry.pipelines.store.workspace import silent
from codequarry.schemas.ranking_profile import BUILT_IN, RankingProfile
from codequarry.schemas.settings.load import ServingSettings
from codequarry.serving.catalog.chunk_arrays import RowIndex
from codequarry.serving.channels.symbol import SymbolChannel
from codequarry.serving.engine.engine import Engine

FIGURES = ("ndcg_10", "recall_4k")


@dataclass(frozen=True)
class Part:
    """One part of the ranking, and how to answer without it."""

    name: str
    profile: RankingProfile = BUILT_IN
    serving: Mapping[str, object] = field(default_factory=dict)
    """Settings that differ."""
    remove: Callable[[Engine], object] = lambda _: None
    """Takes away what neither a profile nor a setting can."""


def parts() -> Iterator[Part]:
    """Every part of the ranking."""
    without: dict[str, Callable[[dict[str, Any]], object]] = {
        "dense channel": lambda raw: _all(raw, "dense", 0),
        "lexical channel": lambda raw: _all(raw, "lexical", 0),
        "definitions' names (chunk and file)": lambda raw: (_all(raw, "symbol", 0), raw["file"].update(symbol=0)),
        # Without any weight nobody would be asked, and files lose their evidence as well.
        "definitions' names for the chunk": lambda raw: _all(raw, "symbol", 1e-9),
        "definitions' names for the file": lambda raw: raw["file"].update(symbol=0),
        "literal match": lambda raw: _all(raw, "literal", 0),
        "field of names": lambda raw: _all(raw, "name_field", 0),
        "field of the path": lambda raw: _all(raw, "path_field", 0),
        "file evidence (chunks alone)": lambda raw: (_all(raw, "file_share", 0), _all(raw, "file_share_long", None)),
        "saturation by file": lambda raw: (_all(raw, "repeat", 1), _all(raw, "repeat_long", None)),
        "length of questions": lambda raw: [
            _all(raw, f"{name}_long", None) for name in ("file_share", "repeat", "form_on_file")
        ],
        "form of chunks": lambda raw: raw["chunk"].update(declaration=1, length=0, comments=1, head=1),
        "declarations": lambda raw: raw["chunk"].update(declaration=1),
        "comments": lambda raw: raw["chunk"].update(comments=1),
        "heads of files": lambda raw: raw["chunk"].update(head=1),
        "tests where they are asked for": lambda raw: raw["factors"].update(no_test=1),
        "second best chunk of a file": lambda raw: _all(raw, "second", 0),
        "words of the file's name": lambda raw: raw["file"].update(name_cover=0),
        "card of the file": lambda raw: raw["file"].update(card=0),
        "path classes": lambda raw: raw["factors"].update(dict.fromkeys(_PATH_CLASSES, 1)),
        **{f"path class {name}": lambda raw, name=name: raw["factors"].update({name: 1}) for name in _PATH_CLASSES},
        "header beside an implementation": lambda raw: raw["factors"].update(header=1),
        "fan-in": lambda raw: _all(raw, "fan_in", 0),
        "size": lambda raw: raw["factors"].update(size=0),
        "classes of queries (all as a topic)": lambda raw: raw.update(
            classes=dict.fromkeys(raw["classes"], raw["classes"]["topic"])
        ),
    }
    for name, remove in without.items():
        raw = BUILT_IN.model_dump()
        remove(raw)
        yield Part(name, RankingProfile.model_validate(raw))
    yield Part("definitions found by words of their names", remove=without_names_by_words)
    yield Part("names one slip away", remove=without_near_names)
    yield Part("fusion by scores (by ranks instead)", serving={"fusion": "weighted_rrf"})


_PATH_CLASSES = ("test", "example", "docs", "generated", "vendored", "stub")


def without_names_by_words(engine: Engine) -> None:
    """Take away what finds names by their words."""
    bundle = engine.bundle
    bundle.channels["symbol"] = SymbolChannel(bundle.catalog, None)


class _Exactly(RowIndex):
    """An index that knows names only as they are written."""

    def near_names(self, key: str) -> list[str]:
        """None."""
        return []


def without_near_names(engine: Engine) -> None:
    """Take away what misspelt names are found by."""
    catalog = engine.bundle.catalog
    catalog.index = _Exactly(**{each.name: getattr(catalog.index, each.name) for each in fields(RowIndex)})


def _all(raw: dict[str, Any], weight: str, value: float | None) -> None:
    for kind in raw["classes"].values():
        kind[weight] = value


Corpus = tuple[Path, Sequence[Question]]
"""A bundle root, and what to ask of it."""


def print_worth(corpora: Sequence[Corpus], serving: ServingSettings) -> None:
    """Print how NDCG@10 and R@4k change without each part: the mean over corpora, and 95 % over questions."""
    asked = [Part(""), *parts()]
    figures: dict[str, list[np.ndarray]] = {part.name: [] for part in asked}
    for root, questions in corpora:
        for part in asked:
            with engine_over(root, serving.model_copy(update=dict(part.serving))) as engine:
                engine.bundle.rank_by(part.profile)
                part.remove(engine)
                figures[part.name].append(figures_of(engine, questions))
    whole = figures.pop("")
    mean = np.mean([each.mean(axis=0) for each in whole], axis=0)
    print(f"\n| without | NDCG@10 {mean[0]:.3f} | 95 % | R@4k {mean[1]:.3f} | 95 % |\n|---|---|---|---|---|")
    for name, found in figures.items():
        print(f"| {name} | {' | '.join(_changes(found, whole))} |", flush=True)


def figures_of(engine: Engine, questions: Sequence[Question]) -> np.ndarray:
    """(n, 2) float64: `FIGURES` of every answer."""
    run = Asker(engine).ask("", questions, "hybrid", lambda _: None)
    return np.array([[getattr(one, figure) for figure in FIGURES] for one in scores_of(questions, run)])


def _changes(found: Sequence[np.ndarray], whole: Sequence[np.ndarray]) -> list[str]:
    """Of each figure the change, mean over corpora, and its interval over questions."""
    change = np.mean([each.mean(axis=0) - own.mean(axis=0) for each, own in zip(found, whole, strict=True)], axis=0)
    low, high = intervals(np.concatenate(found) - np.concatenate(whole))
    return [f"{change[at]:+.3f} | {low[at]:+.3f} to {high[at]:+.3f}" for at in range(len(FIGURES))]


def neutral() -> RankingProfile:
    """A profile that nobody fitted: round numbers, the same for every class of queries."""
    raw = BUILT_IN.model_dump()
    even = {"lexical": 0.5, "dense": 0.5, "symbol": 0.5, "literal": 0.3, "name_field": 0.5, "path_field": 0.5}
    even |= {"second": 0.5, "fan_in": 0.05}
    raw["classes"] = {name: {**even, "file_share": 0.5, "repeat": 0.7, "form_on_file": 0.5} for name in raw["classes"]}
    raw["file"] = dict.fromkeys(raw["file"], 0.3) | {"chunks": 1.0}
    raw["factors"] = dict.fromkeys(raw["factors"], 0.5) | {"size": 0.05}
    del raw["chunk"]
    return RankingProfile.model_validate(raw | {"name": "neutral"})


def print_cross_validated(corpora: Sequence[Corpus], serving: ServingSettings, folds: int = 3) -> None:
    """Fit a neutral profile to all corpora but those of a fold and ask those, for each fold; NDCG@10 over corpora."""
    values: dict[int, float] = {}
    untouched: dict[int, float] = {}
    with ExitStack() as stack:
        engines = [stack.enter_context(engine_over(root, serving)) for root, _ in corpora]

        def ask(at: int, profile: RankingProfile) -> float:
            engines[at].bundle.rank_by(profile)
            questions = corpora[at][1]
            run = Asker(engines[at]).ask("", questions, "hybrid", lambda _: None)
            return float(np.mean([one.ndcg_10 for one in scores_of(questions, run)]))

        for fold in range(folds):
            learned = [at for at in range(len(corpora)) if at % folds != fold]
            fitted = fit_profile(
                neutral(),
                lambda profile, learned=learned: float(np.mean([ask(at, profile) for at in learned])),
                budget_s=3_600,
                progress=silent,
            )
            for at in range(fold, len(corpora), folds):
                values[at], untouched[at] = ask(at, fitted), ask(at, neutral())
            print(f"fold {fold}: {fitted.model_dump_json()}", file=sys.stderr, flush=True)
    print(
        f"\ncross-validated over {folds} folds of repositories: NDCG@10 {np.mean(list(values.values())):.3f}, ", end=""
    )
    print(f"not fitted at all: {np.mean(list(untouched.values())):.3f}")

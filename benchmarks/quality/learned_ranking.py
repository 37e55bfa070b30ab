"""Gain of a learned order of the first fifty chunks: NDCG@10 of `benchmarks/quality/questions`, cross-validated.

    python -m benchmarks.quality.learned_ranking --repositories FOLDER [--part train --part development]

Each candidate has features in four groups: what the explanation says today, the form of the chunk, names that the query
holds, and words that it holds. Orders are fitted to five sixths of the repositories and ask the rest, six times: sums
of functions of one feature each (boosted stumps, so that explanations stay exact), and trees of six leaves. The 95 %
interval is of a bootstrap over repositories. Needs LightGBM.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.quality.question_search import HOME, PARTS, asked_of, fetched_clone, part_of, read_questions
from benchmarks.quality.repository_search import RawDescription, bundle_of
from codequarry.pipelines.indexes.ranking_profile import profile_of
from codequarry.pipelines.measure.asking import engine_over
from codequarry.pipelines.measure.questions import Hit, Question
from codequarry.pipelines.measure.ranking_metrics import intervals, score
from codequarry.schemas.settings.load import Settings, load_settings
from codequarry.schemas.wire.search import TOP_K_MAX, SearchRequest, SearchResult
from codequarry.serving.engine.engine import Engine
from codequarry.serving.text.stems import stem

FOLDS = 6
GROUPS: dict[str, tuple[str, ...]] = {
    "today": (
        "score", "rank", "bm25", "dense", "symbol", "bm25_rank", "dense_rank", "similarity", "chunk", "file",
        "file_chunks", "file_name", "file_card", "file_symbol", "literal", "factors", "repeat", "file_share",
    ),
    "form": ("comment_share", "first_line", "words", "lines", "definitions"),
    "names": ("name_cover", "path_cover", "better_named"),
    "words": ("cover", "window", "rarest_missing", "closer"),
}  # fmt: skip
"""Features by group."""
_COMMENT = re.compile(r'(?:#|//|/\*|\*|--|;;|""")[^\n]*')
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_STOP = frozenset(
    "a an the of to in on is are was be been by for with and or not it its this that these those as at from into when "
    "where what which who how does do did has have had will would can could should if then than so such no any each "
    "all their there here out up they he she we you".split()
)
_WINDOW = 15
"""Words of a window in which words of the query stand together."""


@dataclass(frozen=True)
class Candidates:
    """The chunks that were found for one question."""

    repo: str
    kind: str
    features: np.ndarray
    """(m, f) float64, in the order of `GROUPS`."""
    hits: Sequence[Hit]
    question: Question
    secondary: np.ndarray
    """(m,) bool: chunks that help to answer."""

    def ndcg(self, keys: np.ndarray) -> float:
        """NDCG@10 of the order by falling keys."""
        hits = [self.hits[place] for place in np.argsort(-keys, kind="stable")]
        return score(hits, self.question.targets).ndcg_10

    @property
    def gains(self) -> np.ndarray:
        """(m,) int: 2 for what answers, 1 for what helps, else 0."""
        answers = [any(hit.answers(target) for target in self.question.targets) for hit in self.hits]
        return np.where(answers, 2, self.secondary.astype(int))


class Words:
    """Words of all chunks of a repository, and how rare they are."""

    def __init__(self, engine: Engine) -> None:
        self._catalog, self._directory = engine.bundle.catalog, engine.bundle.directory
        ids = self._directory.chunk_ids.tolist()
        held = Counter[str]()
        for start in range(0, len(ids), 2000):
            for _, text in self._catalog.texts(ids[start : start + 2000]).values():
                held.update({*words_of(text)})
        self.rarity = lambda word: math.log1p((len(ids) - held[word] + 0.5) / (held[word] + 0.5))

    def text(self, result: SearchResult) -> str:
        """Text of the chunk of a result."""
        repo, _, path = result.metadata.uri.partition("/")
        file = self._directory.find(repo, path)
        assert file is not None
        rows = self._directory.rows_in(file)
        starts = [self._catalog.index.numbers(row)["start_byte"] for row in rows]
        chunk = int(self._directory.by_row[rows[starts.index(result.metadata.start_byte)]])
        return self._catalog.texts([chunk])[chunk][1]


def words_of(text: str) -> list[str]:
    """Stems of the pieces of all identifiers, stop words left out.

    >>> words_of("def openIndexes(path): # opens the path")
    ['def', 'open', 'index', 'path', 'open', 'path']
    """
    pieces = (piece.lower() for name in _IDENTIFIER.findall(text) for piece in _PIECE.findall(name))
    return [stem(piece) for piece in pieces if len(piece) > 1 and piece not in _STOP]


def collect(settings: Settings, options: argparse.Namespace) -> Iterator[Candidates]:
    """Ask all questions of the chosen parts; repositories that are not here are named."""
    for entry in read_questions():
        if part_of(entry["name"]) not in options.part:
            continue
        clone = fetched_clone(options.repositories, options.home, entry)
        if clone is None:
            print(f"{entry['name']}: its commit is not here and could not be fetched", file=sys.stderr)
            continue
        place = {"name": entry["name"], "url": entry["url"], "revision": entry["commit"]}
        root = bundle_of(options.home, settings, place, clone, "", fresh=False)
        helping = {one["id"]: one.get("secondary", []) for one in entry["questions"]}
        with engine_over(root, settings.serving) as engine:
            engine.bundle.rank_by(profile_of(settings))
            words = Words(engine)
            for question in asked_of(entry):
                asked = SearchRequest(query=question.query, top_k=TOP_K_MAX, explain=True)
                if results := engine.search(asked).results:
                    yield _candidates(entry["name"], question, results, helping[question.id], words)
        print(entry["name"], file=sys.stderr, flush=True)


def _candidates(
    repo: str, question: Question, results: Sequence[SearchResult], helping: Sequence[Mapping[str, Any]], words: Words
) -> Candidates:
    places = [one.metadata for one in results]
    paths = [place.uri.partition("/")[2] for place in places]
    hits = [Hit(repo, path, place.start_line, place.end_line, 0) for path, place in zip(paths, places, strict=True)]
    secondary = [
        any(
            hit.path == place["path"]
            and hit.start_line < place.get("end_line", math.inf)
            and hit.end_line >= place.get("start_line", 1) - 1
            for place in helping
        )
        for hit in hits
    ]
    rows = [_today(one, rank) | _of_text(one, question.query, words) for rank, one in enumerate(results)]
    for row in rows:
        row["better_named"] = sum(other["name_cover"] > row["name_cover"] for other in rows)
        row["closer"] = sum(other["window"] > row["window"] for other in rows)
    names = [name for group in GROUPS.values() for name in group]
    features = np.array([[row[name] for name in names] for row in rows], np.float64)
    return Candidates(repo, question.kind, features, hits, question, np.array(secondary, np.bool_))


def _today(result: SearchResult, rank: int) -> dict[str, float]:
    explain = result.metadata.explain
    scoring = explain.scoring
    assert scoring is not None
    product = math.prod(scoring.factors.values())
    form = math.prod(scoring.form.values())
    values = {name: found.value for name, found in explain.channels.items()}
    ranks = {name: math.log(found.rank) for name, found in explain.channels.items()}
    chunk = sum(found.value * found.weight for found in (*explain.channels.values(), *scoring.chunk.values()))
    file = {name: found.value for name, found in scoring.file.items()}
    similarity = explain.channels["faiss"].score if "faiss" in explain.channels else 0.0
    never = math.log(300)
    return {
        "score": result.score, "rank": rank, "bm25": values.get("bm25", 0), "dense": values.get("faiss", 0),
        "symbol": values.get("symbol", 0), "bm25_rank": ranks.get("bm25", never),
        "dense_rank": ranks.get("faiss", never), "similarity": similarity,
        "chunk": chunk * product * form / max(scoring.best_chunk, 1e-9),
        "file": sum(found.value * found.weight for found in scoring.file.values()) * product
        / max(scoring.best_file, 1e-9),
        **{f"file_{name}": file.get(key, 0.0) for name, key in
           (("chunks", "chunks"), ("name", "name_cover"), ("card", "card"), ("symbol", "symbol"))},
        "literal": scoring.chunk["literal"].value if "literal" in scoring.chunk else 0.0,
        "factors": product * form, "repeat": scoring.repeat, "file_share": scoring.file_share,
    }  # fmt: skip


def _of_text(result: SearchResult, query: str, words: Words) -> dict[str, float]:
    text, metadata = words.text(result), result.metadata
    held, asked = words_of(text), list(dict.fromkeys(words_of(query)))
    rarity = {word: words.rarity(word) for word in asked}
    whole = sum(rarity.values()) or 1.0

    def cover(found: Iterable[str]) -> float:
        return sum(rarity[word] for word in {*found} & rarity.keys()) / whole

    rarest = sorted(asked, key=lambda word: -rarity[word])[:3]
    return {
        "comment_share": min(len(words_of("\n".join(_COMMENT.findall(text)))) / max(len(held), 1), 1.0),
        "first_line": math.log1p(metadata.start_line), "words": math.log1p(len(held)),
        "lines": math.log1p(text.count("\n")), "definitions": sum(metadata.explain.kinds.values()),
        "name_cover": cover(words_of(" ".join(metadata.symbols))), "path_cover": cover(words_of(metadata.uri)),
        "cover": cover(held), "window": max((cover(near) for near in _windows(held, rarity.keys())), default=0.0),
        "rarest_missing": sum(rarity[word] for word in rarest if word not in held)
        / max(sum(rarity[word] for word in rarest), 1e-9),
    }  # fmt: skip


def _windows(held: Sequence[str], wanted: Iterable[str]) -> Iterator[list[str]]:
    """Yield the words behind each place that holds a word of the query, that word first."""
    known = {*wanted}
    places = (place for place, word in enumerate(held) if word in known)
    return (list(held[place : place + _WINDOW]) for place in places)


def cross_validated(
    questions: Sequence[Candidates], columns: Sequence[int], parameters: Mapping[str, object]
) -> list[float]:
    """Return the NDCG@10 of every question by an order that was fitted to other repositories."""
    import lightgbm  # pyright: ignore[reportMissingImports]

    names = sorted({one.repo for one in questions})
    fold_of = {name: place % FOLDS for place, name in enumerate(np.random.default_rng(0).permutation(names).tolist())}
    found = [0.0] * len(questions)
    for fold in range(FOLDS):
        train = [one for one in questions if fold_of[one.repo] != fold]
        data = lightgbm.Dataset(
            np.vstack([one.features[:, columns] for one in train]),
            np.concatenate([one.gains for one in train]),
            group=[len(one.hits) for one in train],
        )
        fixed = {"objective": "lambdarank", "lambdarank_truncation_level": 12, "verbose": -1, "seed": 0}
        model = lightgbm.train({**fixed, "min_data_in_leaf": 50, **parameters}, data, 300)
        for place, one in enumerate(questions):
            if fold_of[one.repo] == fold:
                found[place] = one.ndcg(np.asarray(model.predict(one.features[:, columns])))
    return found


def compare(questions: Sequence[Candidates]) -> None:
    """Print the table: mean of NDCG@10 by kind, and the change over today's order with its interval."""
    today = [one.ndcg(-one.features[:, 1]) for one in questions]
    kinds = sorted({one.kind for one in questions})
    print(f"\n| order | all | change, 95 % | {' | '.join(kinds)} |\n|---|---|---|{'---|' * len(kinds)}")

    def row(name: str, values: Sequence[float]) -> None:
        by_kind, by_repo = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
        for one, value, before in zip(questions, values, today, strict=True):
            by_kind[one.kind].append(value)
            by_repo[one.repo].append(value - before)
        changes = np.array([[np.mean(each)] for each in by_repo.values()])
        (low,), (high,) = intervals(changes)
        figures = " | ".join(f"{np.mean(by_kind[kind]):.3f}" for kind in kinds)
        print(f"| {name} | {np.mean(values):.3f} | {changes.mean():+.3f}, {low:+.3f} to {high:+.3f} | {figures} |")

    row("today's", today)
    if find_spec("lightgbm") is None:
        print("fitted orders are not compared: LightGBM is not installed (pip install lightgbm)")
        return
    stumps, trees = {"num_leaves": 2, "learning_rate": 0.1}, {"num_leaves": 6, "learning_rate": 0.05}
    columns: list[int] = []
    start, said = 0, ""
    for group, names in GROUPS.items():
        columns += range(start, start + len(names))
        start += len(names)
        said = f"{said} + {group}" if said else group
        row(f"sum of functions of {said}", cross_validated(questions, columns, stumps))
    row("trees of six leaves over all", cross_validated(questions, columns, {**trees, "feature_fraction": 0.5}))


def main(arguments: Sequence[str] | None = None) -> None:
    """Collect what is not kept, and compare."""
    parser = argparse.ArgumentParser(prog="learned_ranking", description=__doc__, formatter_class=RawDescription)
    given = os.environ.get("CODEQUARRY_REPOSITORIES")
    parser.add_argument("--repositories", type=Path, default=given and Path(given))
    parser.add_argument("--home", type=Path, default=HOME, help="where clones and bundles are kept")
    parser.add_argument("--part", action="append", choices=PARTS, help="may be repeated (default: train, development)")
    options = parser.parse_args(arguments)
    options.part = options.part or ["train", "development"]
    questions = list(collect(load_settings(), options))
    if not questions:
        raise SystemExit("no repository with its commit was found or could be fetched")
    compare(questions)


if __name__ == "__main__":
    main()

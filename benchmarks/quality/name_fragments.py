"""Fragments of names as questions: mined identifiers of which a word or some letters are left out."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from benchmarks.quality.ranking_parts import Corpus
from benchmarks.report import percentile
from codequarry.pipelines.measure.asking import Asker, engine_over
from codequarry.pipelines.measure.name_questions import IDENTIFIER
from codequarry.pipelines.measure.questions import Question
from codequarry.pipelines.measure.results import scores_of
from codequarry.schemas.settings.load import ServingSettings
from codequarry.serving.catalog.chunk_arrays import ChunkRows
from codequarry.serving.text.analyzer import words

_SHORTEST = 5


def _without_first_word(name: str, _: random.Random) -> str:
    return name[list(words(name))[1].start :]


def _without_last_word(name: str, _: random.Random) -> str:
    return name[: list(words(name))[-1].start].rstrip("_")


def _cut_in_last_word(name: str, draw: random.Random) -> str:
    start = list(words(name))[-1].start
    return name[: draw.randrange(start + 1, len(name))] if len(name) - start > 2 else name


def _from_amid(name: str, draw: random.Random) -> str:
    length = max(_SHORTEST, 2 * len(name) // 3)
    at = draw.randrange(max(1, len(name) - length + 1))
    return name[at : at + length].strip("_")


CUTS: dict[str, Callable[[str, random.Random], str]] = {
    "its first word left out": _without_first_word,
    "its last word left out": _without_last_word,
    "its last word cut short": _cut_in_last_word,
    "two thirds of its letters": _from_amid,
}


def fragments(questions: Sequence[Question], names: Iterable[str], seed: int) -> list[Question]:
    """Ask for every identifier by its fragments, as far as no other definition's name holds them.

    Args:
        questions: Mined questions, of which those for identifiers are taken.
        names: Names of all definitions, each once.
        seed: Seed of the drawing.

    Returns:
        Questions whose kind says how the name was cut.
    """
    draw, lower = random.Random(seed), {name.lower() for name in names}
    asked: list[Question] = []
    for question in questions:
        if question.kind == IDENTIFIER and len(list(words(question.query))) > 1:
            for kind, cut in CUTS.items():
                part = cut(question.query, draw)
                held = sum(part.lower() in name for name in lower)
                if held == 1 and _SHORTEST <= len(part) < len(question.query):
                    asked.append(question._replace(kind=kind, query=part))
    return asked


def _names(index: ChunkRows) -> Iterator[str]:
    """Yield the names of all definitions, each once."""
    for number in np.unique(index.column("name", index.definitions_in(index.ids))).tolist():
        yield index.texts[number]


def print_fragments(corpora: Sequence[Corpus], serving: ServingSettings, seed: int) -> None:
    """Print NDCG@10 and latency of fragments of names."""
    found: dict[str, list[tuple[float, float]]] = {}
    for root, questions in corpora:
        with engine_over(root, serving) as engine:
            asked = fragments(questions, _names(engine.bundle.catalog.index), seed)
            run = Asker(engine).ask("", asked, "hybrid", lambda _: None)
            for question, scores, spent in zip(asked, scores_of(asked, run), run.milliseconds, strict=True):
                for kind in (question.kind, "all"):
                    found.setdefault(kind, []).append((scores.ndcg_10, spent))
    print("\n| fragment of an identifier | questions | NDCG@10 | p50 / p95 ms |\n|---|---|---|---|")
    for kind, rows in found.items():
        times = [spent for _, spent in rows]
        spans = " / ".join(f"{percentile(times, share):.1f}" for share in (0.5, 0.95))
        print(f"| {kind} | {len(rows)} | {np.mean([score for score, _ in rows]):.3f} | {spans} |")

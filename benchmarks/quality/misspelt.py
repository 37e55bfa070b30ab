"""Worth and cost of the look-ups of names written otherwise: mined identifiers, misspelt or in another style."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.quality.ranking_parts import Corpus, without_names_by_words, without_near_names
from benchmarks.report import percentile
from codequarry.pipelines.measure.asking import Asker, engine_over
from codequarry.pipelines.measure.name_questions import IDENTIFIER
from codequarry.pipelines.measure.questions import Question
from codequarry.pipelines.measure.ranking_metrics import intervals
from codequarry.pipelines.measure.results import scores_of
from codequarry.schemas.settings.load import ServingSettings
from codequarry.serving.engine.engine import Engine
from codequarry.serving.text.analyzer import identifier_parts

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _too_few(name: str, draw: random.Random) -> str:
    at = draw.randrange(len(name))
    return name[:at] + name[at + 1 :]


def _too_many(name: str, draw: random.Random) -> str:
    at = draw.randrange(len(name) + 1)
    return name[:at] + draw.choice(_LETTERS) + name[at:]


def _another(name: str, draw: random.Random) -> str:
    at = draw.randrange(len(name))
    return name[:at] + draw.choice(_LETTERS.replace(name[at].lower(), "")) + name[at + 1 :]


def _swapped(name: str, draw: random.Random) -> str:
    at = draw.choice([at for at in range(len(name) - 1) if name[at] != name[at + 1]])
    return name[:at] + name[at + 1] + name[at] + name[at + 2 :]


_SLIPS: dict[str, Callable[[str, random.Random], str]] = {
    "a letter too few": _too_few,
    "a letter too many": _too_many,
    "another letter": _another,
    "two letters swapped": _swapped,
}


def in_another_convention(name: str) -> str:
    """``open_index`` for ``openIndex``, and the other way round. name: of more than one word."""
    first, *rest = identifier_parts(name)
    return first + "".join(map(str.capitalize, rest)) if "_" in name.strip("_") else "_".join((first, *rest))


def slips_of(name: str, draw: random.Random) -> dict[str, str]:
    """A name of more than one word, once with each slip."""
    return {kind: slip(name, draw) for kind, slip in _SLIPS.items()}


def spellings_of(name: str, draw: random.Random) -> dict[str, str]:
    """The same and the name in another convention, alone and in a question."""
    other = in_another_convention(name)
    return {
        **slips_of(name, draw),
        "another convention": other,
        "another convention, in a question": f"where is {other} used",
    }


def misspelt(questions: Sequence[Question], seed: int) -> list[Question]:
    """Every question for an identifier, once with each spelling; its kind is how it is spelt."""
    draw = random.Random(seed)
    return [
        question._replace(kind=kind, query=query)
        for question in questions
        if question.kind == IDENTIFIER
        for kind, query in spellings_of(question.query, draw).items()
    ]


def _without_both(engine: Engine) -> None:
    without_near_names(engine)
    without_names_by_words(engine)


def print_misspelt(corpora: Sequence[Corpus], serving: ServingSettings, seed: int) -> None:
    """Print NDCG@10 and latency of misspelt names, with what finds them and without."""
    ways: dict[str, Callable[[Engine], object]] = {"with": lambda _: None, "without": _without_both}
    found: dict[str, dict[str, list[tuple[float, float]]]] = {way: {} for way in ways}
    for root, questions in corpora:
        asked = misspelt(questions, seed)
        for way, prepare in ways.items():
            with engine_over(root, serving) as engine:
                prepare(engine)
                run = Asker(engine).ask(way, asked, "hybrid", lambda _: None)
                scored = zip(asked, scores_of(asked, run), run.milliseconds, strict=True)
                for question, scores, spent in scored:
                    for kind in (question.kind, "all"):
                        found[way].setdefault(kind, []).append((scores.ndcg_10, spent))
    print("\n| identifier with | questions | NDCG@10 with the look-ups | without | difference, 95 % | p50 / p95 ms |")
    print("|---|---|---|---|---|---|")
    for kind in found["with"]:
        rows = {way: np.array(found[way][kind]) for way in ways}
        gains = rows["with"][:, 0] - rows["without"][:, 0]
        if kind == "all":  # spellings of one name are no questions of their own
            gains = gains.reshape(-1, len(found["with"]) - 1).mean(axis=1)
        (low,), (high,) = intervals(gains[:, None])
        means = [f"{rows[way][:, 0].mean():.3f}" for way in ways]
        times = [" / ".join(f"{percentile(rows[way][:, 1].tolist(), p):.1f}" for p in (0.5, 0.95)) for way in ways]
        cells = [*means, f"{low:+.3f} to {high:+.3f}", f"{times[0]} ({times[1]} without)"]
        print(f"| {kind} | {len(rows['with'])} | {' | '.join(cells)} |")

"""The score of a result as the parts that add up to it, for a bar."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from codequarry.schemas.wire.search import Explain

_OF_CHANNEL = {
    "faiss": "meaning", "faiss2": "meaning, second encoder", "bm25": "words", "symbol": "name of the definition",
    "warp": "meaning, token for token", "splade": "weighed words",
}  # fmt: skip
_OF_CHUNK = {"literal": "stands word for word", "names": "names of its definitions"}
_OF_FILE = {
    "chunks": "best chunks of the file", "name_cover": "name of the file", "card": "meaning of the file",
    "symbol": "a definition in the file", "literal": "the file holds it word for word",
}  # fmt: skip
_LEAST = 0.005
"""Parts below this are not drawn."""


@dataclass(frozen=True, slots=True)
class ScorePart:
    """Something that a result has its score from."""

    name: str
    of: str
    """``channel``, ``chunk`` or ``file``: the class in style.css."""
    value: float
    weight: float
    adds: float
    """Amount of the score that it makes; negative where it takes away."""


def score_parts(explain: Explain) -> list[ScorePart]:
    """Return the parts of a score, the largest first.

    Args:
        explain: Explanation of the result.

    Returns:
        Parts that add up to the score; none where there was no room for the explanation.
    """
    return sorted((part for part in _parts(explain) if abs(part.adds) >= _LEAST), key=lambda part: -part.adds)


def _parts(explain: Explain) -> Iterator[ScorePart]:
    scoring = explain.scoring
    if scoring is None:
        return
    factor = scoring.repeat * scoring.reranked * prod(scoring.factors.values())
    form = prod(scoring.form.values())
    of_chunk = factor * form * (1 - scoring.file_share) / scoring.best_chunk if scoring.best_chunk else 0.0
    of_file = factor * form**scoring.form_on_file
    of_file *= scoring.file_share / scoring.best_file if scoring.best_file else 0.0
    for name, each in explain.channels.items():
        shown = _OF_CHANNEL.get(name, name)
        yield ScorePart(shown, "channel", each.value, each.weight, each.value * each.weight * of_chunk)
    for name, each in scoring.chunk.items():
        shown = _OF_CHUNK.get(name, name)
        yield ScorePart(shown, "chunk", each.value, each.weight, each.value * each.weight * of_chunk)
    for name, each in scoring.file.items():
        shown = _OF_FILE.get(name, name)
        yield ScorePart(shown, "file", each.value, each.weight, each.value * each.weight * of_file)

"""Batches of pairs whose members are hard to tell apart: of one language, of few packages, alike in length."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from codequarry.pipelines.adapt.pairs import Row
from tools.train_encoder.corpus import rows_of

_SHARES = {"doc": 0.7, "name": 0.15, "block": 0.15}
"""Shares of the kinds of pairs."""
_RUN = 32
"""Pairs of one package that stay together."""
_SLAB = 8
"""Batches whose pairs are sorted by length before they are divided."""


@dataclass(frozen=True, slots=True)
class TokenLists:
    """Tokens of n texts, one after the other."""

    ids: np.ndarray
    """(t,) uint16."""
    starts: np.ndarray
    """(n + 1,) int64."""

    @classmethod
    def of(cls, tokenizer: Tokenizer, texts: Sequence[str], limit: int) -> TokenLists:
        """Cut texts into tokens, at most ``limit`` of each."""
        tokenizer.enable_truncation(limit)
        tokenizer.no_padding()
        found = [each.ids for each in tokenizer.encode_batch(list(texts))]
        ids = np.fromiter((one for each in found for one in each), np.uint16)
        return cls(ids, np.cumsum([0, *map(len, found)], dtype=np.int64))

    def padded(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the tokens of some texts, (n, t) int64 with zeros behind each, and their numbers, (n,) int64."""
        lengths = self.starts[rows + 1] - self.starts[rows]
        table = np.zeros((len(rows), int(lengths.max())), np.int64)
        for row, (start, length) in enumerate(zip(self.starts[rows], lengths, strict=True)):
            table[row, :length] = self.ids[start : start + length]
        return table, lengths


def draw(tables: Mapping[str, Path], apart: Sequence[Path], count: int, seed: int) -> list[Row]:
    """Draw pairs of all languages, by turns of packages, in runs of one package and language.

    Args:
        tables: Tables of pairs by package.
        apart: Tables of packages whose code and texts must not be among them.
        count: Number of pairs; fewer when fewer exist.
        seed: Seed of the drawing.

    Returns:
        The pairs, those of a language one after the other.
    """
    drawn = random.Random(seed)
    seen = {text for table in apart for row in rows_of(table) for text in (row.code, row.text)}
    found: dict[tuple[str, str], dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for key in sorted(tables):
        for row in rows_of(tables[key]):
            if row.code not in seen and (row.kind == "name" or row.text not in seen):
                seen.add(row.code)
                found[row.lang, row.kind][key].append(row)
    languages = sorted({lang for lang, _ in found})
    shares = {
        kind: _shared([sum(map(len, found[lang, kind].values())) for lang in languages], round(count * share))
        for kind, share in _SHARES.items()
    }
    chosen: list[Row] = []
    for number, lang in enumerate(languages):
        runs: list[list[Row]] = []
        for kind in _SHARES:
            packages = [drawn.sample(rows, len(rows)) for _, rows in sorted(found[lang, kind].items())]
            runs += _runs(packages, shares[kind][number])
        chosen += [row for run in drawn.sample(runs, len(runs)) for row in run]
    return chosen


def _shared(available: list[int], count: int) -> list[int]:
    """Divide a number as equally as what is available of each allows.

    >>> _shared([10, 2, 50], 30)
    [10, 2, 18]
    """
    taken = [0] * len(available)
    left = count
    open_places = sorted(range(len(available)), key=available.__getitem__)
    while open_places:
        place = open_places.pop(0)
        taken[place] = min(available[place], left // (len(open_places) + 1))
        left -= taken[place]
    return taken


def _runs(packages: list[list[Row]], count: int) -> list[list[Row]]:
    """Return runs of one package each, by turns of packages, ``count`` pairs in all."""
    runs: list[list[Row]] = []
    start, left = 0, count
    while packages and left > 0:
        for rows in packages:
            run = rows[start : start + min(_RUN, left)]
            left -= len(run)
            runs += [run] if run else []
            if left <= 0:
                break
        start += _RUN
        packages = [rows for rows in packages if len(rows) > start]
    return runs


def batches(rows: Sequence[Row], codes: TokenLists, size: int, seed: int) -> Iterator[np.ndarray]:
    """Yield batches of one language each, in an order drawn by chance; what is left over of a language is left out.

    Args:
        rows: Pairs, those of a language one after the other.
        codes: Tokens of their code.
        size: Pairs of a batch.
        seed: Seed of the order.

    Yields:
        (size,) int64 numbers of pairs.
    """
    lengths = np.diff(codes.starts)
    of_language: dict[str, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        of_language[row.lang].append(number)
    made: list[np.ndarray] = []
    for numbers in of_language.values():
        for start in range(0, len(numbers), size * _SLAB):
            slab = np.array(numbers[start : start + size * _SLAB])
            slab = slab[np.argsort(lengths[slab], kind="stable")]
            made += [slab[first : first + size] for first in range(0, len(slab) - size + 1, size)]
    yield from random.Random(seed).sample(made, len(made))

"""Ranking: merges the candidates of all channels into one order of chunks, by the version's profile.

======= ==========================================================================================================
chunk   sum over channels of weight * value, and of the chunk's own evidence, times the factors of its file
file    sum of weight * value over the evidence that the file is meant, times the same factors
form    product of the factors of the chunk by its form
score   (file_share * file / best file * form ** form_on_file + (1 - file_share) * chunk / best chunk * form)
        * repeat ** j, where j counts the better chunks of the same file
score   times reranked, where a language model was asked: it deals the same scores out in its own order
======= ==========================================================================================================

Every number of it is in the `Scored` of a result, and `Scored.recomputed` gives the score again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Self

import numpy as np

from codequarry.schemas.bundle.layout import DENSE_LEGS
from codequarry.schemas.ranking_profile import ClassProfile
from codequarry.serving.channels.base import Candidates
from codequarry.serving.channels.fusion import Pool, common_scores, pool
from codequarry.serving.ranking.chunk_evidence import RankedChunks
from codequarry.serving.ranking.file_evidence import RankedFiles
from codequarry.serving.ranking.verbatim import literal_value, quotation_strength
from codequarry.serving.text.query_classes import NAMES, Query

SPLADE_PRIOR = 0.9
"""Weight of learned sparse retrieval relative to the dense channel, before tuning."""
_BY_NAME = NAMES | {"path"}
"""Classes of queries that ask for something by its name, whatever form it has."""
_FILES_BY_EVIDENCE = 10
"""Number of files considered by name although none of their chunks was found."""
_NAMED = 100
"""Number of chunks, the best by the text channels, whose names are compared with the query."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """Contribution of one channel to a result."""

    rank: int
    """1-based; 0 when the channel did not find it."""
    score: float
    value: float
    weight: float


@dataclass(frozen=True, slots=True)
class WeightedValue:
    """Value in [0, 1] and its weight."""

    value: float
    weight: float


@dataclass(frozen=True, slots=True)
class Scored:
    """One chunk in the order, and all parts of its score."""

    chunk_id: int
    score: float
    channels: dict[str, Contribution]
    chunk: dict[str, WeightedValue]
    file: dict[str, WeightedValue]
    factors: dict[str, float]
    """Those of the file, by rule."""
    form: dict[str, float]
    """Those of the chunk by its form, by rule."""
    form_on_file: float
    """Power with which the form weighs on the share of the file."""
    file_share: float
    best_chunk: float
    best_file: float
    repeat: float
    reranked: float = 1.0
    """Factor that a language model's order applied to the score."""
    fused_place: int = 0
    """1-based place before a language model ordered the first results; 0 where none did."""

    def recomputed(self) -> float:
        """Compute the score from its parts."""
        return _score_of(*self.shares(), self.best_file, self.best_chunk) * self.repeat * self.reranked

    def shares(self) -> tuple[float, float]:
        """Return the shares of file and chunk in the score, before they are divided by the best ones."""
        factor, form = prod(self.factors.values()), prod(self.form.values())
        chunk = sum(part.value * part.weight for part in self.channels.values())
        chunk += sum(each.value * each.weight for each in self.chunk.values())
        file = sum(each.value * each.weight for each in self.file.values())
        return self.file_share * file * factor * form**self.form_on_file, (1 - self.file_share) * chunk * factor * form

    @property
    def leader(self) -> str:
        """Channel that contributed most, the first by name among equals; "" when none found the chunk."""
        found = [name for name, part in self.channels.items() if part.rank]
        return min(found, key=lambda name: (-self.channels[name].value * self.channels[name].weight, name), default="")


@dataclass(frozen=True, slots=True)
class CommonScale:
    """Figures of all bundles that a query is asked of, so that scores of each are on the scale of one bundle."""

    scores: Mapping[str, np.ndarray]
    """Scores of all candidates by channel, descending."""
    cards: np.ndarray
    """(m,) float32: the largest similarities of file summaries."""
    names_repository: bool
    """The query names a repository of one of them."""

    @classmethod
    def of(cls, query: Query, answers: Mapping[str, Candidates], files: RankedFiles) -> Self:
        """Collect the figures of one bundle.

        Args:
            query: Analyzed query.
            answers: Candidates by channel.
            files: Its files.

        Returns:
            The figures.
        """
        scores = {name: found.scores.astype(np.float64) for name, found in answers.items()}
        return cls(scores, files.nearest_cards(_vector_of(answers)), files.names_any(query))

    @classmethod
    def total(cls, parts: Sequence[CommonScale]) -> Self:
        """Return the figures of several bundles together."""
        cards = [np.empty(0, np.float32), *(part.cards for part in parts)]
        scores = common_scores([part.scores for part in parts])
        return cls(scores, np.concatenate(cards), any(part.names_repository for part in parts))


@dataclass(frozen=True, slots=True)
class Placed:
    """A chunk in the ranking of its version, with what merges rankings, and without the explanation of its score."""

    version: int
    """Number of the version among those that are searched."""
    chunk_id: int
    score: float
    of_file: float
    """Share of its file in the score, before it is divided by the best file's."""
    of_chunk: float
    """Its own share, before it is divided by the best chunk's."""
    best_chunk: float
    best_file: float
    repeat: float
    name: float
    """Score of the channel of names; -1 when that did not find it."""
    reranked: float = 1.0
    fused_place: int = 0

    @classmethod
    def of(cls, version: int, one: Scored) -> Self:
        """Return the place of a scored chunk."""
        of_file, of_chunk = one.shares()
        symbol = one.channels.get("symbol")
        name = -1.0 if symbol is None else symbol.score
        return cls(version, one.chunk_id, one.score, of_file, of_chunk, one.best_chunk, one.best_file, one.repeat, name)

    def among(self, best_chunk: float, best_file: float) -> Self:
        """Return the place among chunks and files of which these are the best."""
        score = _score_of(self.of_file, self.of_chunk, best_file, best_chunk) * self.repeat * self.reranked
        return replace(self, best_chunk=best_chunk, best_file=best_file, score=score)

    def shift(self, by: int) -> Self:
        """Return the place with another number of its version, larger by ``by``."""
        return replace(self, version=self.version + by)

    def explained_by(self, one: Scored) -> Scored:
        """Return the parts of the score, as they are here."""
        return replace(
            one,
            score=self.score,
            best_chunk=self.best_chunk,
            best_file=self.best_file,
            reranked=self.reranked,
            fused_place=self.fused_place,
        )


def merge_rankings(rankings: Sequence[Sequence[Placed]]) -> list[Placed]:
    """Merge rankings that are on a `CommonScale` into one.

    Args:
        rankings: Chunks of each version, best first.

    Returns:
        Chunks, best first, as if one version held all.
    """
    if len(rankings) == 1:
        return list(rankings[0])
    best_chunk = max((one[0].best_chunk for one in rankings if one), default=0.0)
    best_file = max((one[0].best_file for one in rankings if one), default=0.0)
    merged = [one.among(best_chunk, best_file) for ranking in rankings for one in ranking]
    return sorted(merged, key=lambda each: (-each.score, each.chunk_id))


def _score_of(of_file: float, of_chunk: float, best_file: float, best_chunk: float) -> float:
    return (of_file / best_file if best_file else 0.0) + (of_chunk / best_chunk if best_chunk else 0.0)


def _vector_of(answers: Mapping[str, Candidates]) -> np.ndarray | None:
    return answers["faiss"].vector if "faiss" in answers else None


def channel_weights(kind: ClassProfile, multipliers: Mapping[str, float]) -> dict[str, float]:
    """Return the weight of each channel for a class of queries; dense channels share theirs.

    Args:
        kind: Profile of the query's class.
        multipliers: Multipliers of the settings for the available channels, in the order in which they are searched.

    Returns:
        Weights by channel.
    """
    legs = sum(name in DENSE_LEGS for name in multipliers)
    own = {"bm25": kind.lexical, "symbol": kind.symbol, "warp": kind.late}
    own["splade"] = SPLADE_PRIOR * kind.dense
    own |= dict.fromkeys(DENSE_LEGS, kind.dense / max(legs, 1))
    return {name: own[name] * multiplier for name, multiplier in multipliers.items()}


def rank_alone(
    answer: Candidates, name: str, *, method: str, k: float, common: CommonScale | None = None
) -> list[Scored]:
    """Return the order of one channel, unchanged."""
    candidates = pool({name: answer}, method=method, k=k, among=None if common is None else common.scores)
    best = float(candidates.values[name].max(initial=0.0))
    order = np.searchsorted(candidates.chunk_ids, answer.chunk_ids).tolist()
    parts = [_parts(candidates, row, {name: 1.0}) for row in order]
    return [
        Scored(
            int(candidates.chunk_ids[row]),
            part[name].value / best if best else 0.0,
            part,
            {},
            {},
            {},
            {},
            0.0,
            0.0,
            best,
            0.0,
            1.0,
        )
        for row, part in zip(order, parts, strict=True)
    ]


def rank(
    query: Query,
    answers: Mapping[str, Candidates],
    weights: Mapping[str, float],
    files: RankedFiles,
    chunks: RankedChunks,
    *,
    phrases: np.ndarray,
    allowed: np.ndarray | None,
    method: str,
    k: float,
    limit: int,
    common: CommonScale | None = None,
) -> list[Scored]:
    """Rank the candidates of all channels.

    Args:
        query: Analyzed query.
        answers: Candidates of every channel that was searched, even if empty.
        weights: Weights by channel.
        files: Files of the version.
        chunks: Chunks of the version.
        phrases: (m,) int64, sorted: chunks that hold the query's words one after the other.
        allowed: (m,) int64, sorted: only these may be returned; None for all.
        method: See `pool`.
        k: See `pool`.
        limit: Most chunks to return.
        common: Figures of all bundles that are asked; None for a bundle alone.

    Returns:
        The best chunks, best first.
    """
    kind = files.profile.classes[query.kind].for_length(len(query.stems))
    evidence = files.evidence(query, _vector_of(answers), None if common is None else common.cards)
    others = files.of_other_repositories(query, elsewhere=common is not None and common.names_repository)
    products = files.factors(kind, others, for_tests=query.asks_for_tests)
    extra = _of_named_files(files, evidence, products, allowed)
    if len(phrases):
        extra = np.union1d(extra, phrases if allowed is None else np.intersect1d(phrases, allowed))
    candidates = pool(answers, method=method, k=k, extra=extra, among=None if common is None else common.scores)
    if not len(candidates.chunk_ids):
        return []
    file_of = files.files_of(candidates.chunk_ids)
    held = np.isin(candidates.chunk_ids, phrases).astype(np.float64)
    symbol = candidates.values.get("symbol", np.zeros(len(file_of)))
    names_found = symbol if common is None else common.scores.get("symbol", symbol)
    quoted = quotation_strength(query, len(phrases), float(names_found.max(initial=0.0)))
    literal = held * literal_value(quoted)
    text = sum(
        (values * weights[name] for name, values in candidates.values.items() if name != "symbol"),
        np.zeros(len(file_of)),
    )
    named = symbol * weights.get("symbol", 0.0)
    names = np.zeros(len(held))
    if kind.names and query.stems:
        likely = np.lexsort((candidates.chunk_ids, -text))[:_NAMED]
        names[likely] = chunks.name_cover(candidates.chunk_ids[likely], query.stems)
    chunk = (text + named + literal * kind.literal + names * kind.names) * products[file_of]
    groups = _FileGroups.of(file_of)
    evidence = {name: values[groups.files] for name, values in evidence.items()}
    evidence |= {"chunks": groups.best_two(text, kind.second), "symbol": groups.best(symbol)}
    evidence["literal"] = groups.best(held) * quoted
    file_weights = files.profile.file.model_dump(include=set(evidence))
    file = sum((evidence[name] * file_weights[name] for name in evidence), np.zeros(len(groups.files)))
    file = (file * products[groups.files])[groups.group_of]
    best_chunk, best_file = float(chunk.max()), float(file.max())
    # What holds a quotation is what was asked for, whatever its form.
    by_form = np.full(len(held), float(query.kind not in _BY_NAME)) * (1 - held * quoted)
    form = chunks.factors(candidates.chunk_ids) ** by_form
    total = kind.file_share * file / (best_file or 1.0) * form**kind.form_on_file
    total += (1 - kind.file_share) * chunk / (best_chunk or 1.0) * form
    repeats = kind.repeat ** groups.better(total, candidates.chunk_ids)
    order = np.lexsort((candidates.chunk_ids, -total * repeats))[:limit]
    return [
        Scored(
            int(candidates.chunk_ids[row]),
            float(total[row] * repeats[row]),
            _parts(candidates, row, weights),
            {
                name: WeightedValue(float(values[row]), weight)
                for name, values, weight in (("literal", literal, kind.literal), ("names", names, kind.names))
                if values[row]
            },
            {
                name: WeightedValue(float(values[groups.group_of[row]]), file_weights[name])
                for name, values in evidence.items()
                if values[groups.group_of[row]]
            },
            files.factors_of(int(file_of[row]), kind, other=bool(others[file_of[row]]), for_tests=query.asks_for_tests),
            chunks.factors_of(int(candidates.chunk_ids[row]), float(by_form[row])),
            kind.form_on_file,
            kind.file_share,
            best_chunk,
            best_file,
            float(repeats[row]),
        )
        for row in order.tolist()
        if total[row] > 0
    ]


def _parts(candidates: Pool, row: int, weights: Mapping[str, float]) -> dict[str, Contribution]:
    return {
        name: Contribution(
            int(ranks[row]), float(candidates.scores[name][row]), float(candidates.values[name][row]), weights[name]
        )
        for name, ranks in candidates.ranks.items()
        if ranks[row]
    }


def _of_named_files(
    files: RankedFiles, evidence: Mapping[str, np.ndarray], factors: np.ndarray, allowed: np.ndarray | None
) -> np.ndarray:
    """Return the first chunks of the files with the most evidence, before any chunk is considered: (m,) int64."""
    weights = files.profile.file.model_dump(include=set(evidence))
    total = sum((evidence[name] * weights[name] for name in evidence), np.zeros(len(files))) * factors
    count = min(_FILES_BY_EVIDENCE, len(total))
    best = np.argpartition(-total, count - 1)[:count] if count else np.empty(0, np.int64)
    chunks = files.first_chunks(best[total[best] > 0])
    return chunks if allowed is None else np.intersect1d(chunks, allowed)


@dataclass(frozen=True, slots=True)
class _FileGroups:
    """Candidates grouped by file."""

    files: np.ndarray
    """(g,) numbers of the files, ascending."""
    group_of: np.ndarray
    """(n,) group of each candidate."""

    @classmethod
    def of(cls, file_of: np.ndarray) -> _FileGroups:
        return cls(*np.unique(file_of, return_inverse=True))

    def best(self, values: np.ndarray) -> np.ndarray:
        """Return the largest value of each group: (g,)."""
        found = np.zeros(len(self.files))
        np.maximum.at(found, self.group_of, values)
        return found

    def best_two(self, values: np.ndarray, second: float) -> np.ndarray:
        """Return the weighted mean of the two largest values of each group, the second with weight ``second``: (g,)."""
        order = np.lexsort((-values, self.group_of))
        starts = np.searchsorted(self.group_of[order], np.arange(len(self.files)))
        sizes = np.diff([*starts, len(order)])
        found = values[order[starts]]
        more = sizes > 1
        found[more] += second * values[order[starts[more] + 1]]
        return found / (1 + second)

    def better(self, values: np.ndarray, chunk_ids: np.ndarray) -> np.ndarray:
        """Count the candidates of the same group that come before each: (n,)."""
        order = np.lexsort((chunk_ids, -values, self.group_of))
        starts = np.searchsorted(self.group_of[order], np.arange(len(self.files)))
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order)) - starts[self.group_of[order]]
        return places

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codequarry.serving.catalog.catalog import ChunkRow
from codequarry.serving.ranking.confidence import READ, MatchStrength, match_strength
from codequarry.serving.text.lexical import distinct_terms

WORDS = ("session", "expire", "index", "socket", "retry", "parser", "token", "bundle")
SHARE = st.floats(0, 1)
TERMS = st.integers(1, 64)
SIMILARITY = st.none() | st.floats(-1, 1)


def chunk(text: str) -> ChunkRow:
    return ChunkRow(
        chunk_id=1, repo="app", path="a.py", lang="python", kind="function", qualified_name="", module="",
        start_byte=0, end_byte=len(text), start_line=0, end_line=text.count("\n"), symbols=(), text=text, scip=False,
        cst=False,
    )  # fmt: skip


@given(SHARE, SHARE, TERMS, SIMILARITY)
def test_confidence_grows_with_coverage(one: float, other: float, terms: int, similarity: float | None) -> None:
    less, more = sorted((one, other))
    assert 0 <= confidence(less, terms, similarity) <= confidence(more, terms, similarity) <= 1


@given(SHARE, TERMS, st.floats(-1, 1), st.floats(-1, 1))
def test_confidence_grows_with_similarity(coverage: float, terms: int, one: float, other: float) -> None:
    less, more = sorted((one, other))
    assert confidence(coverage, terms, less) <= confidence(coverage, terms, more)


def confidence(coverage: float, terms: int, similarity: float | None) -> float:
    return MatchStrength(coverage, terms, similarity).confidence


TEXTS = st.lists(st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join), max_size=14)
RARITY = st.dictionaries(st.sampled_from(WORDS), st.floats(0.01, 9), min_size=1)


@given(TEXTS, RARITY, SIMILARITY)
def test_coverage_is_that_of_the_best_of_the_first_chunks(
    texts: Sequence[str], rarity: dict[str, float], similarity: float | None
) -> None:
    shares = [
        sum(weight for term, weight in rarity.items() if term in distinct_terms(text)) / sum(rarity.values())
        for text in texts[:READ]
    ]
    strength = match_strength(map(chunk, texts), rarity, similarity, whole=True)
    assert strength.coverage == pytest.approx(max(shares, default=0.0))
    assert strength.terms == len(rarity)


@given(TEXTS, RARITY, SIMILARITY)
def test_a_lean_answer_reads_less_and_decides_alike(
    texts: Sequence[str], rarity: dict[str, float], similarity: float | None
) -> None:
    whole, lean = (match_strength(map(chunk, texts), rarity, similarity, whole=one) for one in (True, False))
    assert whole.weak == lean.weak


def test_a_query_without_terms_is_weak() -> None:
    assert match_strength([chunk("anything")], {}, None, whole=True).weak

"""How surely a query is a quotation."""

from __future__ import annotations

import pytest

from codequarry.serving.ranking.verbatim import literal_value, quotation_strength
from codequarry.serving.text.query_classes import analyze_query


@pytest.mark.parametrize(
    ("text", "chunks", "strength"),
    [
        ("closed pool", 1, 0), ("pool is closed", 1, 0.5), ("the pool is closed", 4, 1), ("the pool is closed", 0, 1),
        ("the pool is closed", 40, 0.1), ("'pool closed'", 1, 1), ("pool-size", 1, 1),
        ("Pool.size", 1, 0),
    ],
)  # fmt: skip
def test_long_and_rare_phrases_are_quotations(text: str, chunks: int, strength: float) -> None:
    assert quotation_strength(analyze_query(text), chunks) == pytest.approx(strength)


def test_an_identifier_is_no_coincidence_unless_a_definition_has_its_name() -> None:
    query = analyze_query("max_file_bytes")
    assert quotation_strength(query, 30) == 1
    assert quotation_strength(query, 30, named=0.9) == 0
    assert quotation_strength(analyze_query("bytes"), 30) == 0


def test_a_quotation_is_worth_more_than_words_in_their_order() -> None:
    assert literal_value(0) == 1 < literal_value(0.5) < literal_value(1)

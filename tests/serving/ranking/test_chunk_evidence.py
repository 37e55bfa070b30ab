"""Factors of chunks by their form: all at once as each for itself."""

from __future__ import annotations

import numpy as np
import pytest

from codequarry.schemas.ranking_profile import BUILT_IN, ChunkProfile
from codequarry.serving.ranking.chunk_evidence import comment_factor, kind_factor, length_factor
from tests.serving.ranking.test_ranking import FORMS, first_of


def test_the_factors_of_all_chunks_at_once_are_those_of_each() -> None:
    ids = np.arange(1, 21)
    products = [np.prod(list(FORMS.factors_of(one).values())) for one in ids.tolist()]
    assert FORMS.factors(ids) == pytest.approx(products, rel=1e-12)
    neutral = FORMS.by(ChunkProfile())
    assert neutral.factors(ids).tolist() == [1.0] * 20
    assert not neutral.factors_of(4)


def test_what_declares_and_what_is_short_counts_less() -> None:
    assert FORMS.factors_of(4)["kind:interface"] == BUILT_IN.chunk.declaration
    assert FORMS.factors_of(5).keys() == {"lines:10", "first_of_file"}
    assert FORMS.factors_of(6).keys() == {"lines:10"}
    assert FORMS.factors_of(8)["lines:1"] < FORMS.factors_of(4)["lines:10"] < 1
    assert length_factor(60, BUILT_IN.chunk) == {"lines:60": 1}
    assert kind_factor("function", BUILT_IN.chunk) == {}


def test_comments_count_less_the_more_of_a_chunk_they_are() -> None:
    assert comment_factor(35, BUILT_IN.chunk) == {"comments:35": 1}
    assert comment_factor(100, BUILT_IN.chunk)["comments:100"] == pytest.approx(BUILT_IN.chunk.comments)
    assert FORMS.factors_of(11)["comments:90"] == comment_factor(90, BUILT_IN.chunk)["comments:90"] < 1
    assert first_of("Keeps sessions for a user.", {11: 8.1, 10: 8.0}).chunk_id == 10


def test_the_form_decides_among_equals_unless_a_name_is_asked_for() -> None:
    equal = {12: 8.0, 9: 8.0}
    assert first_of("how are sessions kept for a user", equal).chunk_id == 9
    assert first_of("Sessions", {12: 8.1, 9: 8.0}).chunk_id == 12
    assert first_of("how are sessions kept for a user", equal).form.keys() == {"lines:10", "first_of_file"}
    assert first_of("Sessions", equal).form == {}


def test_names_count_by_the_square_of_the_share_of_words_that_they_have() -> None:
    ids = np.array([13, 14])
    assert FORMS.name_cover(ids, {"session", "expir"}).tolist() == [0, 1]
    assert FORMS.name_cover(ids, {"session", "expir", "redi", "kept"}).tolist() == [0, 0.25]
    named = first_of("session expiry of users", {13: 8.1, 14: 8.0})
    assert (named.chunk_id, named.chunk["names"].weight) == (14, BUILT_IN.classes["topic"].names)
    assert first_of("how are sessions of users expired", {13: 8.1, 14: 8.0}).chunk == {}


def test_the_form_weighs_on_the_file_too_where_a_question_is_long() -> None:
    """Chunk 11 is nine tenths comment, and 14 lies in another file that matches a little less."""
    found = {11: 8.1, 14: 6.0}
    short, long = "how are users kept", "how are users kept between two requests of one browser while nobody signs out"
    assert (first_of(short, found).chunk_id, first_of(short, found).form_on_file) == (11, 0)
    assert (first_of(long, found).chunk_id, first_of(long, found).form_on_file) == (14, 1)

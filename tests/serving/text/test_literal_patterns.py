"""Patterns on one text: exact, words, phrases, and what they require of an index."""

from __future__ import annotations

import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codequarry.serving.request.deadline import Deadline
from codequarry.serving.text.analyzer import analyze
from codequarry.serving.text.literal_patterns import Literal, OutOfTimeError, Phrase, TextPattern, fold
from tests.serving.text import text_oracle

NEVER = Deadline.after(3600)
ALPHABET = "aAbBzZ09_ .(->\n\r\tßſKςσΣİéЖ語🎉"
TEXTS = st.text(alphabet=ALPHABET, max_size=30)


def compiled(mode: str, pattern: str, case_sensitive: bool) -> TextPattern | None:
    return Phrase.of(pattern) if mode == "phrase" else Literal(pattern, mode == "word", case_sensitive)


@given(TEXTS.filter(bool), TEXTS, TEXTS, st.sampled_from(["exact", "word", "phrase"]), st.booleans())
@example("open", "v1.", "()", "word", True)
@example("K", "", "", "word", False)
@example("a", "语", "é", "word", True)
@example("b z", "aB ", "Z9", "phrase", True)
@settings(max_examples=1500, deadline=None)
def test_any_pattern_in_any_text(pattern: str, left: str, right: str, mode: str, case_sensitive: bool) -> None:
    """The pattern stands in the text, so that there is often something to find; what is required is always there."""
    text = left + pattern + right
    made = compiled(mode, pattern, case_sensitive)
    if made is None:
        return
    found = list(made.spans(text, NEVER))
    assert found == getattr(text_oracle, mode)(pattern, text, case_sensitive=case_sensitive)
    if found:
        assert set(made.required.terms) <= {token.text for token in analyze(text)}
        assert made.required.needle in (text.lower() if made.required.folded else text)


def test_folding_keeps_every_character_in_its_place() -> None:
    everything = [chr(point) for point in range(sys.maxunicode + 1) if not 0xD800 <= point < 0xE000]
    assert [one for one in everything if len(fold(one)) != 1] == []
    assert fold("ΟΔΟΣ ΟΔΟΣ.") == fold("οδος οδος.") == "οδοσ οδοσ."


@pytest.mark.parametrize(
    ("pattern", "terms", "needle"),
    [
        (Literal("x = openFile(path", False, True), ("openfile",), "x = openFile(path"),
        (Literal("openFile", True, True), ("openfile",), "openFile"),
        (Literal("openFile", False, True), (), "openFile"),
        (Literal("one(\nanother_line(", False, True), ("another_line",), "another_line("),
        (Literal("(Größe)", False, False), (), "(gr"),
        (Literal("1.0(2)", True, True), (), "1.0(2)"),
        (Phrase(("remove", "expired")), ("remove", "expired"), "expired"),
    ],
)
def test_what_is_required(pattern: TextPattern, terms: tuple[str, ...], needle: str) -> None:
    assert (pattern.required.terms, pattern.required.needle) == (terms, needle)


@pytest.mark.parametrize(
    "text",
    ["remove expired", "removeExpired", "REMOVE_EXPIRED", "remove-(expired", "# remove\n# expired", "xRemoveExpired2"],
)
def test_a_phrase_finds_its_words_however_they_are_joined(text: str) -> None:
    assert len(list(Phrase(("remove", "expired")).spans(text, NEVER))) == 1


@pytest.mark.parametrize(
    "text", ["removeexpired", "remove all expired", "expired remove", "remover expired", "preremove expired"]
)
def test_a_phrase_is_not_found_in_other_words(text: str) -> None:
    assert list(Phrase(("remove", "expired")).spans(text, NEVER)) == []


def test_a_phrase_does_not_look_into_data_without_any_break() -> None:
    blob = "Qx" * 200_000
    assert list(Phrase(("qx",)).spans(f"{blob} qx", NEVER)) == [(len(blob) + 1, len(blob) + 3)]


def test_a_phrase_sees_the_deadline() -> None:
    ticks = iter(range(1000))
    with pytest.raises(OutOfTimeError):
        list(Phrase(("a",)).spans("aa" * 100_000, Deadline.after(3, clock=lambda: next(ticks))))

"""Patterns on one text: exact, words, phrases, and what they require of an index."""

from __future__ import annotations

import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codequarry.serving.request.deadline import Deadline
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
        assert all(text_oracle.is_held(fragment, text) for fragment in made.required.fragments)
        data = (fold(text) if made.required.folded else text).encode()
        assert made.find(data, 0) >= 0


def test_folding_keeps_every_character_in_its_place() -> None:
    everything = [chr(point) for point in range(sys.maxunicode + 1) if not 0xD800 <= point < 0xE000]
    assert [one for one in everything if len(fold(one)) != 1] == []
    assert fold("ΟΔΟΣ ΟΔΟΣ.") == fold("οδος οδος.") == "οδοσ οδοσ."


@pytest.mark.parametrize(
    ("pattern", "held", "at"),
    [
        (Literal("x = openFile(path", False, True), "x> <openfile> <path", 3),
        (Literal("openFile", True, True), "<openfile>", 7),
        (Literal("openFile", False, True), "openfile", 7),
        (Literal("x = openFile(\npath", False, True), "x> <openfile> <path", 3),
        (Literal("(Größe)", False, False), "", -1),
        (Literal("1.0(2)", True, True), "1 0 2", 20),
        (Literal("openFile.", False, True), "openfile", -1),
        (Phrase(("one", "file")), "<one> <file>", -1),
        (Phrase(("path",)), "<path>", 16),
    ],
)
def test_what_is_required(pattern: TextPattern, held: str, at: int) -> None:
    shown = ("<" * one.starts + one.text + ">" * one.ends for one in pattern.required.fragments)
    assert (" ".join(shown), pattern.find(b"if x = openFile(path1.0(2)", 0)) == (held, at)


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

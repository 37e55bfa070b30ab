"""Regular expressions: RE2 as we use it, against Python's engine line by line, and against hostile patterns."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codequarry.schemas.errors import InvalidArgumentError
from codequarry.serving.request.deadline import Deadline
from codequarry.serving.text.analyzer import Fragment, whole
from codequarry.serving.text.literal_patterns import OutOfTimeError
from codequarry.serving.text.regex import Regex, required_literals
from tests.serving.text import text_oracle

NEVER = Deadline.after(3600)


def spans(pattern: str, text: str, *, case_sensitive: bool = True) -> list[tuple[int, int]]:
    return list(Regex.of(pattern, case_sensitive=case_sensitive).spans(text, NEVER))


# Pieces that mean the same to both engines, and texts in which they have something to match.
ATOMS = r"a b ab _ \. . \w \d \s [ab] [^a] [\]x] (a|b) (?:ab_) \bb ^ $ é x".split()
QUANTIFIERS = ["", "", "", "*", "+", "?", "{2}", "{1,2}", "*?", "+?"]
TEXTS = st.text(alphabet="aab_ .\n\txé1]🎉", max_size=40)


@st.composite
def patterns(draw: st.DrawFn) -> str:
    atoms = st.tuples(st.sampled_from(ATOMS), st.sampled_from(QUANTIFIERS))
    drawn = draw(st.lists(atoms, min_size=1, max_size=5))
    parts = [atom + ("" if atom in ("^", "$") else quantifier) for atom, quantifier in drawn]
    return draw(st.sampled_from(["", "", "b|"])) + "".join(parts)


@pytest.mark.slow
@given(patterns(), TEXTS, st.booleans())
@settings(max_examples=500, deadline=None)
def test_line_by_line_as_python_does_it(pattern: str, text: str, case_sensitive: bool) -> None:
    try:
        found = spans(pattern, text, case_sensitive=case_sensitive)
    except InvalidArgumentError as error:
        assert "empty text" in error.message
        assert re.search(pattern, "") or not re.search(pattern, "a").group()
        return
    assert found == text_oracle.regex(pattern, text, case_sensitive=case_sensitive)


@given(patterns(), TEXTS)
@example(r"a\.b+(x|y)c{2}d", "a.bbxccd")
@settings(max_examples=500, deadline=None)
def test_every_match_holds_what_is_required(pattern: str, text: str) -> None:
    literals = required_literals(pattern)
    for line in text.split("\n"):
        for match in re.finditer(pattern, line, re.ASCII):
            assert all(literal in match.group() for literal in literals)


@given(patterns(), TEXTS, st.sampled_from(["", "def ", " "]))
@settings(max_examples=300, deadline=None)
def test_a_matching_text_passes_its_own_filter(pattern: str, text: str, prefix: str) -> None:
    try:
        compiled = Regex.of(prefix + pattern, case_sensitive=True)
    except InvalidArgumentError:
        return
    text = prefix + text
    if list(compiled.spans(text, NEVER)):
        assert all(text_oracle.is_held(fragment, text) for fragment in compiled.required.fragments)
        assert compiled.find(text.encode(), 0) >= 0


@pytest.mark.parametrize(
    ("pattern", "literals"),
    [
        ("open", ["open"]),
        (r"^def (\w+)\(self\):$", ["def ", "(self):"]),
        (r"raise (?:Type|Value)Error\(", ["raise ", "Error("]),
        (r"(?P<name>\w+)\.open", [".open"]),
        ("colou?r", ["colo", "r"]),
        ("ab{2}c", ["a", "c"]),
        ("a{x}", ["a{x}"]),
        ("a+b", ["a", "b"]),
        (r"[^\]]x", ["x"]),
        ("a|b", []),
        ("(?i)open", []),
        ("x(?i:open)y", []),
        (r"\Qa+b\E", []),
        (r"\x41bc", []),
        (r"\pLbc", []),
        ("[[:alpha:]]x", []),
        ("x(a[)]b)y", ["x", "y"]),
    ],
)
def test_required_literals(pattern: str, literals: list[str]) -> None:
    assert required_literals(pattern) == literals


def test_parts_of_words_have_the_ends_that_the_pattern_shows() -> None:
    assert Regex.of(r"def get_user\(self", case_sensitive=True).required.fragments == (
        Fragment("def", False, True), whole("get_user"), Fragment("self", True, False)
    )  # fmt: skip
    assert Regex.of(r"def get_user\(self", case_sensitive=False).required.fragments == ()


def test_a_class_does_not_leave_the_line_unless_the_pattern_says_so() -> None:
    text = "a b\nc"
    assert spans(r"[^x]+", text) == [(0, 3), (4, 5)]
    assert spans(r"\w\s\w", text) == [(0, 3)]
    assert spans("b\\nc", text) == spans("b\nc", text) == [(2, 5)]


def test_columns_of_other_scripts_are_characters_here() -> None:
    assert spans("语.", "日本语🎉x") == [(2, 4)]


def test_a_long_file_is_searched_in_windows_that_do_not_show() -> None:
    text = "".join(f"line {number} of the file\n" for number in range(20_000))
    assert len(spans("^line .* file$", text)) == 20_000
    assert spans(r"\Aline", text) == [(0, 4)]
    assert spans(r"file\n\z", text) == [(len(text) - 5, len(text))]


def test_the_deadline_is_seen_between_windows() -> None:
    ticks = iter(range(1000))
    found = Regex.of("x", case_sensitive=True).spans("x\n" * 200_000, Deadline.after(3, clock=lambda: next(ticks)))
    seen = 0
    with pytest.raises(OutOfTimeError):
        for _ in found:
            seen += 1
    assert 0 < seen < 200_000


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(?=a)b", "look-around"),
        ("(?<!a)b", "look-around"),
        (r"(a)\1", "no back-references"),
        ("(a", "a group is not closed"),
        ("a)", "closed that was not opened"),
        ("[a", "a character class is not closed"),
        ("*a", "nothing to repeat"),
        ("a**", "a repetition is repeated"),
        ("a{1001}", "over 1000"),
        ("(a{100}){100}", "over 1000"),
        (r"\pL{900}", "too large"),
        (r"\pL{1,20}", "instructions, expected at most 5000"),
        ("\\", "ends in a backslash"),
        ("[b-a]", "runs backwards"),
        (r"\p{Klingon}", "is unknown or runs backwards"),
        ("(?P=n)", "unknown to RE2"),
        ("a*", "can match the empty text"),
        ("^", "can match the empty text"),
        (r"\b", "can match the empty text"),
        ("(" * 400 + ")" * 400, "can match the empty text"),
    ],
)
def test_what_is_refused_and_why(pattern: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        Regex.of(pattern, case_sensitive=True)
    assert message in raised.value.message
    assert raised.value.suggestion
    assert len(pattern) < 3 or pattern not in str(raised.value)


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+b", "(a|aa)+b", "(a*)*b", "(.*)(.*)(.*)(.*)(.*)b", "(a?){500}a{500}b", "[ab]*a[ab]{400}x", r"(\w+\s?)+:b"],
)
def test_patterns_that_ruin_backtracking_engines_end_soon(pattern: str) -> None:
    """Linear time: a backtracking engine takes longer than the universe for some of these, so any bound will do."""
    started = time.perf_counter()
    assert spans(pattern, ("a" * 3000 + "\n") * 20) == []
    assert time.perf_counter() - started < 20

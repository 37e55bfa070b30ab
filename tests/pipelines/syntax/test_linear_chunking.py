"""The time that chunking takes grows with the file: for every grammar, over text that was quadratic somewhere."""

from __future__ import annotations

import time

import pytest

from codequarry.pipelines.syntax.chunks.chunk import chunk_source
from codequarry.pipelines.syntax.chunks.rows import chunk_ids, chunk_rows
from codequarry.pipelines.syntax.grammars import GRAMMARS
from codequarry.schemas.languages import LANGUAGES
from tests.pipelines.syntax.linear_cases import CASES, Case

_SIZES = {4_000: 0.02, 8_000: 0.04, 16_000: 0.15, 64_000: 0.5}
"""Bytes of the smaller text, and the CPU seconds that are noise; what looks bad at one size is asked at the next."""
_FACTOR = 4
_MOST = 6.0
"""Times as long for four times the text; a quadratic step takes sixteen."""
_LANGUAGE_OF = {language.grammar: language.name for language in LANGUAGES if language.grammar}


def sized(case: Case, size: int) -> bytes:
    """The case at about so many bytes."""
    return case(max(4, 64 * size // len(case(64)))).encode()


def cpu_seconds(data: bytes, language: str) -> float:
    """CPU seconds of chunking a file and making the rows of the chunk stage."""
    start = time.process_time()
    made = chunk_source(data, language)
    list(chunk_rows("repo", "path", language, data, made, chunk_ids("repo", "path", data, made)))
    return time.process_time() - start


def grows(case: Case, language: str) -> tuple[float, float] | None:
    """CPU seconds of a text and of four times as much, where that is too much; None where it is not.

    Each is the least of up to six runs: other programs on the machine make a run slower, and none makes it faster.
    """
    small = large = float("inf")
    for size, noise_s in _SIZES.items():
        small_text, large_text = sized(case, size), sized(case, _FACTOR * size)
        small = large = float("inf")
        for _ in range(6):
            small = min(small, cpu_seconds(small_text, language))
            large = min(large, cpu_seconds(large_text, language))
            if large <= _MOST * small + noise_s:
                return None
    return round(small, 3), round(large, 3)


def test_every_grammar_has_cases() -> None:
    assert CASES.keys() == GRAMMARS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("grammar", sorted(CASES))
def test_row_32_four_times_the_text_takes_about_four_times_as_long(grammar: str) -> None:
    language = _LANGUAGE_OF[grammar]
    found = {name: grows(case, language) for name, case in CASES[grammar].items()}
    slow = {name: seconds for name, seconds in found.items() if seconds is not None}
    assert not slow, "CPU seconds of the text and of four times as much"


@pytest.mark.slow
@pytest.mark.parametrize("language", ["python", "javascript", "haskell", "ruby"])
def test_a_megabyte_of_comments_takes_seconds(language: str) -> None:
    """0.9 MB took 48 s, over the limit of a worker."""
    data = sized(CASES[language]["comments"], 1_000_000)
    start = time.process_time()
    made = chunk_source(data, language)
    assert made.parsed
    assert time.process_time() - start < 30

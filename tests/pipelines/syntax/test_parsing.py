"""Limits of parsing: met by text that is quadratic for the grammar's own scanner, and by the text alone."""

from __future__ import annotations

import pytest

from codequarry.pipelines.syntax import parsing
from codequarry.pipelines.syntax.chunks.chunk import chunk_source
from codequarry.pipelines.syntax.grammars import grammar
from codequarry.pipelines.syntax.parsing import TOO_DEEP, TOO_MANY_READS, TOO_MANY_STEPS, parse_or_reason


@pytest.mark.slow
def test_a_scanner_that_reads_the_file_over_and_over_is_stopped() -> None:
    """Python's looks ahead to the end of the comments from each of their lines: 1 MB took minutes in few steps."""
    data = b"def f():\n" + b"    # comment\n" * 20_000 + b"    pass\n"
    assert parse_or_reason(grammar("python"), data) == TOO_MANY_READS
    made = chunk_source(data, "python")
    assert (made.parsed, made.fallback) == (False, TOO_MANY_READS)
    assert sum(span.end_byte - span.start_byte for span in made.spans) == len(data)


def test_a_thousand_lines_of_comments_are_parsed() -> None:
    data = b"def f():\n" + b"    # A comment as people write them.\n" * 1_000 + b"    pass\n"
    assert chunk_source(data, "python").parsed


def test_a_line_that_is_too_deep_says_so() -> None:
    made = chunk_source(b"a: " + b"- " * 500 + b"b\n", "yaml")
    assert (made.parsed, made.fallback) == (False, TOO_DEEP)


def test_a_language_without_a_grammar_falls_back_from_nothing() -> None:
    made = chunk_source(b"a = 1\n", "ini")
    assert (made.parsed, made.fallback) == (False, "")


def test_the_limits_ask_no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The chunks of a file depend on its bytes; with a limit in seconds they depended on the machine's load."""
    assert not hasattr(parsing, "time")
    monkeypatch.setattr(parsing, "_STEPS", 0)
    monkeypatch.setattr(parsing, "_STEPS_PER_KIB", 1)
    assert parse_or_reason(grammar("python"), b"a = 1\n" * 5_000) == TOO_MANY_STEPS

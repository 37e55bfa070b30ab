"""Lines that are hard on the patterns of receivers: the time of a look-up does not explode with them."""

from __future__ import annotations

import itertools
import math

import pytest

from codequarry.schemas.wire.symbols import ReferencesRequest
from codequarry.serving.request.deadline import Deadline
from codequarry.serving.tools.naming.bindings import (
    SourceLines,
    alternatives,
    bindings_above,
    imports_whole,
    last_primary,
    type_around,
)
from codequarry.serving.tools.references import find_references
from tests.machine import least_cpu_seconds
from tests.serving.contexts import context_of

PIECES = {
    "contexts": "with a(", "names": "with a.a", "as": " as ", "loops": "for (", "spaces": "for        ",
    "types": "A<", "whole types": "A<A> ", "ends of types": "_t", "maps": "x map[", "imports": "import a, ",
    "conditions": " if ", "choices": " if  else", "calls": "a()", "parts": "a.b<", "brackets": "({[",
    "heads": "class A for ",
}  # fmt: skip
LANGUAGES = ["python", "go", "java", "typescript", "cpp"]


def read(text: str) -> None:
    """Read one line in each way that a look-up reads lines."""
    for line in (text, f"{text}x", f"{text} x = y", f"with {text} as x:", f"for {text} x of"):
        lines = SourceLines([line, "    x.run()"])
        for lang in LANGUAGES:
            bindings_above(lines, 1, "x", lang)
            imports_whole(lines.texts, "x", lang)
        type_around(lines.texts, 1)
        for part in alternatives(lines.texts[0]):
            last_primary(part)


@pytest.mark.parametrize("piece", PIECES.values(), ids=PIECES)
def test_row_38_time_grows_at_most_as_the_square_of_a_line(piece: str) -> None:
    short, long = (piece * (size // len(piece)) for size in (110, 440))
    read(short)
    assert least_cpu_seconds(lambda: read(long)) < 2 * 16 * least_cpu_seconds(lambda: read(short))


@pytest.mark.parametrize("piece", PIECES.values(), ids=PIECES)
def test_row_38_a_line_without_end_is_not_read(piece: str) -> None:
    ordinary, endless = (piece * (size // len(piece)) for size in (440, 100_000))
    assert least_cpu_seconds(lambda: read(endless)) < 30 * least_cpu_seconds(lambda: read(ordinary))


def test_row_38_the_deadline_is_checked_at_each_place(symbol_engine) -> None:
    ticks = itertools.count()
    deadline = Deadline(1, math.inf, lambda: next(ticks))
    found = find_references(context_of(symbol_engine.bundle, deadline), ReferencesRequest(symbol="open"))
    read = found.totals.resolved + found.totals.heuristic
    checked = next(ticks)
    exact = find_references(
        context_of(symbol_engine.bundle, deadline), ReferencesRequest(symbol="open", precision="precise")
    )
    assert exact.totals.resolved == exact.totals.heuristic == 0
    assert checked - (next(ticks) - checked - 1) >= read > 1

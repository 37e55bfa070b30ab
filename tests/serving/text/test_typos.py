"""Misspelt names: what the index leads to is what comparing all names finds."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from codequarry.serving.text.typos import by_last_letters, is_near, near_numbers

NAMES = st.text("abé_1", min_size=4, max_size=7)


def slips(one: str, other: str) -> int:
    """Optimal string alignment distance, by the table of its definition."""
    rows = [[max(i, j) if 0 in (i, j) else 0 for j in range(len(other) + 1)] for i in range(len(one) + 1)]
    for i in range(1, len(one) + 1):
        for j in range(1, len(other) + 1):
            rows[i][j] = min(rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + (one[i - 1] != other[j - 1]))
            if i > 1 and j > 1 and one[i - 1] == other[j - 2] and one[i - 2] == other[j - 1]:
                rows[i][j] = min(rows[i][j], rows[i - 2][j - 2] + 1)
    return rows[-1][-1]


@given(NAMES, NAMES)
def test_near_is_one_slip(one: str, other: str) -> None:
    assert is_near(one, other) == is_near(other, one) == (slips(one, other) == 1)


def near(asked: str, names: list[str]) -> list[str]:
    """Those that the arrays of an index lead to."""
    strings = sorted({*names, "", "readme", "zz"})
    number = {name: at for at, name in enumerate(strings)}
    starts = np.cumsum([0, *(len(name.encode()) for name in strings)])
    keys = np.sort(np.array([number[name] for name in names], np.int32))
    backwards = by_last_letters({name: number[name] for name in names})
    return [strings[at] for at in near_numbers(asked, strings, starts, keys, backwards)]


@given(st.lists(NAMES, max_size=30), NAMES)
def test_every_name_that_is_near_is_found(names: list[str], asked: str) -> None:
    wanted = {name for name in names if is_near(asked, name) and min(len(name), len(asked)) >= 5}
    assert near(asked, names) == sorted(wanted)


def test_names_that_are_short_or_no_words_have_no_neighbours() -> None:
    names = ["open", "read me first", "x" * 65, "header"]
    assert near("opens", names) == near("", names) == near("x" * 64, names) == near("read me firs", names) == []
    assert near("haeder", names) == ["header"]

"""Misspelt names: what the forms lead to is what comparing all names finds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from codequarry.schemas.near_names import is_near, near_forms, near_numbers

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


@given(st.lists(NAMES, max_size=30, unique=True), NAMES)
def test_every_name_that_is_near_is_found(names: list[str], asked: str) -> None:
    found = near_numbers(asked, near_forms({name: number for number, name in enumerate(names)}))
    wanted = [at for at, name in enumerate(names) if is_near(asked, name) and min(len(name), len(asked)) >= 5]
    assert [at for at in found if is_near(asked, names[at])] == wanted


def test_names_that_are_short_or_no_words_have_no_neighbours() -> None:
    forms = near_forms({"open": 0, "read me first": 1, "x" * 65: 2, "header": 3})
    assert len(forms) == len({"header", "eader", "hader", "heder", "heaer", "headr", "heade"})
    assert near_numbers("opens", forms) == near_numbers("", forms) == []
    assert near_numbers("haeder", forms) == [3]

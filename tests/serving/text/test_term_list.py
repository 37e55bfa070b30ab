"""Parts of words in the list of an index's terms, against a look at each term."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codequarry.schemas.errors import UnavailableError
from codequarry.serving.text.analyzer import MAX_TOKEN_CHARS, Fragment
from codequarry.serving.text.term_list import TERMS_FILE, TermList, packed_terms

WORDS = st.text("abüß_1", min_size=1, max_size=6)
CUT = "x" * (MAX_TOKEN_CHARS - 1) + "y"


@given(st.lists(WORDS), st.text("ab_1", min_size=1, max_size=3), st.booleans(), st.booleans())
def test_every_term_with_the_part_is_found(terms: list[str], text: str, starts: bool, ends: bool) -> None:
    def has(term: str) -> bool:
        if starts and ends:
            return term == text
        return (term.startswith(text) if starts else text in term) and (term.endswith(text) if ends else True)

    found = TermList(packed_terms(terms)).holding(Fragment(text, starts, ends), len(terms))
    assert found is not None
    assert sorted(found) == sorted({term for term in terms if has(term)})


def test_too_many_are_none() -> None:
    listed = TermList(packed_terms(["ab", "abc", "b"]))
    assert listed.holding(Fragment("b", False, False), 2) is None
    assert listed.holding(Fragment("b", True, False), 2) == ["b"]


def test_a_term_that_is_cut_may_hold_anything_behind_its_end() -> None:
    listed = TermList(packed_terms(["open", CUT]))
    assert listed.holding(Fragment("pen", False, False), 9) == [CUT, "open"]
    assert listed.holding(Fragment("open", True, False), 9) == ["open"]
    assert listed.holding(Fragment("xx", True, False), 9) == [CUT]


def test_an_index_without_a_list_has_none(tmp_path: Path) -> None:
    assert TermList.open(tmp_path) is None
    (tmp_path / TERMS_FILE).write_bytes(packed_terms(["open"]))
    listed = TermList.open(tmp_path)
    assert listed is not None and listed is TermList.open(tmp_path)


@pytest.mark.parametrize("content", [b"", b"no zlib", packed_terms(["a", "b"])[:-2]])
def test_damage_is_said(tmp_path: Path, content: bytes) -> None:
    (tmp_path / TERMS_FILE).write_bytes(content)
    with pytest.raises(UnavailableError, match=r"terms\.zlib is damaged"):
        TermList.open(tmp_path)

"""The analyzer: wholes and parts, positions, and totality."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codequarry.serving.text.analyzer import MAX_TOKEN_CHARS, analyze, identifier_parts, query_terms, source_tokens


@pytest.mark.parametrize(
    ("identifier", "parts"),
    [
        ("getUserName", ("get", "user", "name")),
        ("get_user_name", ("get", "user", "name")),
        ("HTTPServer", ("http", "server")),
        ("parseXML2", ("parse", "xml", "2")),
        ("SCREAMING_SNAKE", ("screaming", "snake")),
        ("_private", ("private",)),
        ("open", ()),
        ("straßenName", ("stra", "ß", "en", "name")),
    ],
)
def test_identifiers_fall_into_parts(identifier: str, parts: tuple[str, ...]) -> None:
    assert identifier_parts(identifier) == parts


def test_the_whole_and_its_parts_share_a_position() -> None:
    tokens = list(analyze("self.openFile -> x"))
    assert [(token.text, token.position) for token in tokens] == [
        ("self", 0), ("openfile", 1), ("open", 1), ("file", 1), ("->", 2), ("x", 3),
    ]  # fmt: skip


def test_a_query_finds_both_spellings() -> None:
    assert set(query_terms("user name")) < set(query_terms("getUserName user_name"))


@given(st.text())
def test_any_text_gives_lower_case_bounded_tokens_in_order(text: str) -> None:
    tokens = list(analyze(text))
    assert all(0 < len(token.text) <= MAX_TOKEN_CHARS * 3 for token in tokens)
    positions = [token.position for token in tokens]
    assert positions == sorted(positions)
    assert list(analyze(text)) == tokens


@given(st.text("aZ_09.-=<>:!?&|+* é\n", max_size=60))
def test_a_text_of_ascii_has_the_tokens_that_it_has_in_any_script(text: str) -> None:
    assert [*source_tokens(text), "é"] == source_tokens(f"{text} é")

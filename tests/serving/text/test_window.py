"""The lines of a chunk that answer a query."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from codequarry.serving.text.lexical import distinct_terms
from codequarry.serving.text.query_classes import analyze_query
from codequarry.serving.text.window import Window, best_window

CODE = """\
# Copyright 2020 The Authors. Licensed under the Apache License.
import os
from store import remove_expired_sessions


class Worker:
    \"\"\"A worker.\"\"\"

    def __init__(self, store):
        self.store = store

    def start(self):
        while self.running:
            self.step()

    def clean(self, now):
        for session in self.store:
            if session.expired(now):
                self.store.remove(session)
"""


def window(query: str, size: int = 4, text: str = CODE) -> list[str]:
    chosen = best_window(text, (*analyze_query(query).terms, query), size)
    return text.split("\n")[chosen.first : chosen.last + 1]


def test_the_lines_with_the_words_are_shown_and_not_the_import_that_has_them_too() -> None:
    assert window("where are expired sessions removed") == [
        "    def clean(self, now):",
        "        for session in self.store:",
        "            if session.expired(now):",
        "                self.store.remove(session)",
    ]


def test_without_a_word_the_code_begins_behind_licence_and_imports() -> None:
    assert window("zebra")[0] == "class Worker:"


def test_an_import_is_shown_where_nothing_else_has_the_word() -> None:
    assert "import os" in window("os")


def test_a_short_chunk_is_shown_whole_without_blank_lines_around_it() -> None:
    assert window("anything", 8, "\n\ndef f():\n    pass\n\n") == ["def f():", "    pass"]
    assert best_window("", (), 8) == Window(0, 0)


lines = st.lists(st.sampled_from(["", "  ", "import os", "x = session", "# expired", "}", "def f(self):"]), max_size=40)


@given(lines, st.integers(1, 10))
def test_no_other_window_holds_more_of_the_words_in_code(rows: list[str], size: int) -> None:
    chosen = best_window("\n".join(rows), ("session",), size)
    assert chosen.last - chosen.first < size
    shown = rows[chosen.first : chosen.last + 1]
    if any(row.strip() for row in rows):
        assert shown[0].strip()
        assert shown[-1].strip()
    assert ("x = session" in shown) == ("x = session" in rows)


@given(st.lists(st.sampled_from("flies query queries Parsing getUserName x_fly 0x1f -> café CAFÉ".split()), max_size=9))
def test_a_line_that_holds_a_term_is_never_passed_over(words: list[str]) -> None:
    for term in distinct_terms(" ".join(words)):
        assert window(term, 1, f"a = b\n\nc = d\n\n{' '.join(words)}\n\ne = f") == [" ".join(words)]

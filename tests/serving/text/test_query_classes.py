"""Classes of queries, and what is looked up for each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codequarry.schemas.ranking_profile import BUILT_IN
from codequarry.serving.text.query_classes import analyze_query

CLASSES = {
    "identifier": ["Session", "open_file", "parseHTTPResponse", "__init__", "$scope", "close()", "valid?", "größe"],
    "qualified_name": ["Index.open", "Rack::Response", "std::vector", "a->b", "Foo#bar", "app.routes.add()"],
    "path": ["src/io/index.py", "lib/", "index.py", "Cargo.toml", "a/b", "docs/guide.md"],
    "literal": ['"connection refused"', "'no such file'", "cannot open %s: %d", "ValueError: bad header", "panic: nil"],
    "code": ["x = foo(bar); return x;", "def f(a):\n    return a", "if (a == b) { go(); }"],
    "statement": [
        "Returns the number of open files.",
        "fix: race when the pool is closed",
        "Add support for HTTP/2 trailers",
        "parse the header of a request",
        "NewServer creates a server",
        "[docs] describe the settings",
    ],
    "question": [
        "how are sessions expired",
        "Where is the config loaded?",
        "what calls the parser",
        "is it thread safe?",
    ],
    "issue": [
        "Sessions leak after a timeout\n\nAfter a request times out its session is never given back to the pool,\n"
        "so that after a few minutes no further request gets one, and `Pool.acquire` waits for ever.\n"
    ],
    "topic": ["session management", "request routing context", "retry with backoff", "日本語 処理", "-> ==", "!!!"],
}


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in CLASSES.items() for text in texts])
def test_classes(kind: str, text: str) -> None:
    found = analyze_query(text)
    assert (found.kind, bool(found.reason)) == (kind, True)


def test_every_class_has_a_profile_and_an_example() -> None:
    assert set(CLASSES) == set(BUILT_IN.classes)


def test_prose_is_asked_by_stems_without_stop_words_and_its_identifiers_whole() -> None:
    assert analyze_query("how does openFile handle expired sessions").terms == (
        "openfile", "open", "file", "handl", "expir", "session",
    )  # fmt: skip
    assert analyze_query("openFile").terms == ("openfile", "open", "file")


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("test that a lock is freed", True),
        ("is there a regression test for the lock?", True),
        ("where is it tested that a lock is freed", True),
        ("Where do we test that a lock is freed?", True),
        ("where is the lock tested", True),
        ("spec: a lock is freed", True),
        ("which tests cover locks", True),
        ("lock tests", True),
        ("test client", False),
        ("test runner for commands", False),
        ("plugin spec parsing", False),
        ("how are tests collected", False),
        ("is a connection tested before it is used", False),
        ("the code under test crashes", False),
    ],
)
def test_who_asks_for_a_test_says_so(text: str, asked: bool) -> None:
    assert analyze_query(text).asks_for_tests is asked


def test_stop_words_alone_are_looked_up_after_all() -> None:
    assert analyze_query("how is this").terms == ("how", "is", "this")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("update and delete statement builders", "topic"),
        ("insert update delete and transaction repo callbacks", "topic"),
        ("split-on multi-mapping for joining related objects", "topic"),
        ("update and delete the rows of a table", "statement"),
        ("Add support for named captures", "statement"),
        ("Creates and returns new connections", "statement"),
        ("it returns nothing then", "statement"),
    ],
)
def test_verbs_in_a_row_are_names_unless_something_is_done_to_something(text: str, kind: str) -> None:
    assert analyze_query(text).kind == kind


def test_names_in_a_query() -> None:
    def names(query: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        read = analyze_query(query)
        return read.qualified, read.plain

    assert names("session") == ((), ("session",))
    assert names("what does Index::open do with max_bytes") == (("Index.open",), ("max_bytes",))
    assert names("what does open do") == ((), ())


@given(st.text(max_size=300))
def test_any_text_has_a_class(text: str) -> None:
    found = analyze_query(text)
    assert found.kind in BUILT_IN.classes
    assert len(set(found.terms)) == len(found.terms)

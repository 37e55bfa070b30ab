"""Issues are read apart: what they are about, and the names of code in sentences, code and traces."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codequarry.serving.text.issues import read_issue
from codequarry.serving.text.query_classes import analyze_query

SOURCES = Path(__file__).parents[2] / "fixtures" / "sources"
SAID = (
    "After a request times out its session is never given back to the pool, so that after a few minutes no further\n"
    "request gets one. I expected that a session comes back whatever happens to the request.\n"
)


def issue(*parts: str) -> str:
    return "\n".join(["# Sessions leak after a timeout", "", SAID, *parts])


def names(*parts: str) -> tuple[str, ...]:
    found = read_issue(issue(*parts))
    assert found is not None
    return found.names


def test_title_and_sentences() -> None:
    found = read_issue(
        issue("<!-- thanks for\nyour report -->", "### Versions", "Python 3.12, Debian 12", "- [x] I searched")
    )
    assert found is not None
    assert found.title == "Sessions leak after a timeout"
    assert found.prose == " ".join(SAID.split())[:400]
    assert found.names == ()


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("Calling `Pool.acquire()` or `give_back` hangs.", ("Pool.acquire", "give_back")),
        ("I think that SessionPool and web::Pool wait.", ("SessionPool", "web.Pool")),
        ("```python\nfrom shop.web import open_pool\npool = open_pool(3)\n```", ("open_pool", "shop.web")),
        (">>> import shop\n>>> shop.run_all()", ("shop.run_all", "shop")),
        ('Traceback (most recent call last):\n  File "shop/pool.py", line 3, in acquire\n    wait()\n', ("acquire",)),
        ('Traceback (most recent call last):\n  File "/x/site-packages/anyio/a.py", line 3, in run\n    y()\n', ()),
        (
            "Caused by:\n    at shop.web.Pool.acquire(Pool.java:31)\n    at java.run(Run.java)",
            ("shop.web.Pool.acquire",),
        ),
        ("lib/shop/pool.rb:12:in `acquire'", ("acquire",)),
        ("See https://example.org/some_path/SomeName for more.", ()),
    ],
)
def test_names_of_code(part: str, expected: tuple[str, ...]) -> None:
    assert names(part) == expected


@pytest.mark.parametrize(
    "text",
    [
        "how are sessions given back",
        "def acquire(self):\n    while True:\n        yield\n",
        "Traceback (most recent call last):\n  File 'a.py'\nValueError: closed\n",
        "fix\n\n" + SAID,
        "public class Pool extends Base {\n    private int size;\n\n    int size() {\n        return size;\n    }\n}\n",
        '"""The pool of sessions that requests share."""\n\nfrom shop import web\n\n\ndef open_pool(size):\n    pass\n',
    ],
)
def test_what_is_no_issue(text: str) -> None:
    assert read_issue(text) is None
    assert analyze_query(text).kind != "issue"


def test_sentences_are_looked_for_by_meaning_and_names_by_word() -> None:
    query = analyze_query(issue("`Pool.acquire` and give_back hang in `shop`."))
    assert query.kind == "issue"
    assert query.text.startswith("Sessions leak after a timeout After a request")
    assert {"session", "timeout", "pool", "acquire", "give_back"} <= set(query.terms)
    assert "minut" not in query.terms
    assert (query.qualified, query.plain) == (("Pool.acquire",), ("shop", "give_back"))


@pytest.mark.parametrize("path", sorted(SOURCES.iterdir()), ids=lambda path: path.name)
def test_a_pasted_file_of_code_is_no_issue(path: Path) -> None:
    text = path.read_text(encoding="utf-8")[:4096]
    assert read_issue(text) is None or path.suffix in {".md", ".yaml"}


@settings(deadline=None, max_examples=300)
@given(
    st.lists(
        st.one_of(
            st.text(max_size=60),
            st.sampled_from(
                ["```", "# Versions", ">>> a(b", '  File "x.py", line 1, in f', "Traceback (most recent call last):"]
            ),
        ),
        max_size=30,
    )
)
def test_any_text_is_read_or_is_none(lines: list[str]) -> None:
    text = issue(*lines)
    found = read_issue(text)
    if found is None:  # four braces in a row are code
        return
    assert all(name in text or name.replace(".", "::") in text for name in found.names)
    assert len(set(found.names)) == len(found.names)
    assert analyze_query(text).kind == "issue"

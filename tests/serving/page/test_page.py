"""The page: what it shows, that it works without script, and that indexed text stays text."""

from __future__ import annotations

import html
import http.client
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.search import SearchRequest
from codequarry.serving.engine.engine import Engine
from codequarry.serving.http.app import Service
from codequarry.serving.page.highlighting import highlighted
from codequarry.serving.page.score_parts import score_parts
from codequarry.serving.tools.search import search
from tests.serving.bundles.bundle_factory import write_bundle
from tests.serving.bundles.symbol_rows import Source, pieces_and_rows
from tests.serving.live import request, running

HOSTILE = '<script>alert("pwned")</script><img src=x onerror=alert(1)>'
LIMIT = 150_000
VOID = frozenset({"meta", "link", "input", "br"})


def hostile_sources() -> list[Source]:
    text = f'def evil(x):\n    """{HOSTILE}"""\n    return "{HOSTILE}"\n\n\ndef caller():\n    return evil(1)\n'
    source = Source('web/<script>alert("path")<_script>.py', text, repo="evil")
    source.define("evil", "function", doc=f"It runs nothing.\n\n{HOSTILE}", body=text[: text.index("\n\n\n")])
    source.define("caller", "function", body="def caller():\n    return evil(1)")
    source.refer("evil", "call", nth=1)
    return [source]


@pytest.fixture(scope="module")
def port(symbol_engine: Engine) -> Iterator[int]:
    with running(Service(Engine(symbol_engine.bundle, ServingSettings()), "0")) as port:
        yield port


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    root = tmp_path_factory.mktemp("hostile")
    pieces, rows = pieces_and_rows(hostile_sources())
    write_bundle(root, pieces, rows=rows)
    engine = Engine.open(root, ServingSettings())
    with running(Service(engine, "0")) as port:
        yield port
    engine.close()


class Elements(HTMLParser):
    """Elements and their attributes; fails on what is not closed."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(page.decode())
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def page_of(port: int, path: str, /, **given: object) -> tuple[int, bytes]:
    status, page = request(port, "GET", f"{path}?{urlencode(given)}" if given else path)
    check(page)
    return status, page


def check(page: bytes) -> None:
    """Assert what holds for every page: no script but the own file, nothing from elsewhere, every field has a label."""
    elements = Elements(page).found
    assert len(page) <= LIMIT
    for tag, attributes in elements:
        assert not any(name.startswith("on") or name == "style" for name in attributes), (tag, attributes)
        for name in ("src", "href", "action"):
            assert (attributes.get(name) or "/").startswith(("/", "#")), (tag, attributes)
        assert tag != "script" or attributes == {"src": "/page/page.js", "defer": None}
    tags = [tag for tag, _ in elements]
    assert tags.count("label") == tags.count("input")


def test_every_page_answers_with_headers_that_keep_others_out(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    for path in (
        "/",
        "/?q=open",
        "/folder",
        "/symbol",
        "/symbol?name=open",
        "/index",
        "/page/page.js",
        "/page/style.css",
    ):
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200, path
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'") and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
    connection.close()
    assert request(port, "GET", "/", headers={"Host": "evil.example.org"})[0] == 421
    assert request(port, "POST", "/", b"{}", {"Content-Type": "application/json"})[0] == 405


def test_a_search_shows_places_code_and_what_the_score_is_made_of(port: int) -> None:
    status, page = page_of(port, "/", q="open the index")
    text = html.unescape(re.sub(r"<[^>]+>", "", page.decode()))
    assert status == 200 and "open" in text and re.search(r"score [01]\.\d{3}: \w", text)
    links = re.findall(r'<a class="to" href="(/file[^"#]+)', page.decode())
    assert links and page_of(port, html.unescape(links[0]))[0] == 200
    status, part = request(port, "GET", f"/?{urlencode({'q': 'open the index', 'part': 'results'})}")
    assert status == 200 and b"<html" not in part and part.strip() in page
    assert b"Nothing matches" in page_of(port, "/", q="open", path="nowhere/**")[1]


def test_parts_of_a_bar_add_up_to_the_score(symbol_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codequarry.serving.page.score_parts._LEAST", 0.0)
    engine = Engine(symbol_engine.bundle, ServingSettings())
    for query in ("open the index", "Index.open", "store"):
        answer = engine.answer_admitted("search", search, SearchRequest(query=query, explain=True, top_k=20))
        assert answer.results
        for result in answer.results:
            parts = score_parts(result.metadata.explain)
            assert sum(part.adds for part in parts) == pytest.approx(result.score, abs=0.002)


def test_a_file_is_shown_with_its_definitions_and_the_line_that_was_asked_for(port: int) -> None:
    status, page = page_of(port, "/symbol", name="open")
    uri = re.search(r'/file\?path=([^&"]+)', page.decode())
    assert status == 200 and uri is not None
    status, page = page_of(port, f"/file?path={uri[1]}&line=2")
    assert status == 200 and b'class="l asked" id="L2"' in page and b"Definitions" in page
    assert page.count(b'class="l') == page.count(b'class="no"') > 2
    count = page.count(b'class="no"')
    assert f"{count} lines".encode() in page and b"lines after" not in page and b"lines before" not in page
    status, page = page_of(port, f"/file?path={uri[1]}&start=3")
    assert status == 200 and page.count(b'class="no"') == count - 2
    assert b'start=1">lines before' in page and b'id="L3"' in page and b'id="L2"' not in page
    status, page = page_of(port, "/file", path="nowhere/at/all.py")
    assert status == 404 and b'role="alert"' in page


def test_a_name_shows_definitions_uses_and_a_drawing(hostile: int) -> None:
    status, page = page_of(hostile, "/symbol", name="evil")
    text = page.decode()
    assert status == 200 and "1 definition" in text and "Callers and callees" in text
    assert re.search(r"<svg class=\"graph\".*caller.*</svg>", text, re.DOTALL)


def test_of_documentation_the_first_paragraph_stands_and_the_others_are_folded(hostile: int) -> None:
    page = page_of(hostile, "/symbol", name="evil")[1].decode()
    assert '<p class="said">It runs nothing.</p>' in page
    assert re.search(r"<details class=\"said\"><summary>[^<]+</summary><p>&lt;script&gt;[^<]+</p></details>", page)


@pytest.mark.parametrize(
    ("path", "given"),
    [
        ("/", {"q": "evil"}),
        ("/", {"q": HOSTILE, "repo": HOSTILE, "lang": HOSTILE, "path": HOSTILE}),
        ("/symbol", {"name": "evil"}),
        ("/symbol", {"name": HOSTILE}),
        ("/folder", {}),
        ("/folder", {"path": "evil/web"}),
        ("/folder", {"path": HOSTILE}),
        ("/file", {"path": 'evil/web/<script>alert("path")<_script>.py'}),
        ("/file", {"path": HOSTILE}),
        ("/index", {}),
    ],
)
def test_row_37_nothing_that_is_indexed_or_asked_becomes_markup(hostile: int, path: str, given: dict[str, str]) -> None:
    status, page = page_of(hostile, path, **given)
    assert status in (200, 400, 404)
    assert [tag for tag, _ in Elements(page).found if tag in ("script", "img")] == ["script"]


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["/", "/file", "/folder", "/symbol", "/index"]),
    st.dictionaries(st.sampled_from(["q", "repo", "lang", "path", "line", "name", "at", "part"]), st.text(max_size=60)),
)
def test_row_37_no_address_breaks_the_server(port: int, path: str, given: dict[str, str]) -> None:
    status, page = request(port, "GET", f"{path}?{urlencode(given, errors='replace')}")
    assert status < 500
    if given.get("part") != "results":
        check(page)


@given(st.text(max_size=200), st.sampled_from(["python", "go", "html", "text", "no such language", "bash"]))
def test_colours_change_no_character(code: str, language: str) -> None:
    lines = highlighted(code, language)
    shown = [html.unescape(re.sub(r"<span class=\"\w\">|</span>", "", str(line))) for line in lines]
    assert "\n".join(shown) == code


def test_code_that_takes_long_to_colour_goes_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codequarry.serving.page.highlighting._LONGEST_S", -1.0)
    assert [str(line) for line in highlighted("def f():\n    pass <b>", "python")] == ["def f():", "    pass &lt;b&gt;"]


def test_a_window_that_begins_inside_of_a_docstring_is_code_behind_it() -> None:
    lines = highlighted('    Raises: nothing.\n    """\n    return 1', "python")
    assert 'class="s"' in lines[0] and 'class="k"' in lines[2]
    assert 'class="k"' in highlighted('def f():\n    """Say it.', "python")[0]


def test_the_page_can_be_turned_off(symbol_engine: Engine) -> None:
    with running(Service(Engine(symbol_engine.bundle, ServingSettings(page=False)), "0")) as port:
        assert request(port, "GET", "/")[0] == 404
        assert request(port, "GET", "/page/page.js")[0] == 404
        assert request(port, "GET", "/healthz")[0] == 200


def test_the_files_of_the_page_hold_no_address_of_others() -> None:
    folder = Path(__file__).resolve().parents[3] / "serving/codequarry/serving/page"
    for file in (*folder.glob("templates/*"), *folder.glob("static/*")):
        assert not re.search(r"https?://|//[a-z]+\.", file.read_text()), file.name

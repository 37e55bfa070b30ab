"""The page in a real browser: with script it searches as one types, and names in code lead to their definitions."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from codequarry.schemas.settings.load import ServingSettings
from codequarry.serving.engine.engine import Engine
from codequarry.serving.http.app import Service
from tests.assets.pages.browser import Page, browsing, installed
from tests.serving.live import running
from tests.serving.page.conftest import FIRST, SECOND

CHROMIUM = installed()
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; Debian has it as the package chromium")
KEEPER_PAGES = ("/versions", f"/versions/difference?before={FIRST}&after={SECOND}", "/asked", "/index")


@pytest.fixture
def address(symbol_engine: Engine) -> Iterator[str]:
    with running(Service(Engine(symbol_engine.bundle, ServingSettings()), "0")) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(params=[1200, 400])
def page(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Page]:
    assert CHROMIUM is not None
    with browsing(CHROMIUM, tmp_path, width=request.param, height=900) as page:
        yield page


def test_a_person_searches_reads_and_looks_a_name_up(address: str, page: Page) -> None:
    page.open(address)
    page.until("!!document.querySelector('html.scripted form')")
    page.run("document.querySelector('input[name=q]').value = 'open the index'")
    page.run("document.querySelector('form').dispatchEvent(new Event('input', {bubbles: true}))")
    page.until("document.querySelectorAll('#results li').length > 1 && location.search.includes('open')")
    page.run("document.querySelector('#results details summary').click()")
    page.shows("what speaks for it", "strength")
    # No page is wider than its window.
    assert page.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    page.run("document.querySelector('a.to').click()")
    # Code is there before the script that listens for clicks has run.
    page.until("!!document.querySelector('html.scripted pre[data-uri] :is(.n, .d)')")
    assert page.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    page.run("document.querySelector('pre[data-uri] .n, pre[data-uri] .d').click()")
    page.until("location.pathname === '/symbol' && location.search.startsWith('?at=')")
    page.shows("definition", "exact by an indexer")
    assert page.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert page.run("performance.getEntriesByType('resource').every(each => each.name.startsWith(location.origin))")


def test_pages_of_those_who_look_after_the_index_fit_the_window(kept_port: int, page: Page) -> None:
    for path in KEEPER_PAGES:
        page.open(f"http://127.0.0.1:{kept_port}{path}")
        page.until(f"document.readyState === 'complete' && location.pathname === {json.dumps(path.split('?')[0])}")
        assert page.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), path


@pytest.mark.mcp_suites
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_that_keeps_people_out(address: str, kept_port: int, page: Page, scheme: str) -> None:
    axe = Path(os.environ["CODEQUARRY_MCP_TOOLS"], "node_modules/axe-core/axe.min.js").read_text()
    page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    paths = [
        "/",
        "/?q=open",
        "/folder",
        "/file?path=quarry/io/index.py&line=7",
        "/symbol",
        "/symbol?name=open",
        "/index",
    ]
    kept = [f"http://127.0.0.1:{kept_port}{path}" for path in KEEPER_PAGES]
    for path in [*(f"{address}{path}" for path in paths), *kept]:
        page.open(path)
        page.until(f"document.readyState === 'complete' && location.href === {json.dumps(path)}")
        page.run("document.querySelectorAll('details').forEach(each => { each.open = true; }); 0")
        page.run(f"{axe}; 0")
        page.run("axe.run().then(found => { window.violations = found.violations.map(each => each.id); }); 0")
        assert page.until("window.violations && ({found: window.violations})")["found"] == [], path

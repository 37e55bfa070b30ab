"""The page as an app within a client: Chromium, and the bridge of the SDK of MCP Apps, from `make mcp-tools`."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from fastmcp import Client
from mcp.shared.exceptions import MCPError

from codequarry.schemas.settings.load import ServingSettings
from codequarry.serving.engine.engine import Engine
from codequarry.serving.http.app import Service
from tests.assets.pages.browser import Page, browsing, installed
from tests.conformance.node import node
from tests.serving.live import running

CHROMIUM = installed()
pytestmark = [
    pytest.mark.mcp_suites,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; Debian has it as the package chromium"),
]
# What the specification has a client set for an app that names no domains; the client's own script reads for the app.
POLICY = "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; connect-src 'self'"
PAGE = """<!doctype html><meta charset=utf-8><title>Client</title>
<body data-query="{query}" data-theme="{theme}">
<iframe sandbox="allow-scripts allow-same-origin" style="width:100%"></iframe>
<script type="module" src="/host.js"></script>"""
APP = "document.querySelector('iframe').contentDocument"


@pytest.fixture(scope="module")
def host_script(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The client's script with the SDK in one file."""
    folder = tmp_path_factory.mktemp("host")
    source = folder / "host.js"
    source.write_bytes(Path(__file__).with_name("app_host.js").read_bytes())
    (folder / "node_modules").symlink_to(Path(os.environ["CODEQUARRY_MCP_TOOLS"], "node_modules"))
    done = node("esbuild", str(source), "--bundle", "--format=esm", f"--outfile={folder / 'all.js'}", home=folder)
    assert done.returncode == 0, done.stderr
    return (folder / "all.js").read_bytes()


@pytest.fixture
def client_address(symbol_engine: Engine, host_script: bytes) -> Iterator[str]:
    """Address of a client whose server is the service, over HTTP."""
    with running(Service(Engine(symbol_engine.bundle, ServingSettings()), "0")) as port:

        class Host(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                given = {name: values[0] for name, values in parse_qs(parts.query).items()}
                if parts.path == "/read":
                    body, kind = asyncio.run(read(given["uri"])), "application/json"
                elif parts.path == "/host.js":
                    body, kind = host_script, "text/javascript"
                else:
                    page = PAGE.format(query=given.get("query", ""), theme=given.get("theme", "light"))
                    body, kind = page.encode(), "text/html"
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Security-Policy", POLICY)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None:
                """Print nothing."""

        async def read(uri: str) -> bytes:
            async with Client(f"http://127.0.0.1:{port}/mcp") as client:
                try:
                    found = await client.read_resource(uri)
                except MCPError as error:
                    return json.dumps({"error": error.error.message}).encode()
            contents = [{"uri": uri, "mimeType": each.mime_type, "text": each.text} for each in found]
            return json.dumps({"contents": contents}).encode()

        with ThreadingHTTPServer(("127.0.0.1", 0), Host) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            yield f"http://127.0.0.1:{server.server_address[1]}"
            server.shutdown()
            thread.join()


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    assert CHROMIUM is not None
    with browsing(CHROMIUM, tmp_path, width=900, height=900) as page:
        yield page


def test_the_app_shows_the_models_search_and_is_searched_and_read_within_the_client(
    client_address: str, page: Page
) -> None:
    page.open(f"{client_address}/?query=open+the+index&theme=dark")
    page.until("!!document.querySelector('iframe')")
    page.until(f"{APP} && {APP}.querySelectorAll('#results li').length > 1")
    assert page.run(f"{APP}.querySelector('input[name=q]').value") == "open the index"
    assert page.run(f"{APP}.querySelector('input[name=lang]').value") == "python"
    assert page.run(f"getComputedStyle({APP}.body).backgroundColor") == "rgb(20, 23, 27)", "the client's theme"
    page.until(f"document.querySelector('iframe').clientHeight >= {APP}.documentElement.getBoundingClientRect().height")

    page.run(
        f"{APP}.querySelector('input[name=lang]').value = ''; {APP}.querySelector('input[name=q]').value = 'fetchIt'"
    )
    page.run(f"{APP}.querySelector('form').dispatchEvent(new Event('input', {{bubbles: true}}))")
    page.until(f"{APP}.querySelector('#results').textContent.includes('app.ts')")
    page.run(f"[...{APP}.querySelectorAll('a.to')].find(each => each.textContent.includes('app.ts')).click()")
    page.until(f"!!{APP}.querySelector('pre[data-uri] .n, pre[data-uri] .d')")
    page.run(f"{APP}.querySelector('pre[data-uri] .n, pre[data-uri] .d').click()")
    page.until(f"{APP}.body.textContent.includes('definition')")
    page.run(f"{APP}.querySelector('#back').click()")
    page.until(f"!!{APP}.querySelector('pre[data-uri]')")


def test_the_form_is_kept_while_a_filter_is_half_typed(client_address: str, page: Page) -> None:
    page.open(f"{client_address}/?query=open+the+index")
    page.until("!!document.querySelector('iframe')")
    page.until(f"{APP} && {APP}.querySelectorAll('#results li').length > 1")
    page.run(f"{APP}.querySelector('input[name=lang]').value = 'pyt'")
    page.run(f"{APP}.querySelector('form').dispatchEvent(new Event('input', {{bubbles: true}}))")
    page.until(f"{APP}.querySelector('#results').textContent.includes('pyt')")
    assert page.run(f"{APP}.querySelector('input[name=q]').value") == "open the index"


def test_without_a_search_the_app_opens_empty_and_says_what_goes_wrong(client_address: str, page: Page) -> None:
    page.open(client_address)
    page.until("!!document.querySelector('iframe')")
    page.until(f"{APP} && !!{APP}.querySelector('form.search')")
    page.run(f"{APP}.querySelector('main').innerHTML = '<a href=\"/file?path=quarry/nothing.py\">gone</a>'")
    page.run(f"{APP}.querySelector('main a').click()")
    page.until(f"!!{APP}.querySelector('p.error')")

"""Streamable HTTP over loopback, with raw requests and with a client of either era."""

from __future__ import annotations

import asyncio
import http.client
import json
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import uvicorn
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport

from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.settings.load import ServingSettings
from codequarry.serving.engine.engine import Engine
from codequarry.serving.http import app as serving_http
from codequarry.serving.http.app import Service
from codequarry.serving.server.mcp import listed_tools
from tests.serving.bundles.corpus import SESSION
from tests.serving.live import raw, request, serving, tool_call

HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "search", "arguments": {"query": "open"}}}
MODERN = {
    **HEADERS, "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "search",
}  # fmt: skip
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.fixture(scope="module")
def port(engine) -> Iterator[int]:
    settings = ServingSettings(host="127.0.0.1", port=0, allowed_hosts=("code.example.org",))
    listener = serving_http.listen(settings.host, settings.port)
    service = Service(Engine(engine.bundle, settings), "0")
    server = uvicorn.Server(serving_http.uvicorn_config(serving_http.http_app(service), settings))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
    thread.start()
    yield listener.getsockname()[1]
    server.should_exit = True
    thread.join()
    listener.close()


def post(port: int, body: Any, headers: dict[str, str], path: str = "/mcp") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request("POST", path, raw, headers)
    response = connection.getresponse()
    try:
        return response.status, response.read()
    finally:
        connection.close()


@pytest.mark.parametrize("era", ["2026-07-28", "2025-11-25"])
def test_a_client_of_either_era_searches_and_fetches(port: int, era: str) -> None:
    async def talk() -> None:
        transport = StreamableHttpTransport(f"http://127.0.0.1:{port}/mcp")
        async with Client(transport, mode="legacy" if era == "2025-11-25" else "auto") as client:
            assert client.protocol_version == era
            found = await client.call_tool_mcp("search", {"query": "where are expired sessions removed"})
            assert found.structured_content["results"][0]["id"] == str(SESSION.id)
            read = await client.call_tool_mcp("fetch", {"id": str(SESSION.id)})
            assert read.structured_content["text"] == SESSION.text
            failed = await client.call_tool_mcp("fetch", {"id": "none"})
            assert failed.structured_content["error"]["code"] == "NOT_FOUND"
            for name, result in (("search", found), ("fetch", read)):
                schema = next(tool["outputSchema"] for tool in listed_tools() if tool["name"] == name)
                jsonschema.validate(result.structured_content, schema)

    asyncio.run(talk())


def modern_call() -> dict[str, Any]:
    return {**CALL, "params": {**CALL["params"], "_meta": ENVELOPE}}


def test_a_modern_call_needs_no_session_and_runs_no_listing(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from fastmcp import FastMCP

    def listing(*_: object, **__: object) -> None:
        raise AssertionError("tools/list ran")

    monkeypatch.setattr(FastMCP, "list_tools", listing)
    status, body = post(port, modern_call(), MODERN)
    assert status == 200, body
    assert json.loads(body)["result"]["structuredContent"]["results"]


def test_a_legacy_call_needs_no_session(port: int) -> None:
    status, body = post(port, CALL, {**HEADERS, "MCP-Protocol-Version": "2025-11-25"})
    assert status == 200, body
    assert json.loads(body)["result"]["structuredContent"]["results"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example.com"}, 421),
        ({"Host": "evil.example.com:80"}, 421),
        ({"Host": "127.0.0.1.evil.example.com"}, 421),
        ({"Origin": "https://evil.example.com"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "code.example.org"}, 200),
        ({"Host": "localhost:1"}, 200),
        ({"Origin": "http://localhost:3000"}, 200),
    ],
)
@pytest.mark.parametrize("modern", [True, False])
def test_row_17_foreign_hosts_and_origins_are_turned_away(port: int, headers, status, modern) -> None:
    found, _ = post(port, modern_call() if modern else CALL, {**(MODERN if modern else HEADERS), **headers})
    assert found == status


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
@pytest.mark.parametrize("modern", [True, False])
def test_only_json_is_read(port: int, kind, modern) -> None:
    found, _ = post(port, modern_call() if modern else CALL, {**(MODERN if modern else HEADERS), "Content-Type": kind})
    assert 400 <= found < 500


def test_a_body_above_a_mebibyte_is_refused(port: int) -> None:
    assert post(port, b" " * ((1 << 20) + 1), HEADERS)[0] == 413


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"[" * 100_000, b'{"jsonrpc":"2.0"}', b"\xff\xfe", b"null"])
@pytest.mark.parametrize("modern", [True, False])
def test_malformed_bodies_are_client_errors(port: int, body, modern) -> None:
    status, answer = post(port, body, MODERN if modern else HEADERS)
    assert 400 <= status < 500
    assert b"Traceback" not in answer


def test_the_address_must_be_free(port: int) -> None:
    with pytest.raises(UnavailableError, match=r"cannot listen on 127\.0\.0\.1") as caught:
        serving_http.listen("127.0.0.1", port)
    assert "--port" in caught.value.suggestion


@pytest.mark.parametrize("number", [None, 1.5, 1.0, True, [], {}])
@pytest.mark.parametrize("modern", [True, False])
def test_an_id_that_is_none_gets_an_error_that_says_what_one_is(port: int, number: object, modern: bool) -> None:
    """Prevents the request that is taken for a notification: 202, and no answer ever."""
    call = {**(modern_call() if modern else CALL), "id": number}
    status, body = post(port, call, MODERN if modern else HEADERS)
    answer = json.loads(body)
    assert (status, answer["id"], answer["error"]["code"]) == (400, None, -32600)
    assert "a string or an integer" in answer["error"]["message"]


@pytest.mark.parametrize("modern", [True, False])
def test_a_notification_needs_no_id(port: int, modern: bool) -> None:
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
    headers = {**MODERN, "Mcp-Method": note["method"]} if modern else HEADERS
    assert post(port, note, headers)[0] == 202


@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_server_orderly(lexical_root: Path, tmp_path: Path, ending: signal.Signals) -> None:
    """What it wrote of its work is written, connections that hang hold nothing up, and nothing is complained about."""
    folder = tmp_path / "telemetry"
    told = f'[telemetry]\nfolder = "{folder}"\npools = true\n'
    with serving(lexical_root, tmp_path, settings=told) as served:
        body, headers = tool_call("search", {"query": "open"}, "2026-07-28")
        assert request(served.port, "POST", "/mcp", body, headers)[0] == 200
        announced = served.log.read_text()
        with raw(served.port, b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{"):
            served.process.send_signal(ending)
            assert served.process.wait(30) == (130 if ending == signal.SIGINT else 0)
        assert served.log.read_text() == announced
    assert list(folder.rglob("*.parquet"))


@pytest.mark.parametrize("kind", ["allowed_hosts", "allowed_origins"])
@pytest.mark.parametrize("pattern", ["*", "*:*", "?*", "https://*"])
def test_row_17_no_setting_turns_the_guard_off_in_silence(
    run, lexical_root: Path, monkeypatch, kind: str, pattern: str
) -> None:
    if (pattern, kind) in {("https://*", "allowed_hosts"), ("*:*", "allowed_origins")}:
        pattern = "*"
    monkeypatch.setattr("codequarry.serving.http.app.serve_http", lambda *_: None)
    monkeypatch.setenv(f"CODEQUARRY__SERVING__{kind.upper()}", json.dumps(["code.example.org", pattern]))
    code, _, err = run("serve", "--port", "0", "--root", lexical_root)
    assert code == 2
    assert "--allow-any-host" in err
    code, _, err = run("serve", "--port", "0", "--root", lexical_root, "--allow-any-host")
    assert code == 0
    assert f'"{pattern}"' in err


@pytest.mark.parametrize("host", ["code.example.org", "*.example.org", "::1", "[::1]:80", "192.0.2.1:8321"])
def test_names_and_parts_of_them_leave_the_guard_standing(run, lexical_root: Path, monkeypatch, host: str) -> None:
    monkeypatch.setattr("codequarry.serving.http.app.serve_http", lambda *_: None)
    monkeypatch.setenv("CODEQUARRY__SERVING__ALLOWED_HOSTS", json.dumps([host]))
    assert run("serve", "--port", "0", "--root", lexical_root)[0] == 0

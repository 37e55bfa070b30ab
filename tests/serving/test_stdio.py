"""The server as a local client starts it: a subprocess speaking on stdin and stdout."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from codequarry.serving.mcp_server import listed_tools
from tests.serving.corpus import INDEX_OPEN, SESSION

COMMAND = ["-m", "codequarry.serving.cli", "serve", "--stdio", "--root"]


@pytest.mark.parametrize("era", ["2026-07-28", "2025-11-25"])
def test_a_stdio_client_searches_and_fetches(bundle_root: Path, tmp_path: Path, era: str) -> None:
    # A folder that belongs to somebody else must not configure the server.
    (tmp_path / ".env").write_text("FASTMCP_LOG_LEVEL=nonsense\n")

    async def talk() -> None:
        transport = StdioTransport(
            sys.executable, [*COMMAND, str(bundle_root)], cwd=str(tmp_path), keep_alive=False, log_file=tmp_path / "log"
        )
        async with Client(transport, mode="legacy" if era == "2025-11-25" else "auto") as client:
            assert client.protocol_version == era
            assert [tool.name for tool in await client.list_tools()] == ["search", "fetch", "healthz"]
            found = await client.call_tool_mcp("search", {"query": "where are expired sessions removed"})
            assert found.structured_content["results"][0]["id"] == str(SESSION.id)
            read = await client.call_tool_mcp("fetch", {"objectIds": [str(INDEX_OPEN.id)]})
            assert read.structured_content["objects"][0]["content"] == INDEX_OPEN.text
            for name, result in (("search", found), ("fetch", read)):
                schema = next(tool["outputSchema"] for tool in listed_tools() if tool["name"] == name)
                jsonschema.validate(result.structured_content, schema)
                assert json.loads(result.content[0].text) == result.structured_content

    asyncio.run(talk())


def test_stdout_carries_nothing_but_the_protocol(bundle_root: Path, tmp_path: Path) -> None:
    requests = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize",
         "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call",
         "params": {"name": "search", "arguments": {"query": "open"}}},
        {"jsonrpc": "2.0", "id": 3, "method": "tools/call",
         "params": {"name": "search", "arguments": {"query": "\0"}}},
    ]  # fmt: skip
    served = subprocess.Popen(
        [sys.executable, *COMMAND, str(bundle_root)], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    answers = []
    with served:
        for request in requests:
            served.stdin.write(json.dumps(request) + "\n")
            served.stdin.flush()
            if "id" in request:
                answers.append(json.loads(served.stdout.readline()))
        served.stdin.close()
        rest = served.stdout.read()
    assert rest == ""
    assert [answer["id"] for answer in answers] == [1, 2, 3]
    assert answers[1]["result"]["structuredContent"]["results"]
    assert answers[2]["result"]["structuredContent"]["error"]["code"] == "INVALID_ARGUMENT"
    assert served.returncode == 0


def test_a_server_without_a_bundle_says_so_and_leaves(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, *COMMAND, str(tmp_path)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert "no bundle is published" in done.stderr
    assert "codequarry index" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_interrupt_ends_the_server_at_once_and_it_logs_nothing(bundle_root: Path, tmp_path: Path) -> None:
    """Prevents the server that spins at full speed after Ctrl-C until its client closes stdin."""
    served = subprocess.Popen(
        [sys.executable, *COMMAND, str(bundle_root)], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with served:
        served.stdin.write('{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        served.stdin.flush()
        served.stdout.readline()
        served.send_signal(signal.SIGINT)
        try:
            assert served.wait(10) != 0
        finally:
            served.kill()
        assert served.stderr.read() == ""


def test_a_search_leaves_nothing_in_the_home_folder(bundle_root: Path, tmp_path: Path) -> None:
    """Prevents ONNX Runtime's telemetry: a device id, a database of events and a sender of them."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ORT_", "XDG_"))}
    command = [sys.executable, "-m", "codequarry.serving.cli", "search", "open", "--root", str(bundle_root)]
    done = subprocess.run(
        command, cwd=tmp_path, env={**environment, "HOME": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.rglob("*")) == []

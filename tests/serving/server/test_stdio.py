"""The server as a local client starts it: a subprocess speaking on stdin and stdout."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pyarrow.parquet as pq
import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from codequarry.serving.server.mcp import listed_tools
from tests.serving.bundles.corpus import INDEX_OPEN, SESSION

SEARCH = '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"search","arguments":{"query":%s}}}'
INITIALIZE = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    '"clientInfo":{"name":"t","version":"0"}}}'
)
INITIALIZED = '{"jsonrpc":"2.0","method":"notifications/initialized"}'
COMMAND = ["-m", "codequarry.pipelines.cli", "serve", "--stdio", "--root"]


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
            assert [tool.name for tool in await client.list_tools()] == [tool["name"] for tool in listed_tools()]
            found = await client.call_tool_mcp("search", {"query": "where are expired sessions removed"})
            assert found.structured_content["results"][0]["id"] == str(SESSION.id)
            read = await client.call_tool_mcp("fetch", {"objectIds": [str(INDEX_OPEN.id)]})
            assert read.structured_content["objects"][0]["content"] == INDEX_OPEN.text
            said = await client.call_tool_mcp("search_code", {"pattern": r"os\.open\(\w+", "mode": "regex"})
            assert [one["preview"] for one in said.structured_content["results"]] == [INDEX_OPEN.text.splitlines()[2]]
            for name, result in (("search", found), ("fetch", read), ("search_code", said)):
                schema = next(tool["outputSchema"] for tool in listed_tools("full") if tool["name"] == name)
                jsonschema.validate(result.structured_content, schema)
                assert result.content[0].text
            url = read.structured_content["objects"][0]["url"]
            assert (await client.read_resource(url))[0].text == INDEX_OPEN.text

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
    assert done.returncode == 2
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


STARTING_A_THREAD = """
import os, signal, threading, time
from codequarry.serving.server.stdio import close_before_ending
close_before_ending(lambda: print("closed", flush=True))
with threading._active_limbo_lock:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(30)
"""


def test_a_signal_that_comes_while_a_thread_is_started_ends_the_server() -> None:
    """Prevents the server that hung for ever: its signal handler waited for a lock of the code it had interrupted."""
    done = subprocess.run([sys.executable, "-c", STARTING_A_THREAD], capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, "closed\n")


TAKEN_BEFORE_A_WAIT = """
import os, select, signal, threading, time
from codequarry.serving.server.stdio import close_before_ending
close_before_ending(lambda: print("closed", flush=True))

def send():
    time.sleep(1)  # until the main thread waits
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)  # not to the thread that waits: its wait goes on
    threading.Event().wait()

threading.Thread(target=send, daemon=True).start()
select.select([os.pipe()[0]], [], [])
"""


def test_a_signal_that_does_not_interrupt_the_wait_of_the_main_thread_ends_the_server() -> None:
    """Prevents the server that went on until its client said something: the handler runs on the main thread alone."""
    done = subprocess.run([sys.executable, "-c", TAKEN_BEFORE_A_WAIT], capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, "closed\n")


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_no_row_of_the_pool_log_is_lost_by_a_signal(bundle_root: Path, tmp_path: Path, ending: signal.Signals) -> None:
    """What had not been written when SIGTERM came was gone."""
    folder = tmp_path / "telemetry"
    (tmp_path / "own.toml").write_text(f'[telemetry]\nfolder = "{folder}"\npools = true\n')
    served = subprocess.Popen(
        [sys.executable, *COMMAND, str(bundle_root), "--settings", str(tmp_path / "own.toml")],
        cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with served:
        for line in (INITIALIZE, INITIALIZED, SEARCH % '"open"'):
            served.stdin.write(line + "\n")
            served.stdin.flush()
            if '"id"' in line:
                served.stdout.readline()
        served.send_signal(ending)
        assert served.wait(30) == -ending
        assert served.stderr.read() == ""
    (part,) = folder.rglob("*.parquet")
    assert pq.read_table(part).num_rows > 0


def test_a_search_leaves_nothing_in_the_home_folder(bundle_root: Path, tmp_path: Path) -> None:
    """Prevents ONNX Runtime's telemetry: a device id, a database of events and a sender of them."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ORT_", "XDG_"))}
    command = [sys.executable, "-m", "codequarry.pipelines.cli", "search", "open", "--root", str(bundle_root)]
    done = subprocess.run(
        command, cwd=tmp_path, env={**environment, "HOME": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize(
    ("line", "number", "code"),
    [
        (SEARCH % '"\\ud800"', 7, -32600),
        ('{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', None, -32600),
        ('{"jsonrpc":"2.0","id":null,"method":"ping"}', None, -32600),
        ('{"jsonrpc":"2.0","id":1.5,"method":"ping"}', None, -32600),
        ('{"jsonrpc":"2.0","id":true,"method":"ping"}', None, -32600),
        ('{"jsonrpc":"2.0","id":8,"method":9}', 8, -32600),
        ('{"id":9,"method":"ping"}', 9, -32600),
        ("[]", None, -32600),
        ("[" * 100_000, None, -32700),
        ("{", None, -32700),
    ],
)  # fmt: skip
def test_a_line_that_is_no_message_gets_an_error(
    server: subprocess.Popen[str], line: str, number: object, code: int
) -> None:
    """Prevents the client that waits for ever: the protocol drops what it cannot read."""
    server.stdin.write(f'{line}\n\n{{"jsonrpc":"2.0","id":"next","method":"ping"}}\n')
    server.stdin.flush()
    answers = [json.loads(server.stdout.readline()) for _ in range(2)]
    error, after = sorted(answers, key=lambda answer: "result" in answer)
    assert (error["id"], error["error"]["code"]) == (number, code)
    assert after == {"jsonrpc": "2.0", "id": "next", "result": {}}


@pytest.fixture(scope="module")
def server(bundle_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, *COMMAND, str(bundle_root)], cwd=tmp_path_factory.mktemp("client"), stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as served:  # fmt: skip
        yield served
        served.stdin.close()
        assert served.wait(30) == 0

"""A server in a repository without an index starts at once, says how far its first index is, and then serves it."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from codequarry.serving.server.mcp import listed_tools
from tests.pipelines.repositories import commit, git
from tests.serving.live import request

FILES: dict[str, str | bytes] = {
    "app.py": "def pour_tea(cup):\n    return cup + 1\n",
    "deep/down/leaf.py": "from app import pour_tea\n\nprint(pour_tea(2))\n",
}
COMMAND = [sys.executable, "-P", "-m", "codequarry.pipelines.cli", "serve"]
DEADLINE_S = 120.0


@pytest.fixture
def environment(shared_store: Path) -> dict[str, str]:
    return {**os.environ, "CODEQUARRY__PATHS__STORE": str(shared_store)}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    commit(tmp_path / "app", FILES)
    return tmp_path / "app"


@contextmanager
def delayed(repository: Path) -> Iterator[None]:
    """Keep anybody from indexing a repository for the block, as another run would."""
    work = repository / ".codequarry" / "work"
    work.mkdir(parents=True)
    with (work / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def stdio(folder: Path, environment: dict[str, str], log: Path) -> Client[Any]:
    transport = StdioTransport(
        COMMAND[0], [*COMMAND[1:], "--stdio"], env=environment, cwd=str(folder), keep_alive=False, log_file=log
    )
    return Client(transport)


async def asked_until(client: Client[Any], wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The first wanted answer of a search, asked again and again."""
    end = time.monotonic() + DEADLINE_S
    while True:
        answer = (await client.call_tool_mcp("search", {"query": "pour tea"})).structured_content
        if wanted(answer):
            return answer
        assert time.monotonic() < end, answer
        await asyncio.sleep(0.1)


def test_a_client_lists_tools_hears_how_far_it_is_and_then_searches(
    repository: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    async def talk() -> None:
        with delayed(repository):
            async with stdio(repository / "deep" / "down", environment, tmp_path / "log") as client:
                assert [tool.name for tool in await client.list_tools()] == [tool["name"] for tool in listed_tools()]
                said = await asked_until(client, lambda answer: "another process" in json.dumps(answer))
                assert said["error"]["code"] == "UNAVAILABLE"
                assert said["error"]["retryable"] is True
                assert said["error"]["message"].startswith("app is being indexed for the first time: ")
                assert "call again in" in said["error"]["suggestion"]
                health = (await client.call_tool_mcp("healthz", {})).structured_content
                assert health["status"] == "starting"
                assert health["first_index"].startswith("app is being indexed")
                (repository / ".codequarry" / "work" / ".lock").unlink()  # the lock goes with the file
                answer = await asked_until(client, lambda answer: "error" not in answer)
                assert answer["results"][0]["metadata"]["uri"] == "app/app.py"
                health = (await client.call_tool_mcp("healthz", {})).structured_content
                assert health["status"] == "ok"
                assert "first_index" not in health
                # The record of folders came after the start of this server, which reads it all the same.
                (repository / "app.py").write_text("import os\n\n\ndef pour_tea(cup):\n    return cup\n")
                await asked_until(client, lambda answer: "changed on disk" in json.dumps(answer["limits"]))

    asyncio.run(talk())
    log = (tmp_path / "log").read_text()
    assert f"indexing {repository} beside the server" in log
    assert "indexed 2 files" in log
    assert not (repository / "deep" / "down" / ".codequarry").exists()


@pytest.mark.parametrize("files", [{}, {"picture.bin": b"\0\1\2"}], ids=["nothing", "nothing that is text"])
def test_a_first_index_that_fails_is_told_and_the_server_stays(
    files: dict[str, str | bytes], environment: dict[str, str], tmp_path: Path
) -> None:
    repository = tmp_path / "app"
    commit(repository, files)

    async def talk() -> None:
        async with stdio(repository, environment, tmp_path / "log") as client:
            said = await asked_until(client, lambda answer: "failed" in json.dumps(answer))
            assert said["error"]["message"].startswith("the first index of app failed: app: no file ")
            assert "check the path, .gitignore and [sources] exclude" in said["error"]["suggestion"]
            assert str(tmp_path) not in json.dumps(said)
            assert (await client.call_tool_mcp("healthz", {})).structured_content["status"] == "unavailable"
            # Once somebody mends it, the server that stayed serves it.
            (repository / "app.py").write_text("def pour_tea(cup):\n    return cup + 1\n")
            index = [*COMMAND[:-1], "index"]
            subprocess.run(index, cwd=repository, env=environment, check=True, capture_output=True)
            await asked_until(client, lambda answer: "error" not in answer)

    asyncio.run(talk())
    log = (tmp_path / "log").read_text()
    assert "[sources] exclude" in log
    assert "Traceback" not in log


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_the_process_that_indexes_ends_with_the_server(
    repository: Path, environment: dict[str, str], ending: signal.Signals
) -> None:
    with delayed(repository):
        server = subprocess.Popen(
            [*COMMAND, "--stdio"], cwd=repository, env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        with server:
            for line in server.stderr:
                if "another process is indexing it" in line:
                    break
            server.send_signal(ending)
            # Both write there, so that it ends when the last one does.
            rest = server.stderr.read()
            server.wait(DEADLINE_S)
    assert "Traceback" not in rest


def test_over_http_it_is_not_ready_until_it_serves(
    repository: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with log.open("wb") as errors:
        server = subprocess.Popen([*COMMAND, "--port", "0"], cwd=repository, env=environment, stderr=errors)
    try:
        end = time.monotonic() + DEADLINE_S
        while (announced := re.search(r"at http://127\.0\.0\.1:(\d+)/mcp", log.read_text())) is None:
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < end
            time.sleep(0.02)
        port = int(announced[1])
        seen: list[tuple[int, str]] = []
        while not seen or seen[-1][0] != 200:
            assert time.monotonic() < end, seen[-1]
            status, body = request(port, "GET", "/healthz")
            health = json.loads(body)
            assert str(tmp_path) not in body.decode()
            assert (status == 503) == (health["status"] == "starting")
            assert (status == 503) == ("first_index" in health)
            seen.append((status, health["status"]))
            time.sleep(0.05)
        assert request(port, "POST", "/mcp/tools/search", b'{"query": "pour tea"}')[0] == 200
    finally:
        server.terminate()
        server.wait(DEADLINE_S)
    assert server.returncode == 0


@pytest.mark.parametrize("where", ["no repository", "another root"])
def test_elsewhere_a_server_without_an_index_says_so_and_leaves(
    where: str, repository: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    options = ["--root", str(tmp_path / "bundles")] if where == "another root" else []
    done = subprocess.run(
        [*COMMAND, "--stdio", *options], cwd=plain if where == "no repository" else repository,
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert "no bundle is published" in done.stderr
    assert not (repository / ".codequarry").exists()


def test_a_repository_without_a_commit_is_indexed_as_it_lies_there(environment: dict[str, str], tmp_path: Path) -> None:
    repository = tmp_path / "app"
    repository.mkdir()
    git(repository, "init", "--quiet")
    (repository / "app.py").write_text("def pour_tea(cup):\n    return cup + 1\n")

    async def talk() -> None:
        async with stdio(repository, environment, tmp_path / "log") as client:
            await asked_until(client, lambda answer: "error" not in answer)

    asyncio.run(talk())

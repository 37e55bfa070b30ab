"""A server of a fleet's URL pulls each generation in a process beside it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from codequarry.schemas.fleet.replica import ReplicaRoot
from tests.pipelines.cli.watch.watch_process import COMMAND, DEADLINE_S
from tests.pipelines.conftest import run_here
from tests.pipelines.fleet.fleets import Fleet, wait_until

SERVE = [*COMMAND, "serve", "--stdio", "--fleet"]


async def asked_until(client: Client[Any], pattern: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Search for a pattern until the answer is as wished."""
    while True:
        answer = (await client.call_tool_mcp("search_code", {"pattern": pattern})).structured_content
        if holds(answer):
            return answer
        await asyncio.sleep(0.1)


def test_a_server_pulls_each_generation_and_its_follower_ends_with_it(local: Fleet, tmp_path: Path) -> None:
    local("build")
    replica, log = ReplicaRoot(local.home / "replica"), tmp_path / "log"

    async def talk() -> None:
        transport = StdioTransport(
            SERVE[0], [*SERVE[1:], local.url, "--share", "2/3", "--root", str(replica.path)],
            cwd=str(tmp_path), env=dict(os.environ), keep_alive=False, log_file=log,
        )  # fmt: skip
        async with Client(transport) as client:
            answer = await asked_until(client, "return", lambda answer: bool(answer["results"]))
            assert answer["bundle"]["version"] == "fleet-1"
            assert {one["uri"].partition("/")[0] for one in answer["results"]} == {"cat", "dog"}
            local.save("cat", "quokka")
            local("build")
            answer = await asked_until(client, "quokka", lambda answer: bool(answer["results"]))
            assert answer["bundle"]["version"] == "fleet-2"

    asyncio.run(asyncio.wait_for(talk(), DEADLINE_S))
    assert list(replica.read().own_bundles) == ["b0002"]
    wait_until(lambda: "stopped following" in log.read_text(), log.read_text())
    assert "held is generation 2, 1 bundle of 3, share 2/3" in " ".join(log.read_text().split())


def test_a_server_that_is_killed_leaves_no_follower_and_the_next_one_follows(local: Fleet) -> None:
    local("build")
    with _server(local) as first:
        told = _lines(first)
        assert any("knows more clients" in line for line in told)
        with _server(local) as second:
            waiting = _lines(second)
            assert any("waiting for it to end" in line for line in waiting)
            assert any("knows more clients" in line for line in waiting)  # it serves what the first one pulled
            assert "another process is following" in local("follow", "--root", "replica", code=2)
            (follower,) = _children(first)
            first.kill()
            assert any("following" in line for line in waiting)
            wait_until(lambda: not Path(f"/proc/{follower}").exists(), "the follower outlived its server")
            (follower,) = _children(second)
            os.kill(follower, signal.SIGKILL)
            assert any(
                "`codequarry fleet` ended with exit code -9: the server goes on with the generation" in line
                for line in waiting
            )
            assert second.poll() is None
            second.terminate()
            assert second.stderr is not None
            second.stderr.read()


def _server(fleet: Fleet) -> subprocess.Popen[str]:
    words = ["serve", "--fleet", fleet.url, "--root", "replica", "--port", "0"]
    environment = {**os.environ, "COLUMNS": "300"}
    return subprocess.Popen([*COMMAND, *words], cwd=fleet.home, text=True, stderr=subprocess.PIPE, env=environment)


def _lines(server: subprocess.Popen[str]) -> Any:
    assert server.stderr is not None
    return iter(server.stderr.readline, "")


def _children(server: subprocess.Popen[str]) -> list[int]:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(server.pid)], capture_output=True, text=True)
    return list(map(int, listed.stdout.split()))


def test_a_server_says_why_nothing_is_held(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/nowhere"
    done = run_here(tmp_path, {"COLUMNS": "300"}, "serve", "--stdio", "--fleet", url)
    said = " ".join(done.stderr.split())
    assert done.returncode == 2
    assert f"no generation of {url} is held under" in said and "its last lines above say why" in said


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--fleet", "replica", "--share", "1/2"), "--share without the URL of a fleet"),
        (("--share", "1/2"), "--share without the URL of a fleet"),
        (("--fleet", "replica", "--root", "elsewhere"), "--fleet with --root"),
        (("--fleet", "file:///shared", "--watch"), "--fleet with --watch"),
        (("--fleet", "file:///shared", "--share", "3/2"), "is no share of a fleet"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(tmp_path: Path, arguments: tuple[str, ...], sentence: str) -> None:
    done = run_here(tmp_path, {"COLUMNS": "200"}, "serve", "--stdio", *arguments)
    assert done.returncode == 2
    assert sentence in " ".join(done.stderr.split())


def test_a_generation_beyond_the_limit_of_a_replica_is_not_taken(local: Fleet) -> None:
    local("build")
    local("pull", "--root", "replica")
    local.write("replica_max_mb = 1")
    local.save("ant", "more")
    local("build")
    size = sum(each.size_bytes for each in local.current.bundles.values()) / 1e6
    said = local("pull", "--root", "replica", code=2)
    assert f"share 1/1 of generation 2 has {size:,.0f} MB in 3 bundles" in said
    assert "replica_max_mb allows 1; generation 1 stays" in said and "such as 1/2" in said
    assert ReplicaRoot(local.home / "replica").read().fleet.generation == 1


def test_the_place_of_a_fleet_is_named_in_the_command(local: Fleet, tmp_path: Path) -> None:
    local("build")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = run_here(elsewhere, {"COLUMNS": "200"}, "fleet", "pull", local.url, "--share", "1/3", "--root", "here")
    assert done.returncode == 0, done.stderr
    assert list(ReplicaRoot(elsewhere / "here").read().own_bundles) == ["b0001"]

"""The server as users start it: it follows CURRENT over stdio and HTTP, and after a kill answers as before (F15)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from codequarry.schemas.bundle.layout import Current
from codequarry.schemas.wire.search import SearchAnswer
from tests.serving.bundles.versions import MARKER, flip, number_of, publish, until

SERVE = [sys.executable, "-m", "codequarry.pipelines.cli", "serve", "--root"]
QUICK = {**os.environ, "CODEQUARRY__SERVING__FOLLOW_INTERVAL_S": "0.05"}
GOLDEN = ("where are expired sessions removed", "Index.open", "address already in use", "max_open_files", MARKER)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, minilm_directory: Path) -> tuple[Path, list[Current]]:
    root = tmp_path_factory.mktemp("prepared")
    return root, [publish(root, number, encoder=minilm_directory) for number in range(2)]


@pytest.fixture
def root(prepared, tmp_path) -> Path:
    copied = shutil.copytree(prepared[0], tmp_path / "root")
    flip(copied, prepared[1][0])
    return copied


class Stdio:
    """A server on pipes, past its handshake."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.process = subprocess.Popen(
            [*SERVE, str(root), "--stdio"], cwd=folder, env=QUICK, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._number = 0
        info = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
        self._receive(self._send("initialize", info))
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send_search(self, query: str) -> int:
        """Ask without waiting for the answer."""
        return self._send("tools/call", {"name": "search", "arguments": {"query": query}})

    def search(self, query: str) -> dict[str, Any]:
        return self._receive(self.send_search(query))["structuredContent"]

    def _send(self, method: str, params: dict[str, Any]) -> int:
        self._number += 1
        self._write({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        return self._number

    def _write(self, message: dict[str, Any]) -> None:
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def _receive(self, number: int) -> dict[str, Any]:
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("id") == number:
                return message["result"]
        raise AssertionError(self.process.stderr.read())


@contextmanager
def stdio(root: Path, folder: Path) -> Iterator[Stdio]:
    server = Stdio(root, folder)
    with server.process:
        try:
            yield server
        finally:
            server.process.kill()


def test_a_stdio_server_follows(root, prepared, tmp_path) -> None:
    with stdio(root, tmp_path) as server:
        for number in (1, 0):
            flip(root, prepared[1][number])
            until(lambda number=number: number_of(SearchAnswer(**server.search(MARKER))) == number)


def test_a_server_killed_within_a_query_answers_the_same_after_a_restart(root, tmp_path) -> None:
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    with stdio(root, tmp_path) as server:
        golden = [server.search(query) for query in GOLDEN]
    assert all(answer["results"] for answer in golden)
    for _ in range(2):
        with stdio(root, tmp_path) as server:
            server.send_search(GOLDEN[0])
            server.process.kill()
    with stdio(root, tmp_path) as server:
        assert [server.search(query) for query in GOLDEN] == golden
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


def test_an_http_server_follows_and_its_probe_tells(root, prepared, tmp_path) -> None:
    server = subprocess.Popen(
        [*SERVE, str(root), "--port", "0"], cwd=tmp_path, env=QUICK, stderr=subprocess.PIPE, text=True
    )
    with server:
        try:
            url = server.stderr.readline().split()[-1].replace("/mcp", "/healthz")

            def health() -> dict[str, Any]:
                with urllib.request.urlopen(url, timeout=10) as response:
                    return json.load(response)

            assert health()["bundle"]["version"] == prepared[1][0].version
            flip(root, prepared[1][1])
            until(lambda: health()["bundle"]["version"] == prepared[1][1].version)
            assert health()["status"] == "ok"
            flip(root, b"garbage\n")
            until(lambda: not health()["follows_current"])
            state = health()
            assert state["bundle"]["version"] == prepared[1][1].version
            assert state["status"] == "degraded"
            assert str(root) not in json.dumps(state)
        finally:
            server.terminate()
        assert server.stderr.read().count("WARNING") == 1

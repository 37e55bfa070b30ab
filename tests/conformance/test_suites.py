"""Suites that others wrote, against the service as it is built: MCP conformance, and the Inspector in strict mode.

Run by `make test-mcp`, which installs them from npm below .codequarry and names that folder in CODEQUARRY_MCP_TOOLS.
What is expected to fail, and why, is in the YAML files beside this one; a failure that is not there fails the test, and
so does an entry there that passes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from codequarry.serving.server.mcp import listed_tools
from tests.conformance.node import node

pytestmark = [pytest.mark.mcp_suites]

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    command = [sys.executable, "-m", "tests.conformance.server"]
    with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.terminate()


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_conformance(url: str, tmp_path: Path, revision: str) -> None:
    expected = HERE / f"expected-failures-{revision}.yml"
    done = node(
        "conformance", "server", "--url", f"{url}/mcp", "--requirements", revision,
        "--expected-failures", str(expected), home=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "✓ tools-list" in done.stdout
    assert "✓ dns-rebinding-protection" in done.stdout


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize(("path", "profile"), [("/mcp", "default"), ("/mcp/all", "full"), ("/chatgpt/mcp", "chatgpt")])
def test_the_inspector_finds_our_schemas_portable(url: str, tmp_path: Path, era: str, path: str, profile: str) -> None:
    server = ["--cli", f"{url}{path}", "--transport", "http", "--protocol-era", era]
    done = node("mcp-inspector", *server, "--method", "tools/list", "--strict", home=tmp_path)
    assert done.returncode == 0, done.stderr
    found = [tool["name"] for tool in json.loads(done.stdout)["tools"] if not tool["name"].startswith("test_")]
    assert found == [tool["name"] for tool in listed_tools(profile)]


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_inspector_calls_a_tool(url: str, tmp_path: Path, era: str) -> None:
    server = ["--cli", f"{url}/mcp", "--transport", "http", "--protocol-era", era]
    done = node(
        "mcp-inspector", *server, "--method", "tools/call", "--tool-name", "search", "--tool-arg", "query=Index.open",
        home=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["structuredContent"]["results"][0]["metadata"]["uri"] == "quarry/io/index.py"

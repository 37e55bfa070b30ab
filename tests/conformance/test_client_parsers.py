"""Files that `codequarry install` writes, read by the clients themselves; `make test-clients` installs these from npm.

Codex, Gemini CLI and opencode list their servers. VS Code and Zed come from no registry; `jsonc-parser` is the one that
VS Code reads its files with.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.node import BIN

pytestmark = [pytest.mark.mcp_suites]

CODEQUARRY = (sys.executable, "-m", "codequarry.pipelines.cli")
COMMAND = [*CODEQUARRY, "serve", "--stdio", "--root", "/srv/bundles"]


@pytest.fixture
def tools() -> Path:
    if not (given := os.environ.get("CODEQUARRY_CLIENT_TOOLS")):
        pytest.skip("the clients are not installed; `make test-clients` installs them")
    return Path(given) / "node_modules"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A home of the test's, in which no client asks the network for anything."""
    (tmp_path / "work").mkdir()
    folders = {f"XDG_{name}_HOME": str(tmp_path / name.lower()) for name in ("CONFIG", "STATE", "DATA", "CACHE")}
    return {**os.environ, **folders, "HOME": str(tmp_path), "PATH": f"{BIN}:{os.environ['PATH']}", "NO_COLOR": "1"}


def run(environment: dict[str, str], *command: str | Path) -> str:
    done = subprocess.run(
        list(map(str, command)), env=environment, cwd=Path(environment["HOME"]) / "work", capture_output=True,
        text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def install(environment: dict[str, str], *arguments: str) -> None:
    run(environment, *CODEQUARRY, "install", *arguments, "--root", "/srv/bundles")


def test_codex_reads_its_table_behind_those_of_others(tools: Path, environment, tmp_path: Path) -> None:
    file = tmp_path / ".codex" / "config.toml"
    file.parent.mkdir()
    file.write_text('model = "m" # mine\n\n[mcp_servers.other]\ncommand = "x"\n')
    install(environment, "codex")
    listed = run(environment, BIN / "node", tools / "@openai" / "codex" / "bin" / "codex.js", "mcp", "list", "--json")
    servers = {one["name"]: one["transport"] for one in json.loads(listed[listed.index("[\n") :])}
    assert servers.keys() == {"other", "codequarry"}
    assert [servers["codequarry"]["command"], *servers["codequarry"]["args"]] == COMMAND


def test_gemini_reads_its_entry_in_a_file_with_comments(tools: Path, environment, tmp_path: Path) -> None:
    file = tmp_path / ".gemini" / "settings.json"
    file.parent.mkdir()
    file.write_text('{\n  // mine\n  "mcpServers": {"other": {"command": "x"}} /* last */\n}\n')
    install(environment, "gemini")
    gemini = tools / "@google" / "gemini-cli" / "bundle" / "gemini.js"
    listed = run(environment, BIN / "node", gemini, "mcp", "list")
    assert re.search(r"other: x ", listed)
    assert f"codequarry: {' '.join(COMMAND)} (stdio)" in listed
    assert "// mine" in file.read_text()
    install(environment, "--gemini-extension", str(tmp_path / "codequarry"))
    run(environment, BIN / "node", gemini, "extensions", "validate", tmp_path / "codequarry")


def test_opencode_reads_its_entry_in_a_file_with_comments(tools: Path, environment, tmp_path: Path) -> None:
    programs = sorted(tools.glob("opencode-*/bin/opencode"))
    file = tmp_path / "config" / "opencode" / "opencode.jsonc"
    file.parent.mkdir(parents=True)
    file.write_text('{\n\t"username": "me", // mine\n}\n')
    install(environment, "opencode")
    assert "// mine" in file.read_text()
    resolved = run(environment, programs[0], "debug", "config")
    config = json.loads(resolved[resolved.index("{\n") : resolved.rindex("}") + 1])
    assert config["username"] == "me"
    assert config["mcp"]["codequarry"] == {"type": "local", "command": COMMAND, "enabled": True}


@pytest.mark.parametrize(
    ("client", "file", "key"),
    [("vscode", "config/Code/User/mcp.json", "servers"), ("zed", "config/zed/settings.json", "context_servers")],
)
def test_the_parser_of_vscode_reads_files_with_comments(
    tools: Path, environment, tmp_path: Path, client: str, file: str, key: str
) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(f'// mine\n{{\n    "{key}": {{\n        "other": {{"command": "x"}}, // of it\n    }},\n}}\n')
    install(environment, client)
    script = (
        "const {parse} = require(process.argv[1]), errors = [];"
        "const text = require('fs').readFileSync(process.argv[2], 'utf8');"
        "const value = parse(text, errors, {allowTrailingComma: true});"
        "console.log(JSON.stringify({value, errors}));"
    )
    read = json.loads(run(environment, BIN / "node", "-e", script, tools / "jsonc-parser", path))
    assert read["errors"] == []
    servers = read["value"][key]
    assert list(servers) == ["other", "codequarry"]
    assert [servers["codequarry"]["command"], *servers["codequarry"]["args"]] == COMMAND

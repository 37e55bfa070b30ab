"""The lag of an index behind its work trees: by command, over stdio, and never over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from tests.pipelines.conftest import Run
from tests.pipelines.repositories import commit, git
from tests.serving.live import request, serving


@pytest.fixture
def app(run: Run, tmp_path: Path) -> Path:
    """A repository with a commit, indexed from where the commands of the test run."""
    folder = tmp_path / "app"
    commit(folder, {"app.py": "def pour_tea(cup):\n    return cup + 1\n"})
    assert run("index", folder).returncode == 0
    return folder


def behind(run: Run) -> tuple[dict[str, Any], str]:
    """The words of `versions` about the only repository, for programs and for people."""
    rows = json.loads(run("versions", "--json").stdout)
    (lag,) = next(row["behind"] for row in rows if row["current"])
    text = next(line for line in run("versions").stdout.splitlines() if line.startswith("  app: "))
    return lag, text.strip()


def write_later(file: Path, text: str) -> None:
    """Write a file an hour after it was written before."""
    later = os.stat(file).st_mtime + 3_600
    file.write_text(text)
    os.utime(file, (later, later))


def test_versions_counts_the_commits_that_head_has_and_the_index_lacks(run: Run, app: Path) -> None:
    indexed = git(app, "rev-parse", "HEAD")
    lag, text = behind(run)
    assert lag == {
        "name": "app", "indexed": indexed, "head": indexed, "commits_behind": 0, "commits_gone": 0, "files_written": 0,
    }  # fmt: skip
    assert text == "app: at HEAD, and no tracked file changed since"
    for number in range(3):
        head = commit(app, {}, f"change {number}")
    lag, text = behind(run)
    assert (lag["indexed"], lag["head"], lag["commits_behind"]) == (indexed, head, 3)
    assert text == f"app: 3 commits behind, HEAD is {head[:12]}"


def test_an_edit_and_a_rewritten_history_are_told(run: Run, app: Path) -> None:
    git(app, "commit", "--quiet", "--amend", "-m", "another message")
    write_later(app / "app.py", "def pour_coffee(cup):\n    return cup\n")
    lag, text = behind(run)
    assert (lag["commits_behind"], lag["commits_gone"], lag["files_written"]) == (1, 1, 1)
    assert "1 commit that HEAD no longer has" in text
    assert text.endswith("1 file changed since")


def test_what_was_written_and_is_as_it_was_indexed_is_no_change(run: Run, app: Path) -> None:
    """A switch of branches, and one back, leaves the files as they were; a delta version knows what is gone."""
    commit(app, {f"m{number}.py": f"def m_{number}(): ...\n" for number in range(30)})
    run("index", app)
    write_later(app / "app.py", (app / "app.py").read_text())
    assert behind(run)[1].endswith("no tracked file changed since")
    write_later(app / "m1.py", "def another(): ...\n")
    (app / "app.py").unlink()
    assert behind(run)[0]["files_written"] == 2
    run("index", app, "--delta")
    assert behind(run)[1].endswith("no tracked file changed since")
    write_later(app / "m1.py", "def m_1(): ...\n")
    assert behind(run)[0]["files_written"] == 1


def test_a_repository_at_a_ref_and_a_folder_without_git_are_not_compared(run: Run, tmp_path: Path) -> None:
    commit(tmp_path / "app", {"app.py": "x = 1\n"})
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "app.py").write_text("x = 1\n")
    assert run("index", f"{tmp_path / 'app'}#main", tmp_path / "plain").returncode == 0
    (row,) = json.loads(run("versions", "--json").stdout)
    assert row["behind"] == []


def test_stdio_tells_where_head_is_and_http_does_not(run: Run, app: Path, tmp_path: Path) -> None:
    root = tmp_path / "cwd" / ".codequarry" / "bundles"
    indexed = git(app, "rev-parse", "HEAD")

    async def talk() -> None:
        command = ["-P", "-m", "codequarry.pipelines.cli", "serve", "--stdio", "--root", str(root)]
        transport = StdioTransport(sys.executable, command, env=dict(os.environ), cwd=str(tmp_path), keep_alive=False)
        async with Client(transport) as client:
            assert "heads" not in ((await client.call_tool_mcp("healthz", {})).structured_content or {})
            head = commit(app, {}, "more")
            told = (await client.call_tool_mcp("healthz", {})).structured_content or {}
            assert told["heads"] == [{"name": "app", "indexed": indexed, "head": head}]

    asyncio.run(talk())
    with serving(root, tmp_path) as served:
        _, body = request(served.port, "GET", "/healthz")
    assert "heads" not in json.loads(body)

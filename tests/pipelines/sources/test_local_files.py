"""Answers say which of their files differ on disk: by command, over stdio, and never over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.settings.load import ServingSettings
from codequarry.serving.engine import local_files
from codequarry.serving.engine.local_files import LocalFiles
from codequarry.serving.version.open import Bundle
from tests.pipelines.conftest import Run
from tests.serving.live import request, serving, tool_call

TOKEN = "ghp_" + "1a2B3c4D5e6F7g8H9i0JkLmNoPqRsTuVwXyZ"
FILES: dict[str, bytes] = {
    "kept.py": b"def kept_kettle():\n    return 'boils'\n",
    "edited.py": b"def edited_kettle():\n    return 'boils'\n",
    "gone.py": b"def gone_kettle():\n    return 'boils'\n",
    "latin.py": "# -*- coding: cp1252 -*-\ndef latin_kettle():\n    return 'Größe'\n".encode("cp1252"),
    "secret.py": f"def secret_kettle():\n    return '{TOKEN}'\n".encode(),
}
CHANGED, DELETED = "changed_since_index", "deleted"


@pytest.fixture
def app(run: Run, tmp_path: Path) -> Path:
    """A folder with one file of each kind, indexed from where the commands of the test run."""
    folder = tmp_path / "app"
    folder.mkdir()
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    done = run("index", folder)
    assert done.returncode == 0, done.stderr
    return folder


def rewrite(file: Path, change: Callable[[bytes], bytes]) -> None:
    """Write a file as an editor does, later than the version was made."""
    file.write_bytes(change(file.read_bytes()))
    later = time.time() + 5
    os.utime(file, (later, later))


def states(answer: dict[str, Any]) -> dict[str, str]:
    """Return what an answer says of the files of its places."""
    places = [one.get("metadata") or one for one in answer.get("results") or answer["objects"]]
    return {place["uri"]: place["on_disk"] for place in places if place.get("on_disk")}


def asked(run: Run, *arguments: str) -> dict[str, Any]:
    done = run(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_nothing_is_said_of_files_that_are_as_they_were(run: Run, app: Path) -> None:
    rewrite(app / "kept.py", lambda content: content)
    answer = asked(run, "search", "kettle")
    assert len({one["metadata"]["uri"] for one in answer["results"]}) == len(FILES)
    assert states(answer) == {}
    assert answer["limits"] == []


def test_a_file_that_changed_or_went_is_named_by_every_command(run: Run, app: Path) -> None:
    rewrite(app / "edited.py", lambda content: b"import os\n" + content)
    (app / "gone.py").unlink()
    both = {"app/edited.py": CHANGED, "app/gone.py": DELETED}
    for command in (["search", "kettle"], ["grep", "boils"]):
        answer = asked(run, *command)
        assert states(answer) == both
        assert answer["limits"][-1] == (
            "changed on disk since it was indexed: app/edited.py; deleted: app/gone.py; "
            "`codequarry index` reads them again"
        )
    assert states(asked(run, "definition", "gone_kettle")) == {"app/gone.py": DELETED}
    assert states(asked(run, "fetch", "edited.py")) == {"app/edited.py": CHANGED}
    shown = run("search", "kettle").stdout
    assert re.search(r"edited\.py:1 .*\(changed since\)", shown)
    assert re.search(r"gone\.py:1 .*\(deleted since\)", shown)

    assert run("index", app).returncode == 0
    assert states(asked(run, "search", "kettle")) == {}


def test_an_edit_that_keeps_the_size_is_seen_and_its_undoing_too(run: Run, app: Path) -> None:
    before = (app / "edited.py").stat()
    (app / "edited.py").write_bytes(FILES["edited.py"].replace(b"boils", b"steam"))
    later = time.time() + 5
    os.utime(app / "edited.py", (later, later))
    assert states(asked(run, "search", "edited_kettle")) == {"app/edited.py": CHANGED}
    os.utime(app / "edited.py", ns=(before.st_atime_ns, before.st_mtime_ns))
    (app / "edited.py").write_bytes(FILES["edited.py"])
    os.utime(app / "edited.py", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert states(asked(run, "search", "edited_kettle")) == {}


def test_files_whose_bytes_were_not_indexed_as_they_are_are_compared_by_time(run: Run, app: Path) -> None:
    assert states(asked(run, "search", "kettle")) == {}
    for name in ("latin.py", "secret.py"):
        rewrite(app / name, lambda content: content + b"# more\n")
    assert states(asked(run, "search", "kettle")) == {"app/latin.py": CHANGED, "app/secret.py": CHANGED}


def test_a_link_out_of_the_repository_and_a_folder_that_is_gone_tell_nothing(
    run: Run, app: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere.py").write_bytes(b"other\n")
    (app / "edited.py").unlink()
    (app / "edited.py").symlink_to(tmp_path / "elsewhere.py")
    assert states(asked(run, "search", "edited_kettle")) == {}
    app.rename(tmp_path / "moved")
    assert states(asked(run, "search", "kettle")) == {}


def test_stdio_says_it_and_http_does_not(run: Run, app: Path, tmp_path: Path) -> None:
    (app / "gone.py").unlink()
    root = tmp_path / "cwd" / ".codequarry" / "bundles"

    async def talk() -> tuple[dict[str, Any], str]:
        command = ["-m", "codequarry.pipelines.cli", "serve", "--stdio", "--root", str(root)]
        # A client of this kind hands only a few variables to what it starts.
        environment = {name: os.environ[name] for name in ("PATH", "HOME", "XDG_STATE_HOME") if name in os.environ}
        transport = StdioTransport(sys.executable, command, env=environment, cwd=str(tmp_path), keep_alive=False)
        async with Client(transport) as client:
            found = await client.call_tool_mcp("search", {"query": "gone_kettle"})
            read = await client.call_tool_mcp("fetch", {"id": "gone.py"})
            assert (read.structured_content or {})["metadata"]["on_disk"] == DELETED
            assert "deleted: app/gone.py" in read.content[0].text
            return found.structured_content or {}, found.content[0].text

    answer, text = asyncio.run(talk())
    assert states(answer) == {"app/gone.py": DELETED}
    assert "(deleted since)" in text
    assert "note: deleted: app/gone.py; `codequarry index` reads them again" in text
    with serving(root, tmp_path) as served:
        body, headers = tool_call("search", {"query": "gone_kettle"}, "2026-07-28")
        _, replied = request(served.port, "POST", "/mcp", body, headers)
    assert b"gone_kettle" in replied
    assert b"on_disk" not in replied
    assert b"deleted" not in replied


def test_a_file_is_read_once_while_it_stays_as_it_is(
    run: Run, app: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = Bundle.open_current(tmp_path / "cwd" / ".codequarry" / "bundles", ServingSettings())
    assert BundleRoot(tmp_path / "cwd" / ".codequarry" / "bundles").read_current().version == bundle.manifest.version
    reads: list[str] = []
    read_digest = local_files.read_digest

    def counted(file: str) -> str:
        reads.append(file)
        return read_digest(file)

    monkeypatch.setattr(local_files, "read_digest", counted)
    local = LocalFiles({"app": app})
    try:
        for _ in range(3):
            assert local.states(["app/kept.py", "app/nothing.py", "other/kept.py"], bundle) == {}
        assert len(reads) == 1
        rewrite(app / "kept.py", lambda content: content + b"\n")
        assert local.states(["app/kept.py"], bundle) == {"app/kept.py": CHANGED}
        assert len(reads) == 2
    finally:
        bundle.close()

"""Every layer works where Linux's own names are not, as on macOS: they are hidden from whole commands."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from codequarry.schemas.bundle.layout import BundleRoot
from tests.machine import without_linux
from tests.serving.server.test_stdio import COMMAND

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).resolve().parents[2]
SEEN = """
import os, resource
for path in ("/proc/self/statm", "/dev/shm"):
    try:
        open(path) if path != "/dev/shm" else os.listdir(path)
    except FileNotFoundError:
        print("hidden")
print([name for name in ("sched_getaffinity", "posix_fadvise", "pidfd_open") if hasattr(os, name)])
print(hasattr(resource, "RLIMIT_AS"))
"""
LINUX_ONLY = re.compile(
    r"sched_[gs]et|/proc/|/proc\"|/dev/shm|RLIMIT_AS|prlimit|posix_fadvise|posix_fallocate|pidfd_|memfd_create"
    r"|copy_file_range|MAP_POPULATE|renameat2|O_TMPFILE|O_PATH\b|O_DIRECT\b|O_NOATIME|fdatasync|os\.fsync|os\.killpg"
    r"|os\.cpu_count|ru_maxrss|os\.splice|eventfd|/sys/fs/cgroup"
)
AT_HOME = {
    "schemas/codequarry/schemas/resources.py",
    "schemas/codequarry/schemas/trust/user_folders.py",  # without F_FULLFSYNC: trust that is lost is asked for again
    "serving/codequarry/serving/cli/install/config_files.py",  # likewise: an entry that is lost is installed again
    "serving/codequarry/serving/text/lexical.py",  # a folder in memory, or one on disk
    "pipelines/codequarry/pipelines/sources/beneath.py",
    "pipelines/codequarry/pipelines/store/device_use.py",  # bytes on macOS, kilobytes on Linux
    "pipelines/codequarry/pipelines/compute/ray_node.py",  # without a boot id, the name of the host
    "pipelines/codequarry/pipelines/store/processes.py",
    "pipelines/codequarry/pipelines/store/durable.py",
}
"""Modules that ask for what may not be there, and go on without it."""


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "codequarry.pipelines.cli", *arguments], cwd=folder,
        env={**without_linux(), "CODEQUARRY__RETRIEVAL__ENABLED": "true"}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder in which a repository was indexed without Linux; not in memory, which is hidden from the commands."""
    with tempfile.TemporaryDirectory(dir="/tmp") as base:
        index_app(Path(base))
        yield Path(base)


def index_app(base: Path) -> None:
    app = base / "app"
    app.mkdir()
    (app / "main.py").write_text("def parse_session(text):\n    '''Read a session.'''\n    return text.split()\n")
    (app / "big.java").write_text("class Big { int size() { return 3; } }\n")
    done = command(base, "index", str(app))
    assert done.returncode == 0, done.stderr


def test_the_names_are_hidden_from_a_process() -> None:
    done = subprocess.run([sys.executable, "-c", SEEN], env=without_linux(), capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["hidden", "hidden", "[]", "False"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("search", "read a session"),
        ("grep", "parse_session"),
        ("definition", "parse_session"),
        ("sql", "SELECT count(*) FROM chunks"),
        ("versions",),
        ("verify",),
        ("doctor",),
        ("export", "out.tar"),
        ("import", "out.tar", "--root", "other"),
        ("index", "app", "--force"),
        ("rollback",),
        ("prune",),
        ("store", "gc"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_every_command_works(folder: Path, arguments: tuple[str, ...]) -> None:
    done = command(folder, *arguments)
    assert done.returncode == 0, done.stderr
    if arguments[0] in ("search", "grep", "definition"):
        assert "main.py" in done.stdout


def test_the_syntax_is_read_by_workers(folder: Path) -> None:
    asked = "SELECT DISTINCT kind FROM chunks WHERE kind <> 'text'"
    assert "function" in command(folder, "sql", asked, "--csv").stdout


@pytest.mark.slow
def test_the_service_answers(folder: Path) -> None:
    root = folder / ".codequarry" / "bundles"
    assert BundleRoot(root).read_current()
    hello = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}},
    }  # fmt: skip
    asked = {"name": "search", "arguments": {"query": "read a session"}}
    messages = [
        hello,
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": asked},
    ]
    with subprocess.Popen(
        [sys.executable, *COMMAND, str(root)], cwd=folder, env=without_linux(),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as server:  # fmt: skip
        assert server.stdin is not None and server.stdout is not None and server.stderr is not None
        answer = ""
        for message in messages:
            server.stdin.write(json.dumps(message) + "\n")
            server.stdin.flush()
            if "id" in message:
                answer = server.stdout.readline()
        server.stdin.close()
        said = server.stderr.read()
    assert json.loads(answer)["result"]["structuredContent"]["results"], said


@pytest.mark.slow
def test_the_service_answers_over_http(folder: Path) -> None:
    import http.client

    arguments = ["serve", "--root", str(folder / ".codequarry" / "bundles"), "--port", "0"]
    with subprocess.Popen(
        [sys.executable, "-m", "codequarry.pipelines.cli", *arguments], cwd=folder, env=without_linux(),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    ) as server:  # fmt: skip
        assert server.stderr is not None
        try:
            said = ""
            while not (port := re.search(r"127\.0\.0\.1:(\d+)", said)):
                assert select.select([server.stderr], [], [], 60)[0], said
                line = server.stderr.readline()
                assert line, said
                said += line
            connection = http.client.HTTPConnection("127.0.0.1", int(port[1]), timeout=30)
            connection.request("GET", "/healthz")
            assert connection.getresponse().status == 200
            connection.close()
        finally:
            server.terminate()


def test_no_module_takes_a_name_of_linux_for_granted() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--",
         *(f"{layer}/*.py" for layer in ("schemas", "serving", "pipelines", "assets"))],
        cwd=PROJECT, capture_output=True, check=True, text=True,
    )  # fmt: skip
    files = [name for name in listed.stdout.split("\0") if name and (PROJECT / name).is_file()]
    users = {name for name in files if LINUX_ONLY.search((PROJECT / name).read_text(encoding="utf-8"))}
    assert len(files) > 200
    assert sorted(users - AT_HOME) == []
    assert os.name == "posix"

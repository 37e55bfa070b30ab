"""F11, F12: a read-only mount; no descriptors, no memory left during a swap."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from codequarry.schemas.bundle.layout import Current
from tests.machine import can_mount, needs_address_limit, needs_proc
from tests.serving.bundles.versions import flip, publish

COMMON = """
import os, resource, sys, time
from pathlib import Path
from codequarry.schemas.wire.health import HealthRequest
from codequarry.schemas.wire.search import FetchRequest, SearchRequest
from codequarry.serving.engine import follow as following
from tests.serving.bundles.versions import MARKER, flip, followed, number_of

root = Path(sys.argv[1])
lines = [line.encode() + b"\\n" for line in sys.argv[2:]]
following.FIRST_RETRY_S = following.LAST_RETRY_S = 0.0

def answers(engine):
    return number_of(engine.search(SearchRequest(query=MARKER)))
"""

STARVED = (
    COMMON
    + """
engine, follower = followed(root)
for line in (lines[0], lines[1], lines[0]):  # imports everything, so that only opening is starved
    flip(root, line)
    follower.look()
flip(root, lines[1])
kind = getattr(resource, os.environ["KIND"])

def used():
    if kind == resource.RLIMIT_NOFILE:
        return len(os.listdir("/dev/fd")) - 1
    return int(Path("/proc/self/status").read_text().split("VmSize:")[1].split()[0]) * 1024

def names():
    return [os.readlink(f"/dev/fd/{fd}") for fd in os.listdir("/dev/fd") if os.path.islink(f"/dev/fd/{fd}")]

before, (soft, hard) = len(os.listdir("/dev/fd")), resource.getrlimit(kind)
refused = 0
for step in map(int, os.environ["STEPS"].split()):
    resource.setrlimit(kind, (used() + step, hard))
    follower.look()
    found = answers(engine)
    resource.setrlimit(kind, (soft, hard))
    if follower.following:
        assert found == 1
        break
    assert found == 0, found
    assert follower.refusal.reason and engine.health(HealthRequest()).refused.reason
    # A thread of the failed opening may still be closing its own.
    end = time.monotonic() + 60
    while len(os.listdir("/dev/fd")) > before and time.monotonic() < end:
        time.sleep(0.05)
    left = len(os.listdir("/dev/fd"))
    assert left <= before, f"a failed opening left descriptors behind: {left}, expected {before}: {names()}"
    refused += 1
follower.look()
assert follower.following and answers(engine) == 1
print("refused", refused)
"""
)

READ_ONLY = (
    COMMON
    + """
def refuses_writes():
    try:
        (root / "probe").write_bytes(b"")
    except OSError:
        return True
    return False

assert refuses_writes()
engine, follower = followed(root)
follower.check()
assert answers(engine) == 0 and not follower.damage
sys.stdout.write("ready\\n")
sys.stdout.flush()
sys.stdin.readline()  # the writer, who has the folder writable elsewhere, publishes now
follower.look()
assert answers(engine) == 1, follower.refusal
engine.served.close()
print("followed")
"""
)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, minilm_directory: Path) -> tuple[Path, list[Current]]:
    root = tmp_path_factory.mktemp("prepared")
    return root, [publish(root, number, encoder=minilm_directory) for number in range(2)]


@pytest.mark.parametrize(
    ("kind", "steps"),
    [
        ("RLIMIT_NOFILE", range(12)),
        # Below about 48 MB no thread gets its stack, above it the weights cannot be mapped.
        pytest.param(
            "RLIMIT_AS",
            [mb << 20 for mb in (0, 1, 4, 12, 24, 48, 96, 192, 1024)],
            marks=[needs_proc, needs_address_limit],
        ),
    ],
)
def test_row_10_a_swap_without_resources_keeps_the_old_version_and_recovers(prepared, tmp_path, kind, steps) -> None:
    root, currents = shutil.copytree(prepared[0], tmp_path / "root"), prepared[1]
    flip(root, currents[0])
    done = subprocess.run(
        [sys.executable, "-c", STARVED, str(root), *(current.line().strip() for current in currents)],
        env={"KIND": kind, "STEPS": " ".join(map(str, steps)), "PATH": "/usr/bin:/bin", "PYTHONPATH": "."},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    # A library that got no thread may have said so before.
    refused = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("refused ")]
    assert len(refused) == 1, done.stdout
    assert int(refused[0]) >= 2, "the limits were never felt"


def test_a_read_only_mount_is_served_and_followed(prepared, tmp_path) -> None:
    root, currents = shutil.copytree(prepared[0], tmp_path / "root"), prepared[1]
    flip(root, currents[0])
    view = tmp_path / "view"
    view.mkdir()
    mount = f"mount --bind {root} {view} && mount -o remount,bind,ro {view}"
    if not can_mount(mount):
        pytest.skip(
            "no user namespaces here; tests/serving/version/test_open.py covers folders without write permission"
        )
    command = f'{mount} && exec "{sys.executable}" -c "$PROGRAM" {view}'
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    server = subprocess.Popen(
        ["unshare", "-rm", "sh", "-c", command],
        env={"PROGRAM": READ_ONLY, "PATH": "/usr/bin:/bin", "PYTHONPATH": "."},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with server:
        assert server.stdout.readline() == "ready\n", server.stderr.read()
        assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before
        flip(root, currents[1])
        out, err = server.communicate("\n", timeout=60)
    assert server.returncode == 0, err
    assert out == "followed\n"
    assert not (root / "probe").exists()

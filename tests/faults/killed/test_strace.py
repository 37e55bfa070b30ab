"""What the fault tests tamper with is all there is: the kernel sees the same calls, in the same order."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.conftest import Copies
from tests.faults.scenes.calls import Recorder, intercepted
from tests.faults.scenes.traced import strace_works

PROJECT = Path(__file__).resolve().parents[3]
PUBLISH = """
import sys
from pathlib import Path

from tests.faults.scenes.scene import Scene

Scene(Path(sys.argv[1])).publish()
"""
_LINE = re.compile(r"(\w+)\((.*)\) += +-?\d+")
_TRACED = (
    "fsync,fdatasync,rename,renameat,renameat2,link,linkat,unlink,unlinkat,rmdir,mkdir,mkdirat,write,pwrite64,"
    "truncate,ftruncate,symlink,symlinkat"
)


@pytest.mark.skipif(not strace_works(), reason="strace is not installed, or may not trace here")
def test_the_kernel_sees_the_calls_that_the_recorder_sees(copies: Copies, tmp_path: Path) -> None:
    recorder, ours, theirs = Recorder(), copies(), copies()
    with intercepted(ours.root.path, recorder):
        ours.publish()
    log = tmp_path / "strace"
    subprocess.run(
        ["strace", "-f", "-y", "-qq", "-s", "256", "-o", str(log), "-e", f"trace={_TRACED}",
         sys.executable, "-c", PUBLISH, str(theirs.base)],
        cwd=PROJECT, check=True, capture_output=True,
    )  # fmt: skip
    seen = [call for line in log.read_text().splitlines() if (call := read(line, str(theirs.root.path)))]
    recorded = [(call.name, Path(call.path).name) for call in recorder.calls if call.name != "open"]
    assert len(recorded) > 50
    # In which order the files of a removed version go is up to the folder.
    removals = ("unlink", "rmdir")
    assert [call for call in seen if call[0] not in removals] == [call for call in recorded if call[0] not in removals]
    assert sorted(call for call in seen if call[0] in removals) == sorted(
        call for call in recorded if call[0] in removals
    )


def read(line: str, root: str) -> tuple[str, str] | None:
    """Name of the call and of the file it concerns, where it changes something below the root."""
    match = _LINE.search(line)
    if match is None or (not re.search(re.escape(root) + r'[/>"]', line)):
        return None
    name, arguments = match[1], match[2]
    kind = {"renameat": "rename", "renameat2": "rename", "linkat": "link", "mkdirat": "mkdir"}.get(name, name)
    if kind == "unlinkat":
        kind = "rmdir" if "AT_REMOVEDIR" in arguments else "unlink"
    if kind in ("fsync", "write"):
        return kind, Path(re.match(r"\d+<([^>]*)>", arguments)[1]).name  # type: ignore[index]
    quoted = re.findall(r'"([^"]*)"', arguments)
    return kind, Path(quoted[0]).name

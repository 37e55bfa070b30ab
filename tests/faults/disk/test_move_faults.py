"""F4 to F6 for exports and imports: the disk refuses, fills up, or takes nothing."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from codequarry.pipelines.publish.archive.write import export_version
from codequarry.pipelines.publish.rollback import roll_back
from codequarry.schemas.errors import PublishError, UnavailableError
from tests.faults.disk.test_full_disk import namespaces_work
from tests.faults.scenes.calls import ERRNOS, Call, Recorder, Refuser, ShortWriter, intercepted
from tests.faults.scenes.moving import Adding, Moving
from tests.faults.scenes.scene import NEW, OLD, Scene

PROJECT = Path(__file__).resolve().parents[3]
Fresh = Callable[[], Moving]


@pytest.fixture(params=[Moving, Adding], ids=["published", "added"])
def fresh(request: pytest.FixtureRequest, moving_template: Moving, tmp_path: Path) -> Fresh:
    """A fresh copy at every call, of an import that publishes and of one that adds."""
    numbers = count()
    return lambda: request.param(moving_template.copy(tmp_path / f"copy-{next(numbers)}").base)


def calls_of(moving: Moving) -> list[Call]:
    recorder = Recorder()
    with intercepted(moving.base, recorder):
        moving.publish()
    return recorder.calls


def refused(moving: Moving, refuser: Refuser) -> bool:
    """Import on a disk that refuses one call, and check everything. Returns whether the import failed."""
    before = moving.root.version_names()
    try:
        with intercepted(moving.root.path, refuser):
            moving.publish()
    except (PublishError, UnavailableError) as error:
        assert refuser.hit
        # A lock that cannot be opened is refused before anything is begun.
        assert "CURRENT is unchanged" in error.suggestion or ".publish.lock" in error.message
        assert moving.check(allowed=(OLD,)) == OLD
        assert moving.root.version_names() == before
        return True
    # A link that cannot be made is a copy; what fails after the acknowledgement is retention.
    assert moving.check(allowed=(OLD,) if isinstance(moving, Adding) else (NEW,))
    assert NEW in moving.root.version_names()
    return False


@pytest.mark.parametrize("code", ERRNOS, ids=lambda code: errno.errorcode[code])
def test_an_import_that_is_refused_one_call_changes_nothing_visible(fresh: Fresh, code: int) -> None:
    total = len(calls_of(fresh()))
    failed = [refused(fresh(), Refuser(n, code)) for n in range(1 + code % 5, total, 14)]
    assert set(failed) == {True, False}


@pytest.mark.faults_long
@pytest.mark.parametrize("code", ERRNOS, ids=lambda code: errno.errorcode[code])
def test_an_import_that_is_refused_any_one_call(fresh: Fresh, code: int) -> None:
    for n in range(1, len(calls_of(fresh())) + 1):
        refused(fresh(), Refuser(n, code))


def test_a_disk_that_fills_up_while_files_are_unpacked_is_left_as_it_was(fresh: Fresh) -> None:
    writes = sum(call.name == "write" and "/.staging-import-" in call.path for call in calls_of(fresh()))
    assert writes > 15
    for n in range(1, writes + 1, 5):
        moving = fresh()
        assert refused(moving, Refuser(n, errno.ENOSPC, kinds=("write",), forever=True)), n
        assert moving.litter() == []


def test_no_sync_error_of_an_import_is_swallowed(fresh: Fresh) -> None:
    trace = calls_of(fresh())
    last = max(place for place, call in enumerate(trace) if call.path.endswith("/.publishing")) + 2
    syncs = sum(call.name == "fsync" for call in trace[:last])
    assert syncs > 15
    for n in (*range(1, syncs, 6), *range(syncs - 4, syncs + 1)):
        moving = fresh()
        assert refused(moving, Refuser(n, errno.EIO, kinds=("fsync",))), f"sync {n} of {syncs}"
        assert moving.litter() == []


def test_a_version_that_is_there_and_cannot_be_made_current_stays_as_it_is(moving: Moving) -> None:
    moving.publish()
    roll_back(moving.root)
    before = moving.root.current.read_bytes()
    for n, kind in ((1, "write"), (1, "fsync"), (1, "rename"), (2, "fsync")):
        with (
            pytest.raises(PublishError, match="CURRENT is unchanged"),
            intercepted(moving.root.path, Refuser(n, errno.EIO, kinds=(kind,))),
        ):
            moving.publish()
        assert moving.root.current.read_bytes() == before
    with (
        pytest.raises(PublishError, match="see `codequarry versions`"),
        intercepted(moving.root.path, Refuser(2, errno.EIO, kinds=("fsync",), forever=True)),
    ):
        moving.publish()
    roll_back(moving.root, OLD)
    assert moving.publish().done == "made current"


def test_a_disk_that_takes_little_at_a_time_gets_everything_and_one_that_takes_nothing_is_said(fresh: Fresh) -> None:
    moving = fresh()
    with pytest.raises(PublishError, match="the disk took 0 of"), intercepted(moving.root.path, ShortWriter(0)):
        moving.publish()
    assert (moving.check(allowed=(OLD,)), moving.litter()) == (OLD, [])
    target = moving.base / "again.tar"
    with intercepted(moving.base, ShortWriter(10_001)):
        export_version(moving.root, target)
    with target.open("rb") as again:
        assert len(again.read()) == export_version(moving.root, moving.base / "whole.tar").size_bytes
    assert target.read_bytes() == (moving.base / "whole.tar").read_bytes()


def export_calls(scene: Scene, target: Path) -> list[Call]:
    recorder = Recorder()
    with intercepted(target.parent, recorder):
        export_version(scene.root, target)
    return recorder.calls


def test_an_export_is_synced_before_it_has_its_name(scene: Scene, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    calls = export_calls(scene, folder / "app.tar")
    aside = calls[0].path
    assert [call.name for call in calls if call.name != "write"] == ["open", "fsync", "rename", "fsync"]
    assert [call.path for call in calls][-3:] == [aside, aside, str(folder)]
    assert calls[-2].target == str(folder / "app.tar")


@pytest.mark.parametrize("force", [False, True])
def test_an_export_that_is_refused_any_call_leaves_nothing(scene: Scene, tmp_path: Path, force: bool) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    calls = export_calls(scene, folder / "first.tar")
    target = folder / "app.tar"
    for n in (1, 2, 3, len(calls) // 2, *range(len(calls) - 3, len(calls) + 1)):
        if force:
            target.write_text("older")
        with (
            pytest.raises(UnavailableError, match="nothing was written"),
            intercepted(folder, Refuser(n, errno.ENOSPC)),
        ):
            export_version(scene.root, target, force=force)
        # Where the last sync of the folder fails, the older file is gone and the new one might not last.
        left = {"first.tar", "app.tar"} if force and n < len(calls) else {"first.tar"}
        assert {path.name for path in folder.iterdir()} == left, n
        assert not target.exists() or target.read_text() == "older"


def test_an_export_is_refused_where_there_is_no_room(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codequarry.pipelines.publish.archive.write.free_bytes", lambda _path: 100_000)
    with pytest.raises(UnavailableError, match=r"0\.1 MB are free, the archive needs \d\.\d MB"):
        export_version(scene.root, tmp_path / "app.tar")
    assert list(tmp_path.glob("*.tar")) == []


MOUNT = 'mount -t tmpfs -o size=4m none "$1" && exec "$2" -c "$3" "$1" "$4"'
FULL = """
import json, os, sys
from pathlib import Path
from codequarry.pipelines.bundle import disk_space
from codequarry.pipelines.publish.archive import write as archive_export
from codequarry.pipelines.publish.archive.write import export_version
from codequarry.pipelines.publish.archive.import_ import import_version
from codequarry.schemas.errors import CodequarryError
from tests.faults.scenes.moving import Moving, anything
disk, base = map(Path, sys.argv[1:])
home, moving = Moving(base), Moving(disk / "m")
said = []

def tried(work):
    try:
        said.append(str(work().path))
    except CodequarryError as error:
        said.append(str(error))
    said[-1] += "|" + ",".join(sorted(path.name for path in disk.glob("*")))
    said[-1] += "|" + ",".join(moving.root.version_names())

export = lambda: export_version(home.root, disk / "app.tar")
tried(export)
os.unlink(disk / "app.tar")
(disk / "filler").write_bytes(b"x" * 4_000_000)
tried(export)
archive_export.free_bytes = disk_space.free_bytes = lambda path: 1 << 40
tried(export)
os.unlink(disk / "filler")
taken = lambda: import_version(home.archive, moving.settings, check=anything)
(disk / "filler").write_bytes(b"x" * 4_000_000)
tried(taken)
os.unlink(disk / "filler")
tried(taken)
print(json.dumps(said))
"""


def test_another_file_system_that_runs_full_is_left_clean(moving: Moving, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if not namespaces_work(disk):
        pytest.skip("no user namespaces here; the tests above refuse writes instead")
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", MOUNT, "sh", str(disk), sys.executable, FULL, str(moving.base)],
        cwd=PROJECT, env=dict(os.environ), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    exported, no_room, full, import_full, imported = json.loads(done.stdout)
    assert exported == f"{disk}/app.tar|app.tar|"
    assert "MB are free" in no_room and no_room.endswith("|filler|")
    assert "No space left" in full and full.endswith("|filler|")
    assert "No space left" in import_full and "CURRENT is unchanged" in import_full
    assert import_full.endswith("|filler,m|")
    assert imported.endswith(f"|m|{NEW}")

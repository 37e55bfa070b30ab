"""F4, F5, F6: the disk refuses, is full, or takes half of what it is given; F14: two publishers at once."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from codequarry.pipelines.publish.rollback import roll_back
from codequarry.schemas.errors import PublishError, UnavailableError
from tests.faults.conftest import Copies
from tests.faults.scenes.calls import ERRNOS, Recorder, Refuser, ShortWriter, intercepted
from tests.faults.scenes.scene import NEW, OLD, Scene

PROJECT = Path(__file__).resolve().parents[3]


def calls_of(scene: Scene) -> int:
    recorder = Recorder()
    with intercepted(scene.base, recorder):
        scene.publish()
    return len(recorder.calls)


def refused(scene: Scene, refuser: Refuser) -> str:
    """Publish on a disk that refuses one call, and check everything. Returns what is current."""
    before = scene.root.version_names()
    try:
        with intercepted(scene.root.path, refuser):
            scene.publish()
    except (PublishError, UnavailableError) as error:
        assert refuser.hit
        # A lock that cannot be opened is refused before anything is begun.
        assert "is unchanged" in error.suggestion or ".publish.lock" in error.message
        assert scene.check(allowed=(OLD,)) == OLD
        assert scene.root.version_names() == before
    else:
        # A link that cannot be made is a copy; what fails after the acknowledgement is retention.
        scene.check(allowed=(NEW,))
    return scene.current()


@pytest.mark.parametrize("code", ERRNOS, ids=lambda code: errno.errorcode[code])
def test_a_disk_that_refuses_one_call_changes_nothing_visible(copies: Copies, code: int) -> None:
    total = calls_of(copies())
    found = [refused(copies(), Refuser(n, code)) for n in range(1 + code % 5, total, 9)]
    assert set(found) == {OLD, NEW}


@pytest.mark.faults_long
@pytest.mark.parametrize("code", ERRNOS, ids=lambda code: errno.errorcode[code])
def test_a_disk_that_refuses_any_one_call(copies: Copies, code: int) -> None:
    for n in range(1, calls_of(copies()) + 1):
        refused(copies(), Refuser(n, code))


def test_no_sync_error_is_ever_swallowed_before_the_acknowledgement(copies: Copies) -> None:
    """After a failed fsync the bytes may be gone though a second call succeeds: the folder is thrown away."""
    recorder, scene = Recorder(), copies()
    with intercepted(scene.root.path, recorder):
        scene.publish()
    names = [call.name if call.name == "fsync" else call.path for call in recorder.calls]
    before_retention = names[: max(place for place, name in enumerate(names) if name.endswith("/.publishing")) + 2]
    syncs = before_retention.count("fsync")
    assert syncs > 15
    for n in (*range(1, syncs, 6), *range(syncs - 5, syncs + 1)):
        scene = copies()
        assert refused(scene, Refuser(n, errno.EIO, kinds=("fsync",))) == OLD, f"sync {n} of {syncs}"
        assert scene.litter() == []


def test_a_disk_that_stays_broken_leaves_the_old_version(copies: Copies) -> None:
    for n in (1, 10, 20):
        scene = copies()
        with (
            pytest.raises(PublishError),
            intercepted(scene.root.path, Refuser(n, errno.EIO, kinds=("fsync",), forever=True)),
        ):
            scene.publish()
        assert scene.check(allowed=(OLD,)) == OLD


def test_a_disk_that_refuses_what_comes_behind_the_acknowledgement_takes_nothing_back(copies: Copies) -> None:
    """The exit code is 0 exactly when the version is current and durable."""
    recorder, scene = Recorder(), copies()
    with intercepted(scene.base, recorder):
        scene.publish()
    acknowledged = max(n for n, call in enumerate(recorder.calls) if call.path.endswith("/.publishing")) + 2
    end = len(recorder.calls)
    assert end > acknowledged + 10
    for n in (*range(acknowledged, end, 9), end - 2, end - 1):
        scene = copies()
        with intercepted(scene.base, Refuser(n + 1, errno.EIO)):
            assert scene.publish().manifest.version == NEW
        assert scene.check(allowed=(NEW,)) == NEW


@pytest.mark.parametrize("kept", [0, 1, 40])
def test_a_write_that_takes_less_than_it_is_given_is_a_failed_publish(copies: Copies, kept: int) -> None:
    scene = copies()
    with pytest.raises(PublishError, match="took not all"), intercepted(scene.root.path, ShortWriter(kept)):
        scene.publish()
    assert scene.check(allowed=(OLD,)) == OLD
    assert scene.litter() == []


def test_a_rollback_on_a_broken_disk_changes_nothing(copies: Copies) -> None:
    for code in ERRNOS:
        scene = copies()
        with pytest.raises(PublishError), intercepted(scene.root.path, Refuser(1, code, kinds=("fsync", "write"))):
            roll_back(scene.root)
        assert scene.check(allowed=(OLD,)) == OLD


TWO = """
import sys, time
from pathlib import Path
from codequarry.schemas.errors import BusyError, PublishError
from tests.faults.scenes.scene import Scene
print("ready", flush=True); sys.stdin.readline()
try:
    Scene(Path(sys.argv[1])).publish(); print("published")
except BusyError: print("locked")
except PublishError: print("gone")
"""


def test_of_two_publishers_one_wins_and_the_other_says_so(scene: Scene) -> None:
    both = [
        subprocess.Popen(
            [sys.executable, "-c", TWO, str(scene.base)], cwd=PROJECT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )
        for _ in range(2)
    ]  # fmt: skip
    for one in both:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in both:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    said = sorted(one.communicate()[0].strip() for one in both)
    assert said[1] == "published" and said[0] in ("locked", "gone")
    assert scene.check(allowed=(NEW,)) == NEW
    assert scene.litter() == []

"""F4 to F6 while a delta version is published for CURRENT or a ref, or imported: the disk refuses, or is full."""

from __future__ import annotations

import errno

import pytest

from codequarry.pipelines.publish.publish import publishing
from codequarry.pipelines.publish.ref_files import drop_ref
from codequarry.pipelines.publish.retention import prune
from codequarry.schemas.bundle.refs import left_file, list_refs
from codequarry.schemas.errors import CodequarryError, PublishError, UnavailableError
from codequarry.serving.files.lease import hold_version
from tests.faults.conftest import Copies
from tests.faults.scenes.calls import ERRNOS, Call, Recorder, Refuser, ShortWriter, intercepted
from tests.faults.scenes.moving import Adding
from tests.faults.scenes.scene import NEW, OLD, OLDEST, Scene
from tests.faults.scenes.stacked import BASE, REF, Naming


def calls_of(scene: Scene) -> list[Call]:
    recorder = Recorder()
    with intercepted(scene.root.path, recorder):
        scene.publish()
    return recorder.calls


def refused(scene: Scene, refuser: Refuser) -> bool:
    """Publish on a disk that refuses a call, and check everything. Returns whether the publish failed."""
    before = scene.root.version_names()
    try:
        with intercepted(scene.root.path, refuser):
            scene.publish()
    except (PublishError, UnavailableError) as error:
        assert refuser.hit
        assert "is unchanged" in error.suggestion or ".publish.lock" in error.message
        assert scene.check(allowed=(OLD,)) == OLD
        assert scene.root.version_names() == before
        return True
    scene.check(allowed=(OLD,) if isinstance(scene, Adding) else (NEW,))
    assert NEW in scene.root.version_names()
    return False


def test_a_disk_that_refuses_some_call_changes_nothing_visible(layered: Copies) -> None:
    total = len(calls_of(layered()))
    failed = [refused(layered(), Refuser(n, ERRNOS[n % 3])) for n in (*range(1, total, total // 6), total)]
    assert set(failed) == {True, False}


@pytest.mark.faults_long
def test_a_disk_that_refuses_any_one_call(layered: Copies) -> None:
    for n in range(1, len(calls_of(layered())) + 1):
        refused(layered(), Refuser(n, ERRNOS[n % 3]))


def test_a_disk_that_is_full_from_some_call_on_is_left_as_it_was(layered: Copies) -> None:
    writes = sum(call.name == "write" for call in calls_of(layered()))
    assert writes >= 2
    for n in {1, writes // 2 + 1}:
        scene = layered()
        assert refused(scene, Refuser(n, errno.ENOSPC, kinds=("write",), forever=True)), n
        assert scene.litter() == []


@pytest.mark.faults_long
def test_no_sync_error_is_swallowed_before_the_acknowledgement(layered: Copies) -> None:
    trace = calls_of(layered())
    flips = ("CURRENT", ".publishing", REF.file_name)
    last = max(place for place, call in enumerate(trace) if call.path.endswith(flips) or call.target.endswith(flips))
    syncs = sum(call.name == "fsync" for call in trace[: last + 2])
    assert syncs > 15
    for n in range(1, syncs + 1):
        assert refused(layered(), Refuser(n, errno.EIO, kinds=("fsync",))), f"sync {n} of {syncs}"


def test_a_write_that_takes_nothing_is_a_failed_publish(layered: Copies) -> None:
    scene = layered()
    with pytest.raises(PublishError, match="took"), intercepted(scene.root.path, ShortWriter(0)):
        scene.publish()
    assert scene.check(allowed=(OLD,)) == OLD
    assert scene.litter() == []


def flip_of(naming: Naming) -> int:
    """How many syncs come before that of the file of the ref, and this one."""
    calls = [
        call for call in calls_of(naming.copy(naming.base.with_name("counted"))) if call.name in ("fsync", "rename")
    ]
    place = next(place for place, call in enumerate(calls) if call.target.endswith(REF.file_name))
    return sum(call.name == "fsync" for call in calls[: place + 2])


def test_a_flip_of_a_ref_whose_sync_fails_is_taken_back_with_its_version(naming: Naming) -> None:
    """Prevents the regression in which the ref names a version that was removed."""
    with (
        pytest.raises(PublishError, match="naming the version") as refusal,
        intercepted(naming.root.path, Refuser(flip_of(naming), errno.EIO, kinds=("fsync",))),
    ):
        naming.publish()
    assert "the ref is unchanged" in refusal.value.suggestion
    assert naming.check(allowed=(OLD,)) == OLD
    assert naming.root.version_names() == [BASE, OLDEST, OLD]


def test_a_flip_that_cannot_be_taken_back_leaves_both_versions_and_says_so(naming: Naming) -> None:
    refuser = Refuser(flip_of(naming), errno.EIO, kinds=("fsync",), forever=True)
    with pytest.raises(PublishError) as refusal, intercepted(naming.root.path, refuser):
        naming.publish()
    assert "may not survive a crash" in refusal.value.suggestion
    assert naming.check(allowed=(OLD, NEW))
    assert {OLD, NEW} <= set(naming.root.version_names())


def test_a_ref_that_leaves_on_a_broken_disk_stays_or_goes_with_its_version(naming: Naming) -> None:
    recorder, counted = Recorder(), naming.copy(naming.base.with_name("counted"))
    with intercepted(counted.root.path, recorder):
        drop_ref(counted.root, REF)
    for n in range(1, len(recorder.calls) + 1):
        ours = naming.copy(naming.base.with_name(f"copy-{n}"))
        try:
            with intercepted(ours.root.path, Refuser(n, errno.EIO)):
                drop_ref(ours.root, REF)
        except CodequarryError:
            pass
        if list_refs(ours.root):
            assert ours.check(allowed=(OLD,)) == OLD
            drop_ref(ours.root, REF)
        with publishing(ours.root):
            prune(ours.root, ours.settings.bundle)
        assert ours.root.version_names() == [BASE, OLDEST]
        assert list(ours.root.refs.iterdir()) == []


def test_a_version_that_a_ref_left_while_it_was_read_goes_when_the_reader_does(naming: Naming) -> None:
    with hold_version(naming.root.version(OLD)):
        naming.publish()
        assert left_file(naming.root, OLD).exists()
        with publishing(naming.root):
            assert prune(naming.root, naming.settings.bundle).held == (OLD,)
    with publishing(naming.root):
        assert prune(naming.root, naming.settings.bundle).removed == (OLD,)
    assert naming.check(allowed=(NEW,)) == NEW
    assert [path.name for path in naming.root.refs.iterdir()] == [REF.file_name]

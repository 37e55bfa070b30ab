"""Hard links, retention, rollback, locks of staging folders, and the room a version needs."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections import namedtuple
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codequarry.pipelines.bundle.disk_space import require_space, require_space_for_run
from codequarry.pipelines.bundle.folder import new_staging_folder, remove_abandoned, using
from codequarry.pipelines.publish import retention
from codequarry.pipelines.publish.publish import acknowledge_current, publish_verified, publishing
from codequarry.pipelines.publish.retention import created, prune, superfluous
from codequarry.pipelines.publish.rollback import roll_back
from codequarry.pipelines.store import links as hard_links
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.errors import BusyError, IntegrityError, NoBundleError, NotFoundError, PublishError
from codequarry.schemas.settings.load import BundleSettings
from codequarry.serving.files import disk
from codequarry.serving.files.integrity import is_whole, unique_bytes
from codequarry.serving.files.lease import hold_version
from tests.faults.scenes.calls import Recorder, Refuser, intercepted
from tests.faults.scenes.scene import NEW, OLD, OLDEST, STAGED, Scene
from tests.serving.bundles.bundle_factory import write_bundle
from tests.serving.bundles.corpus import PIECES


def linked(scene: Scene) -> set[str]:
    """Files of NEW that are links to OLD."""
    old, new = scene.root.version(OLD).path, scene.root.version(NEW).path
    return {
        file.relative_to(new).as_posix()
        for file in new.rglob("*")
        if file.is_file() and (twin := old / file.relative_to(new)).exists() and twin.samefile(file)
    }


def test_equal_files_become_links_and_different_ones_do_not(scene: Scene) -> None:
    old, staged = scene.root.version(OLD).path, scene.root.versions / STAGED
    equal = {
        path.relative_to(staged).as_posix()
        for path in staged.rglob("*")
        if path.is_file() and (old / path.relative_to(staged)).is_file()
        and path.read_bytes() == (old / path.relative_to(staged)).read_bytes()
    }  # fmt: skip
    published = scene.publish()
    assert linked(scene) == equal
    assert {"tables/scip_symbols.parquet", "tables/ast_nodes.parquet"} <= equal
    assert "manifest.json" not in equal
    assert published.linked_bytes == sum((old / name).stat().st_size for name in equal)
    paths = scene.root.version(NEW)
    total = sum(file.stat().st_size for file in paths.path.rglob("*") if file.is_file())
    assert unique_bytes(paths) == total - published.linked_bytes
    assert scene.check(allowed=(NEW,)) == NEW


def test_a_damaged_file_of_the_current_version_is_never_linked_to(scene: Scene) -> None:
    """Same size, one bit off: the quick check at open does not see it, a link would carry it into the new version."""
    victim = scene.root.version(OLD).table("scip_symbols")
    data = bytearray(victim.read_bytes())
    data[20] ^= 1
    victim.write_bytes(data)
    scene.publish()
    assert "tables/scip_symbols.parquet" not in linked(scene)
    assert "tables/ast_nodes.parquet" in linked(scene)
    assert scene.check(allowed=(NEW,)) == NEW


@pytest.mark.parametrize("code", [18, 31, 1], ids=["EXDEV", "EMLINK", "EPERM"])
def test_where_linking_fails_the_copy_stays(scene: Scene, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(hard_links.os, "link", refuse)
    assert scene.publish().linked_bytes == 0
    assert linked(scene) == set()
    assert scene.check(allowed=(NEW,)) == NEW


def test_a_held_version_outlives_retention_until_it_is_let_go(scene: Scene) -> None:
    with hold_version(scene.root.version(OLDEST)):
        pruned = scene.publish().pruned
        assert pruned is not None and (pruned.removed, pruned.held) == ((), (OLDEST,))
        assert is_whole(scene.root.version(OLDEST))
    with publishing(scene.root):
        assert prune(scene.root, scene.settings.bundle).removed == (OLDEST,)
    assert scene.root.version_names() == [OLD, NEW]


def test_a_dry_run_removes_nothing(scene: Scene) -> None:
    before = sorted(path for path in scene.root.path.rglob("*"))
    done = prune(scene.root, scene.settings.bundle.model_copy(update={"keep_days": 1.0}), dry_run=True)
    assert done.removed == () and scene.root.version_names() == [OLDEST, OLD]
    assert sorted(path for path in scene.root.path.rglob("*")) == before


days = st.integers(0, 400)


@given(ages=st.lists(days, min_size=1, max_size=9, unique=True), current=st.integers(0), broken=st.sets(days),
       keep=st.integers(2, 5), keep_days=st.sampled_from([0, 1, 30, 365]))  # fmt: skip
def test_retention_against_its_rules(
    ages: list[int], current: int, broken: set[int], keep: int, keep_days: int
) -> None:
    """The rules one by one, over versions that exist in name only."""
    now = datetime(2026, 11, 22, tzinfo=UTC)
    names = {age: f"{now - timedelta(days=age):%Y%m%dT%H%M%SZ}-0000000a" for age in ages}
    named = names[ages[current % len(ages)]]
    whole = {name for age, name in names.items() if age not in broken}
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        root = BundleRoot(Path(folder))
        for name in names.values():
            root.version(name).path.mkdir(parents=True)
        patch.setattr(retention, "is_whole", lambda paths: paths.path.name in whole)
        gone = superfluous(root, named, BundleSettings(root=root.path, keep_versions=keep, keep_days=keep_days), now)
    kept = set(names.values()) - set(gone)
    assert gone == sorted(gone)
    assert named in kept
    assert not (whole - {named}) or kept & (whole - {named}), "nothing whole is left to roll back to"
    assert len(kept) <= keep + 1
    youngest_others = sorted(set(names.values()) - {named}, reverse=True)[: keep - 1]
    for name in youngest_others:
        assert name in kept or (keep_days and created(name) < now - timedelta(days=keep_days))
    floor = max(whole - {named}, default="")
    for name in kept - {named, floor}:
        assert name in youngest_others and (not keep_days or created(name) >= now - timedelta(days=keep_days))


def test_rollback_goes_to_the_version_before_and_back_by_name(scene: Scene) -> None:
    scene.publish()
    assert (roll_back(scene.root).manifest.version, scene.current()) == (OLD, OLD)
    assert (roll_back(scene.root, NEW).before, scene.current()) == (OLD, NEW)
    with pytest.raises(NotFoundError, match=f"there are: {OLD}, {NEW}"):
        roll_back(scene.root, OLDEST)


def test_rollback_refuses_a_damaged_version_and_leaves_current(scene: Scene) -> None:
    victim = scene.root.version(OLDEST).table("scip_symbols")
    data = bytearray(victim.read_bytes())
    data[20] ^= 1
    victim.write_bytes(data)
    with pytest.raises(IntegrityError, match="scip_symbols"):
        roll_back(scene.root)
    assert scene.current() == OLD


def test_rollback_repairs_a_damaged_current_with_the_newest_whole_version(scene: Scene) -> None:
    scene.root.current.write_bytes(b"torn")
    (scene.root.version(OLD).path / "tables/embeddings.parquet").write_bytes(b"")
    done = roll_back(scene.root)
    assert (done.manifest.version, done.before, scene.current()) == (OLDEST, "", OLDEST)


def test_rollback_finds_the_newest_whole_version_where_current_is_gone(scene: Scene) -> None:
    scene.root.current.unlink()
    done = roll_back(scene.root)
    assert (done.manifest.version, done.before, scene.current()) == (OLD, "", OLD)
    with pytest.raises(NoBundleError):
        roll_back(BundleRoot(scene.base / "nowhere"))


def test_a_rolled_back_version_is_not_taken_for_a_publish_that_was_cut_off(scene: Scene) -> None:
    scene.publish()
    roll_back(scene.root)
    with publishing(scene.root):
        prune(scene.root, scene.settings.bundle)
    assert scene.root.version_names() == [OLD, NEW]


def test_a_flip_that_was_killed_is_on_the_disk_before_the_same_contents_are_acknowledged(scene: Scene) -> None:
    """A run that finds nothing to publish says that the version is current, as does one that would publish it again."""
    scene.publish()
    removed = scene.root.versions / f".removed-{OLDEST}"
    for finish in (acknowledge_current, lambda _root: publish_verified(scene.verified, scene.settings.bundle)):
        scene.root.publishing.write_bytes(scene.root.current.read_bytes())
        removed.mkdir()
        recorder = Recorder()
        with intercepted(scene.root.path, recorder):
            finish(scene.root)
        calls = [(call.name, Path(call.path)) for call in recorder.calls]
        assert calls.index(("fsync", scene.root.path)) < calls.index(("unlink", scene.root.publishing))
        assert scene.check(allowed=(NEW,)) == NEW
        assert scene.litter() == []
        shutil.copytree(scene.root.version(NEW).path, scene.root.versions / STAGED)


def test_a_disk_that_refuses_to_finish_a_killed_flip_is_no_acknowledgement(scene: Scene) -> None:
    scene.publish()
    scene.root.publishing.write_bytes(scene.root.current.read_bytes())
    refuser = Refuser(1, errno.EIO, kinds=("fsync",))
    with pytest.raises(PublishError, match="cleaning up"), intercepted(scene.root.path, refuser):
        acknowledge_current(scene.root)
    assert scene.root.publishing.exists()


def test_staging_folders_go_by_their_lock_and_not_by_age_alone(scene: Scene) -> None:
    versions = scene.root.versions
    for name in (".staging-dead", ".staging-dead.bm25", ".staging-gone.bm25", ".staging-old", ".staging-waits"):
        (versions / name).mkdir()
    for name in (".staging-old", ".staging-waits"):
        (versions / name / "manifest.json").write_text("{}")
    os.utime(versions / ".staging-old", (0, 0))
    with new_staging_folder(scene.root) as live:
        os.utime(live, (0, 0))
        beside = versions / f"{live.name}.bm25"
        beside.mkdir()
        removed = remove_abandoned(scene.root)
        assert live.is_dir() and beside.is_dir()
    assert sorted(removed) == [".staging-dead", ".staging-gone.bm25", ".staging-old"]
    left = {path.name for path in versions.glob(".staging-*")}
    assert left == {STAGED, ".staging-waits", live.name, beside.name}
    assert live.name in remove_abandoned(scene.root)


def test_a_staged_version_in_use_is_published_by_nobody_else(scene: Scene) -> None:
    with using(scene.root.versions / STAGED), pytest.raises(BusyError, match="verifies or publishes"):
        scene.publish()
    assert scene.check(allowed=(OLD,)) == OLD


def test_too_little_room_is_said_before_any_work(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    Full = namedtuple("Full", "f_bavail f_frsize")
    monkeypatch.setattr(disk.os, "statvfs", lambda _path: Full(10, 1_000_000))
    size = sum(file.stat().st_size for file in scene.root.version(OLD).path.rglob("*")) / 1e6
    with pytest.raises(PublishError, match=r"10 MB are free, the next version may need (\d+) MB") as caught:
        require_space(scene.root)
    needed = int(caught.value.message.split()[-2])
    assert abs(needed - (1.25 * size + (64 << 20) / 1e6)) < 1
    with pytest.raises(PublishError, match=str(scene.root.path)):
        require_space_for_run(scene.root, scene.settings.paths.work)
    monkeypatch.undo()
    require_space_for_run(scene.root, scene.settings.paths.work)


def test_nothing_published_needs_the_reserve_alone(tmp_path: Path) -> None:
    room = disk.room_for_version(BundleRoot(tmp_path / "not" / "there"))
    assert (room.needed, room.free > 0) == (disk.RESERVE_BYTES, True)
    write_bundle(tmp_path, PIECES)
    assert disk.room_for_version(BundleRoot(tmp_path)).needed > disk.RESERVE_BYTES

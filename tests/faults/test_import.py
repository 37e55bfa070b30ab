"""An archive into a root: what becomes current, what is added, what is refused, and what stays as it was."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from codequarry.pipelines.bundle.folder import remove_abandoned
from codequarry.pipelines.publish import arrival
from codequarry.pipelines.publish.archive import import_
from codequarry.pipelines.publish.archive import read as archive_unpack
from codequarry.pipelines.publish.archive.import_ import import_version
from codequarry.pipelines.publish.archive.write import export_version
from codequarry.pipelines.publish.arrival import Imported
from codequarry.pipelines.publish.publish import publishing
from codequarry.pipelines.publish.retention import prune, remove_version
from codequarry.pipelines.publish.rollback import roll_back
from codequarry.schemas.bundle.layout import Current
from codequarry.schemas.bundle.manifest import to_json
from codequarry.schemas.bundle.provenance import read_provenance
from codequarry.schemas.errors import (
    BusyError,
    FormatError,
    IntegrityError,
    InvalidArgumentError,
    PublishError,
    UnavailableError,
)
from codequarry.serving.files.integrity import file_sha256, list_files, read_manifest
from codequarry.serving.files.lease import sole_user
from tests.faults.scenes.moving import Adding, Moving, anything, fingerprint, flip
from tests.faults.scenes.scene import NEW, OLD, OLDEST, Scene


def test_an_import_publishes_links_and_prunes_like_any_other_run(moving: Moving) -> None:
    done = moving.publish()
    assert (done.done, done.manifest.version, done.unlike) == ("published", NEW, ())
    assert done.pruned is not None and done.pruned.removed == (OLDEST,)
    old, new = moving.root.version(OLD).path, moving.root.version(NEW).path
    shared = [name for name in list_files(new) if (old / name).is_file() and (old / name).samefile(new / name)]
    assert done.linked_bytes == sum((new / name).stat().st_size for name in shared) > 0
    assert moving.check(allowed=(NEW,)) == NEW
    assert roll_back(moving.root).manifest.version == OLD
    assert moving.litter() == []


def test_an_import_that_keeps_the_current_version_only_adds(moving: Moving) -> None:
    before = fingerprint(moving.root.path)
    done = Adding(moving.base).publish()
    assert (done.done, done.pruned, done.stays) == ("added", None, True)
    after = fingerprint(moving.root.path)
    assert {name: after[name] for name in before} == before
    assert moving.check(allowed=(OLD,)) == OLD
    assert moving.root.version_names() == [OLDEST, OLD, NEW]
    with publishing(moving.root):
        assert prune(moving.root, moving.settings.bundle).removed == (OLDEST,)
    assert roll_back(moving.root, NEW).before == OLD
    assert moving.check(allowed=(NEW,)) == NEW


def test_retention_is_foretold_where_it_will_take_what_was_added(scene: Scene, tmp_path: Path) -> None:
    export_version(scene.root, tmp_path / "oldest.tar", OLDEST)
    scene.publish()
    assert scene.root.version_names() == [OLD, NEW]
    done = import_version(tmp_path / "oldest.tar", scene.settings, keep_current=True, check=anything)
    assert (done.done, done.stays) == ("added", False)
    assert scene.root.version_names() == [OLDEST, OLD, NEW]
    with publishing(scene.root):
        assert prune(scene.root, scene.settings.bundle).removed == (OLDEST,)


def test_an_older_version_becomes_current_and_retention_leaves_it(scene: Scene, tmp_path: Path) -> None:
    export_version(scene.root, tmp_path / "oldest.tar", OLDEST)
    scene.publish()
    done = import_version(tmp_path / "oldest.tar", scene.settings, check=anything)
    assert done.pruned is not None and done.pruned.removed == (OLD,)
    assert scene.check(allowed=(OLDEST,)) == OLDEST
    assert scene.root.version_names() == [OLDEST, NEW]


def test_a_version_that_is_there_is_not_unpacked_again(moving: Moving, monkeypatch: pytest.MonkeyPatch) -> None:
    moving.publish()
    before = fingerprint(moving.root.path)
    monkeypatch.setattr(import_, "unpack", None)
    assert moving.publish().done == Adding(moving.base).publish().done == "unchanged"
    assert fingerprint(moving.root.path) == before
    roll_back(moving.root)
    assert Adding(moving.base).publish().done == "unchanged"
    assert moving.current() == OLD
    assert moving.publish().done == "made current"
    assert moving.check(allowed=(NEW,)) == NEW


@pytest.mark.parametrize("content", [b"", b"torn", Current(NEW, "0" * 64).line().encode(), None])
def test_a_damaged_current_is_put_right_by_an_import(moving: Moving, content: bytes | None) -> None:
    moving.publish()
    moving.root.current.unlink() if content is None else moving.root.current.write_bytes(content)
    assert moving.publish().done == "made current"
    assert moving.check(allowed=(NEW,)) == NEW


def test_where_nothing_is_current_nothing_is_kept(moving: Moving, tmp_path: Path) -> None:
    elsewhere = Moving(tmp_path / "elsewhere")
    with pytest.raises(InvalidArgumentError, match="import without --keep-current"):
        import_version(moving.archive, elsewhere.settings, keep_current=True, check=anything)
    assert elsewhere.root.version_names() == []
    moving.root.current.write_bytes(b"torn")
    with pytest.raises(IntegrityError, match="rollback"):
        Adding(moving.base).publish()
    assert moving.root.version_names() == [OLDEST, OLD]


@pytest.mark.parametrize("adding", [False, True])
@pytest.mark.parametrize("name", ["tables/chunks.parquet", "manifest.json", "bm25/meta.json"])
def test_a_damaged_version_of_the_same_name_is_said_and_left(moving: Moving, name: str, adding: bool) -> None:
    moving.publish()
    flip(moving.root.version(NEW).path / name)
    before = fingerprint(moving.root.path)
    with pytest.raises(PublishError, match=f"{NEW} is there already, and damaged.*move .*{NEW} away"):
        (Adding(moving.base) if adding else moving).publish()
    assert fingerprint(moving.root.path) == before
    shutil.move(moving.root.version(NEW).path, moving.base / "away")
    assert moving.publish().done == "published"
    assert moving.check(allowed=(NEW,)) == NEW


def test_a_version_of_the_same_name_and_other_contents_is_refused(moving: Moving) -> None:
    moving.publish()
    manifest = read_manifest(moving.root.version(NEW))
    other = to_json(manifest.model_copy(update={"created": "2027-01-01T00:00:00+00:00"}))
    raw = to_json(manifest)
    assert len(raw) == len(other)
    moving.archive.write_bytes(moving.archive.read_bytes().replace(raw, other))
    before = fingerprint(moving.root.path)
    with pytest.raises(PublishError, match="is there already with other contents"):
        moving.publish()
    assert fingerprint(moving.root.path) == before


def test_a_link_in_the_place_of_the_version_is_not_taken_for_it(moving: Moving) -> None:
    moving.publish()
    roll_back(moving.root)
    folder = moving.root.version(NEW).path
    folder.rename(moving.base / "away")
    folder.symlink_to(moving.base / "away")
    with pytest.raises(PublishError, match="symbolic link"):
        moving.publish()
    assert moving.current() == OLD


def test_while_another_publishes_nothing_is_unpacked(moving: Moving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_, "unpack", None)
    with publishing(moving.root), pytest.raises(BusyError, match="another process is publishing"):
        moving.publish()
    assert moving.check(allowed=(OLD,)) == OLD
    assert moving.litter() == []


def test_who_publishes_while_an_import_unpacks_wins_and_the_import_says_so(
    moving: Moving, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as other:
        with pytest.raises(BusyError, match="another process is publishing"):
            while_unpacking(moving, monkeypatch, lambda: other.enter_context(publishing(moving.root)))
    assert (moving.check(allowed=(OLD,)), moving.litter()) == (OLD, [])


def test_of_two_imports_of_a_version_the_second_finds_it_there(moving: Moving, monkeypatch: pytest.MonkeyPatch) -> None:
    others = iter([moving.publish])
    done = while_unpacking(moving, monkeypatch, lambda: [publish() for publish in others])
    assert done.done == "unchanged"
    assert (moving.check(allowed=(NEW,)), moving.litter()) == (NEW, [])


def while_unpacking(moving: Moving, monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> Imported:
    """Import, and do something else between the last byte and the publish."""

    def unpack(*arguments: Any) -> None:
        archive_unpack.unpack(*arguments)
        work()

    monkeypatch.setattr(import_, "unpack", unpack)
    return moving.publish()


def test_what_fails_the_gate_is_not_published(moving: Moving) -> None:
    def gate(paths, manifest, _settings) -> None:
        assert paths.path.name.startswith(".staging-import-")
        assert manifest == read_manifest(paths)
        raise PublishError("not fit")

    with pytest.raises(PublishError, match="not fit"):
        import_version(moving.archive, moving.settings, check=gate)
    assert moving.check(allowed=(OLD,)) == OLD
    assert (moving.root.version_names(), moving.litter()) == ([OLDEST, OLD], [])


def test_contents_of_another_program_are_judged_too(moving: Moving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codequarry.serving.files.compatibility.SCHEMAS", {})
    judged: list[str] = []
    done = import_version(
        moving.archive, moving.settings, check=lambda _paths, manifest, _settings: judged.append(manifest.version)
    )
    assert (done.unlike, judged) == (("the tables",), [NEW])
    assert moving.check(allowed=(NEW,)) == NEW


def test_where_a_version_came_from_goes_with_it_and_with_a_failed_import(
    moving: Moving, monkeypatch: pytest.MonkeyPatch
) -> None:
    moving.publish()
    found = read_provenance(moving.root, NEW)
    assert found is not None and (found.file, found.signed_by) == (str(moving.archive), "")
    assert read_provenance(moving.root, OLD) is None
    roll_back(moving.root)
    assert remove_version(moving.root, NEW)
    assert read_provenance(moving.root, NEW) is None and not list(moving.root.imports.iterdir())

    def refuse(*_arguments: object, **_more: object) -> None:
        raise PublishError("not now", suggestion="later")

    monkeypatch.setattr(arrival, "publish_staged", refuse)
    with pytest.raises(PublishError, match="not now"):
        moving.publish()
    assert not list(moving.root.imports.iterdir())


def test_an_interrupted_import_leaves_nothing(moving: Moving) -> None:
    def interrupt(_what: str, done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_version(moving.archive, moving.settings, interrupt)
    assert (moving.root.version_names(), moving.litter()) == ([OLDEST, OLD], [])


def test_what_a_killed_import_left_waits_for_nobody(moving: Moving) -> None:
    dead = moving.root.versions / ".staging-import-dead"
    shutil.copytree(moving.root.version(OLD).path, dead)
    waits = moving.root.versions / ".staging-waits"
    shutil.copytree(dead, waits)
    with sole_user(dead):
        assert remove_abandoned(moving.root) == []
    assert remove_abandoned(moving.root) == [dead.name]
    assert waits.is_dir()


@pytest.mark.parametrize("adding", [False, True])
def test_a_version_whose_publish_was_cut_off_is_not_taken_for_one_that_is_there(moving: Moving, adding: bool) -> None:
    """The next cleaning would take it away."""
    moving.publish()
    roll_back(moving.root)
    line = Current(NEW, file_sha256(moving.root.version(NEW).manifest)).line()
    moving.root.publishing.write_text(line)
    again = Adding(moving.base) if adding else moving
    assert again.publish().done == ("added" if adding else "published")
    with publishing(moving.root):
        prune(moving.root, moving.settings.bundle)
    assert NEW in moving.root.version_names()


def test_an_archive_that_shrinks_while_it_is_read_is_refused(moving: Moving) -> None:
    size = moving.archive.stat().st_size

    def cut(_what: str, done: int, _total: int) -> None:
        os.truncate(moving.archive, size // 2)

    with pytest.raises(IntegrityError, match=r"ends .* bytes early|found nothing"):
        import_version(moving.archive, moving.settings, cut, check=anything)
    assert (moving.check(allowed=(OLD,)), moving.litter()) == (OLD, [])


def test_damage_anywhere_in_a_real_archive_is_refused(moving: Moving) -> None:
    data = moving.archive.read_bytes()
    before = fingerprint(moving.root.path)
    for place in range(0, len(data), len(data) // 60):
        moving.archive.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises((IntegrityError, FormatError)):
            moving.publish()
        moving.archive.write_bytes(data[:place])
        with pytest.raises(IntegrityError):
            moving.publish()
    assert fingerprint(moving.root.path) == before
    moving.archive.write_bytes(data)
    assert moving.publish().done == "published"


def test_a_root_that_cannot_be_written_is_said(moving: Moving) -> None:
    (moving.base / "file").write_text("in the way")
    settings = moving.settings
    bundle = settings.bundle.model_copy(update={"root": moving.base / "file" / "root"})
    with pytest.raises(UnavailableError, match="cannot be written"):
        import_version(moving.archive, settings.model_copy(update={"bundle": bundle}), check=anything)

"""Who may read what is written, and who may lock it."""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path

import pytest

from codequarry.pipelines.store.access import let_read
from codequarry.pipelines.store.workspace import exclusive
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.errors import BusyError
from tests.faults.scenes.moving import Moving
from tests.faults.scenes.project import Project
from tests.faults.scenes.scene import NEW, OLD, Scene


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def modes(root: BundleRoot, version: str) -> tuple[set[int], set[int]]:
    """Of the folders, and of the files of a version."""
    top = root.version(version).path
    inside = [top, *top.rglob("*")]
    return {mode(path) for path in inside if path.is_dir()}, {mode(path) for path in inside if path.is_file()}


@pytest.fixture
def open_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
def test_what_an_index_run_makes_is_its_owners_alone(project: Project, tmp_path: Path) -> None:
    settings = project.settings_file.read_text()
    for name in ("bundles", "work", "store"):
        settings = settings.replace(f'"{name}"', f'".codequarry/{name}"')
    project.settings_file.write_text(settings)
    code, said = project.run("index")
    assert code == 0, said
    home = project.base / ".codequarry"
    root = BundleRoot(home / "bundles")
    assert {mode(path) for path in (home, root.path, root.versions, home / "work", home / "store")} == {0o700}
    assert modes(root, root.read_current().version) == ({0o700}, {0o600})
    assert {mode(path) & 0o077 for path in (root.current, root.lock, home / "work" / ".lock")} == {0}


@pytest.mark.usefixtures("open_umask")
@pytest.mark.parametrize(
    ("readers", "folders", "files", "home"), [("group", 0o750, 0o640, 0o710), ("all", 0o755, 0o644, 0o711)]
)
def test_the_settings_open_versions_to_others_and_nothing_else(project: Project, readers, folders, files, home) -> None:
    settings = project.settings_file.read_text()
    for name in ("bundles", "work", "store"):
        settings = settings.replace(f'"{name}"', f'".codequarry/{name}"')
    project.settings_file.write_text(settings.replace("[bundle]", f'[bundle]\nreadable_by = "{readers}"'))
    before = os.umask(0o077)
    try:
        code, said = project.run("index")
    finally:
        os.umask(before)
    assert code == 0, said
    top = project.base / ".codequarry"
    root = BundleRoot(top / "bundles")
    assert (mode(top), mode(root.path), mode(root.versions)) == (home, folders, folders)
    assert modes(root, root.read_current().version) == ({folders}, {files})
    assert mode(root.current) == files
    assert (mode(top / "work"), mode(top / "store")) == (0o700, 0o700)
    assert mode(root.lock) & 0o044 == 0


def test_folders_that_are_there_stay_as_somebody_made_them(scene: Scene) -> None:
    scene.root.path.chmod(0o775)
    scene.publish()
    assert mode(scene.root.path) == 0o775
    assert modes(scene.root, NEW) == ({0o700}, {0o600})
    assert scene.check(allowed=(NEW,)) == NEW


def test_an_import_writes_with_the_same_permissions(moving: Moving) -> None:
    moving.publish()
    assert modes(moving.root, NEW) == ({0o700}, {0o600})
    assert moving.check(allowed=(NEW,)) == NEW


def test_links_keep_the_files_of_the_version_before(scene: Scene) -> None:
    published = scene.publish()
    assert published.linked_bytes
    both = [scene.root.version(name).table("scip_symbols") for name in (OLD, NEW)]
    assert both[0].samefile(both[1])
    assert mode(both[0]) == 0o600


def test_a_file_of_another_user_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")

    def refuse(_path: str, _mode: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "chmod", refuse)
    let_read(tmp_path, "owner")


@pytest.mark.usefixtures("open_umask")
@pytest.mark.parametrize("left", [None, 0o644])
def test_who_may_not_write_a_lock_file_cannot_open_it(tmp_path: Path, left: int | None) -> None:
    """A lock needs no more than an open file, so that reading alone would do to keep publishers out."""
    lock = tmp_path / "a.lock"
    if left is not None:
        lock.touch()
        lock.chmod(left)
    with exclusive(lock, "publishing"):
        assert mode(lock) & 0o044 == 0
        assert mode(lock) & 0o200
        with pytest.raises(BusyError), exclusive(lock, "publishing"):
            pass
    descriptor = os.open(lock, os.O_WRONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)

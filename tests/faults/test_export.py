"""A published version into one file: every byte checked, one file for one version, nothing left after a failure."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from codequarry.pipelines.publish import leaving
from codequarry.pipelines.publish.archive.import_ import import_version
from codequarry.pipelines.publish.archive.write import export_version
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.errors import IntegrityError, InvalidArgumentError, NoBundleError, NotFoundError
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.search import SearchRequest, SearchResult
from codequarry.serving.engine.engine import Engine
from codequarry.serving.files.integrity import list_files
from codequarry.serving.files.lease import sole_user
from tests.faults.scenes.moving import Moving, anything, fingerprint, flip
from tests.faults.scenes.scene import NEW, OLD, OLDEST, Scene
from tests.machine import can_mount
from tests.pipelines.publish.archives import listed


def answer(root: BundleRoot) -> list[SearchResult]:
    with closing(Engine.open(root.path, ServingSettings())) as engine:
        return engine.search(SearchRequest(query="Index.open")).results


def test_a_version_served_elsewhere_gives_the_same_answers(scene: Scene, tmp_path: Path) -> None:
    done = export_version(scene.root, tmp_path / "app.tar")
    elsewhere = Moving(tmp_path / "elsewhere")
    taken = import_version(done.path, elsewhere.settings, check=anything)
    assert (done.manifest.version, taken.done, taken.linked_bytes) == (OLD, "published", 0)
    assert elsewhere.check(allowed=(OLD,)) == OLD
    assert answer(elsewhere.root) == answer(scene.root) != []
    ours, theirs = scene.root.version(OLD).path, elsewhere.root.version(OLD).path
    assert list_files(ours) == list_files(theirs)
    assert all((ours / name).read_bytes() == (theirs / name).read_bytes() for name in list_files(ours))
    assert elsewhere.litter() == []


def test_one_version_has_one_archive(scene: Scene, tmp_path: Path) -> None:
    first = export_version(scene.root, tmp_path / "a.tar", OLD)
    for file in scene.root.version(OLD).path.rglob("*"):
        os.utime(file, (0, 0))
        if file.is_file():
            file.chmod(0o600)
    second = export_version(scene.root, tmp_path / "b.tar")
    assert first.path.read_bytes() == second.path.read_bytes()
    elsewhere = Moving(tmp_path / "elsewhere")
    import_version(first.path, elsewhere.settings, check=anything)
    third = export_version(elsewhere.root, tmp_path / "c.tar")
    assert third.path.read_bytes() == first.path.read_bytes()
    assert export_version(scene.root, tmp_path / "d.tar", OLDEST).path.read_bytes() != first.path.read_bytes()


def test_an_archive_is_a_tar_of_the_files_of_the_manifest(scene: Scene, tmp_path: Path) -> None:
    done, folder = export_version(scene.root, tmp_path / "app.tar"), scene.root.version(OLD).path
    held = listed(done.path.read_bytes())
    assert list(held) == ["manifest.json", *(entry.path for entry in done.manifest.files)]
    assert held == {name: (folder / name).read_bytes() for name in list_files(folder)}
    assert done.size_bytes == done.path.stat().st_size
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(done.path.stat().st_mode) == 0o666 & ~umask


def test_a_file_that_is_there_stays_unless_it_is_forced_away(scene: Scene, tmp_path: Path) -> None:
    target = tmp_path / "app.tar"
    target.write_text("dear")
    with pytest.raises(InvalidArgumentError, match=r"app.tar is there already; name another file, or add --force"):
        export_version(scene.root, target)
    assert target.read_text() == "dear"
    done = export_version(scene.root, target, force=True)
    assert target.stat().st_size == done.size_bytes > 100_000
    assert [path.name for path in tmp_path.glob("*.tar")] == ["app.tar"]


def test_a_file_that_appears_meanwhile_stays_as_well(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "app.tar"
    with pytest.raises(InvalidArgumentError, match="is there already"):
        export_version(scene.root, target, progress=lambda *_: target.write_text("dear"))
    assert target.read_text() == "dear"
    assert list(tmp_path.glob(".codequarry-*")) == []


@pytest.mark.parametrize("force", [False, True])
def test_where_no_file_may_be_written(scene: Scene, tmp_path: Path, force: bool) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "inside").symlink_to(scene.root.versions)
    for target, why in {
        tmp_path: "no regular file",
        tmp_path / "link": "no regular file",
        Path("/dev/null"): "no regular file",
        tmp_path / "no" / "app.tar": "is no folder",
        scene.root.path / "app.tar": "under the bundle root",
        scene.root.version(OLD).path / "app.tar": "under the bundle root",
        tmp_path / "inside" / "app.tar": "under the bundle root",
    }.items():
        with pytest.raises(InvalidArgumentError, match=why):
            export_version(scene.root, target, force=force)
    assert scene.check(allowed=(OLD,)) == OLD


def test_versions_that_are_not_there_are_named(scene: Scene, tmp_path: Path) -> None:
    target = tmp_path / "app.tar"
    for version in (NEW, "latest", "../versions"):
        with pytest.raises(NotFoundError, match=f"there are: {OLDEST}, {OLD}"):
            export_version(scene.root, target, version)
    scene.root.current.write_text("torn")
    with pytest.raises(IntegrityError, match="rollback"):
        export_version(scene.root, target)
    scene.root.current.unlink()
    with pytest.raises(NoBundleError):
        export_version(scene.root, target)
    assert export_version(scene.root, target, OLD).manifest.version == OLD


@pytest.mark.parametrize("name", ["bm25/meta.json", "tables/chunks.parquet", "manifest.json", "catalog.duckdb"])
def test_a_damaged_version_is_not_exported_and_leaves_no_file(scene: Scene, tmp_path: Path, name: str) -> None:
    flip(scene.root.version(OLD).path / name)
    with pytest.raises(IntegrityError, match=name.replace(".", r"\.")):
        export_version(scene.root, tmp_path / "app.tar")
    assert list(tmp_path.glob("*.tar")) == [] == list(tmp_path.glob(".codequarry-*"))


def test_files_that_the_manifest_does_not_know_are_not_exported(scene: Scene, tmp_path: Path) -> None:
    folder = scene.root.version(OLD).path
    (folder / "more").write_text("x")
    with pytest.raises(IntegrityError, match="more: not in the manifest"):
        export_version(scene.root, tmp_path / "app.tar")
    (folder / "more").unlink()
    (folder / "tables/embeddings.parquet").rename(folder / "away")
    (folder / "tables/embeddings.parquet").symlink_to(folder / "away")
    with pytest.raises(IntegrityError, match="not a regular file"):
        export_version(scene.root, tmp_path / "app.tar")


def test_a_manifest_that_no_import_would_read_is_not_exported(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codequarry.pipelines.publish.leaving.MAX_MANIFEST_BYTES", 1000)
    with pytest.raises(IntegrityError, match="expected 1,000 at most"):
        export_version(scene.root, tmp_path / "app.tar")


def test_a_version_is_held_while_it_is_exported(scene: Scene, tmp_path: Path) -> None:
    manifest, alone = scene.root.version(OLD).manifest, list[bool]()

    def look(*_: object) -> None:
        with sole_user(manifest) as nobody_else:
            alone.append(nobody_else)

    export_version(scene.root, tmp_path / "app.tar", progress=look)
    assert len(alone) > 10 and not any(alone)
    with sole_user(manifest) as nobody_else:
        assert nobody_else


def test_a_version_that_is_replaced_and_pruned_at_the_wrong_moment_is_not_missed(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = leaving.hold_version

    def too_late(paths):
        if paths.path.name == OLD:
            scene.publish()
            raise IntegrityError("it was removed meanwhile")
        return honest(paths)

    monkeypatch.setattr(leaving, "hold_version", too_late)
    assert export_version(scene.root, tmp_path / "app.tar").manifest.version == NEW


def test_a_root_that_nobody_can_write_is_exported_from(scene: Scene, tmp_path: Path) -> None:
    before = fingerprint(scene.root.path)
    folders = [scene.root.path, *(path for path in scene.root.path.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    try:
        assert export_version(scene.root, tmp_path / "app.tar").manifest.version == OLD
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert fingerprint(scene.root.path) == before


READ_ONLY = """
import sys
from pathlib import Path
from codequarry.pipelines.publish.archive.write import export_version
from codequarry.schemas.bundle.layout import BundleRoot
root = BundleRoot(Path(sys.argv[1]))
try:
    (root.path / "probe").touch()
except OSError:
    print(export_version(root, Path(sys.argv[2])).manifest.version)
"""


def test_a_read_only_mount_is_exported_from(scene: Scene, tmp_path: Path) -> None:
    view = tmp_path / "view"
    view.mkdir()
    mount = f"mount --bind {scene.root.path} {view} && mount -o remount,bind,ro {view}"
    if not can_mount(mount):
        pytest.skip("no user namespaces here; the test above takes permissions away instead")
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", f'{mount} && exec "{sys.executable}" -c "$PROGRAM" {view} {tmp_path}/app.tar'],
        env={"PROGRAM": READ_ONLY, "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == OLD, done.stderr

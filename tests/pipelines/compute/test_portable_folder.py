"""A folder that travels: what changed arrives, what went is gone, and no path leads out of it."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from codequarry.pipelines.compute.portable_folder import apply_changes, list_states, pack_changes

pytestmark = pytest.mark.unit


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in list_states(folder)}


def test_changes_make_the_other_folder_the_same(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    (here / "inner").mkdir(parents=True)
    for name in ("kept", "changed", "inner/gone"):
        (here / name).write_text(name)
    apply_changes(there, pack_changes(here, {}).archive)
    assert contents(there) == contents(here)
    before = list_states(here)
    (here / "changed").write_text("other")
    (here / "inner" / "gone").unlink()
    (here / "new").write_text("new")
    changes = pack_changes(here, before)
    with tarfile.open(fileobj=io.BytesIO(changes.archive)) as archive:
        assert archive.getnames() == ["changed", "new"]
    apply_changes(there, changes.archive, changes.removed)
    assert contents(there) == contents(here) == {"kept": b"kept", "changed": b"other", "new": b"new"}


@pytest.mark.parametrize("name", ["../out", "/out", "inner/../../out"])
def test_a_path_that_leads_out_is_refused(name: str, tmp_path: Path) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.addfile(tarfile.TarInfo(name))
    with pytest.raises(ValueError, match="leads out of its folder"):
        apply_changes(tmp_path / "folder", stream.getvalue())
    with pytest.raises(ValueError, match="leads out of its folder"):
        apply_changes(tmp_path / "folder", pack_changes(tmp_path / "none", {}).archive, [name])
    assert not (tmp_path / "out").exists()

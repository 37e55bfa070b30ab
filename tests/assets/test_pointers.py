"""What one Dagster step leaves for the next."""

from pathlib import Path

import pytest

from codequarry.assets.pointers import read_pointer, remove_pointers, write_pointer
from codequarry.pipelines.bundle.stage import Staged
from codequarry.pipelines.gates.verify import Verified
from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.bundle.manifest import AcceptedEntry
from codequarry.schemas.errors import PublishError
from codequarry.serving.files.integrity import read_manifest
from codequarry.serving.version.file_checks import Check
from tests.serving.bundle_factory import write_bundle
from tests.serving.corpus import PIECES


@pytest.fixture
def paths(tmp_path: Path) -> BundlePaths:
    return write_bundle(tmp_path / "bundles", PIECES)


def test_a_value_is_read_as_it_was_written(tmp_path: Path, paths: BundlePaths) -> None:
    staged = Staged(paths.path, read_manifest(paths), {"faiss": 0.25}, 3)
    accepted = (AcceptedEntry(check="files that went", found="3", expected="0", reason="they moved"),)
    check = Check("files that went", False, "3", "0", ("a.py",), regression=True, warning="careful")
    verified = Verified("20260101T000000Z-0000000b", paths.path, "0" * 64, (check,), accepted)
    work = tmp_path / "work"
    write_pointer(work, staged)
    write_pointer(work, verified)
    assert read_pointer(work, Staged) == staged
    assert read_pointer(work, Verified) == verified


def test_without_the_step_before_or_its_version_there_is_nothing(tmp_path: Path, paths: BundlePaths) -> None:
    staged, work = Staged(paths.path, read_manifest(paths), {}, 0), tmp_path / "work"

    def refused() -> None:
        with pytest.raises(PublishError, match="nothing is staged") as caught:
            read_pointer(work, Staged)
        assert caught.value.suggestion

    refused()
    write_pointer(work, staged)
    (work / "staged.json").write_text('{"path": "of another program"}')
    refused()
    write_pointer(work, staged)
    remove_pointers(work, Staged, Verified)
    refused()
    write_pointer(work, staged)
    paths.path.rename(tmp_path / "elsewhere")
    refused()

"""Holds: shared among readers, visible to a remover, gone with the process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from codequarry.schemas import holds
from codequarry.schemas.errors import BusyError, IntegrityError
from codequarry.schemas.holds import hold_version, sole_user
from codequarry.schemas.layout import BundlePaths, BundleRoot

VERSION = "20261121T120000Z-0123abcd"


@pytest.fixture
def version(tmp_path: Path) -> BundlePaths:
    paths = BundleRoot(tmp_path).version(VERSION)
    paths.path.mkdir(parents=True)
    paths.manifest.write_text("{}")
    return paths


def alone(paths: BundlePaths) -> bool:
    with sole_user(paths.manifest) as result:
        return result


def test_a_held_version_is_not_for_the_remover_until_the_last_reader_lets_go(version: BundlePaths) -> None:
    assert alone(version)
    first, second = hold_version(version), hold_version(version)
    assert not alone(version)
    first.release()
    first.release()
    assert not alone(version)
    with second:
        assert not alone(version)
    assert alone(version)


def test_a_hold_needs_no_write_permission(version: BundlePaths) -> None:
    before = os.stat(version.manifest)
    version.manifest.chmod(0o444)
    version.path.chmod(0o555)
    try:
        with hold_version(version):
            assert not alone(version)
    finally:
        version.path.chmod(0o755)
    assert sorted(os.listdir(version.path)) == ["manifest.json"]
    assert os.stat(version.manifest).st_mtime_ns == before.st_mtime_ns


def test_a_reader_that_was_killed_holds_nothing(version: BundlePaths) -> None:
    program = (
        "import sys; from pathlib import Path; from codequarry.schemas.holds import hold_version\n"
        "from codequarry.schemas.layout import BundlePaths\n"
        "held = hold_version(BundlePaths(Path(sys.argv[1]))); print('held', flush=True); sys.stdin.read()"
    )
    reader = subprocess.Popen(
        [sys.executable, "-c", program, str(version.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"held\n"
        assert not alone(version)
        reader.kill()
    assert alone(version)


def test_a_version_that_goes_between_open_and_lock_is_not_held(
    version: BundlePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = holds._shared

    def removed_first(descriptor: int) -> bool:
        version.path.rename(version.path.with_name(".removed"))
        return real(descriptor)

    monkeypatch.setattr(holds, "_shared", removed_first)
    with pytest.raises(IntegrityError, match="removed meanwhile"):
        hold_version(version)


def test_a_version_under_removal_is_waited_for_and_then_refused(
    version: BundlePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holds, "_PATIENCE_S", 0.02)
    with sole_user(version.manifest) as mine, pytest.raises(BusyError, match="being removed"):
        assert mine
        hold_version(version)
    assert alone(version)


def test_no_version_no_hold(tmp_path: Path) -> None:
    with pytest.raises(IntegrityError, match="no readable manifest"):
        hold_version(BundleRoot(tmp_path).version(VERSION))

"""Holds: shared among readers, visible to a remover, gone with the process."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot
from codequarry.schemas.errors import BusyError, IntegrityError
from codequarry.serving.files import lease as holds
from codequarry.serving.files.lease import hold_version, sole_user

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
        "import sys; from pathlib import Path; from codequarry.serving.files.lease import hold_version\n"
        "from codequarry.schemas.bundle.layout import BundlePaths\n"
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


@pytest.mark.skipif(sys.platform != "linux", reason="locks of open file descriptions are Linux's")
def test_who_may_only_read_a_version_keeps_nobody_out(version: BundlePaths) -> None:
    descriptor = os.open(version.manifest, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(OSError):
            holds._lock(descriptor, exclusive=True)
        with hold_version(version):
            assert not alone(version)
        assert alone(version)
    finally:
        os.close(descriptor)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_who_may_read_holds_a_version_and_cannot_take_it(tmp_path: Path) -> None:
    """Where no folder on the way is closed to that user."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        paths = BundleRoot(Path(folder)).version(VERSION)
        paths.path.mkdir(parents=True)
        paths.manifest.write_text("{}")
        paths.manifest.chmod(0o644)
        program = (
            "import os, sys; from pathlib import Path; from codequarry.serving.files import lease as holds\n"
            "from codequarry.schemas.bundle.layout import BundlePaths\n"
            "paths = BundlePaths(Path(sys.argv[1])); os.setuid(65534)\n"
            "with holds.sole_user(paths.manifest) as alone: print('alone', alone)\n"
            "held = holds.hold_version(paths); print('held', flush=True); sys.stdin.read()"
        )
        reader = subprocess.Popen(
            [sys.executable, "-c", program, str(paths.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        with reader:
            assert reader.stdout is not None
            assert [reader.stdout.readline(), reader.stdout.readline()] == ["alone False\n", "held\n"]
            assert not alone(paths)
            assert holds.is_held(paths.manifest)
            reader.kill()
        assert alone(paths)
        assert not holds.is_held(paths.manifest)


def test_asking_who_holds_a_version_disturbs_no_reader(version: BundlePaths) -> None:
    with hold_version(version) as first:
        assert holds.is_held(version.manifest)
        hold_version(version).release()
        first.release()
    assert not holds.is_held(version.manifest)


def test_no_version_no_hold(tmp_path: Path) -> None:
    with pytest.raises(IntegrityError, match="no readable manifest"):
        hold_version(BundleRoot(tmp_path).version(VERSION))

"""F12 at the command line: without descriptors no command calls a version damaged, and none removes anything."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from codequarry.pipelines.cli.root import build_app
from codequarry.pipelines.publish.publish import publishing
from codequarry.pipelines.publish.retention import prune
from codequarry.pipelines.sources.files import _DiskFiles
from codequarry.schemas.errors import ResourcesError
from codequarry.schemas.resources import exhaustion
from codequarry.serving.engine import follow as following
from codequarry.serving.version.open import Bundle
from tests.faults.scenes.moving import Moving
from tests.faults.scenes.project import Project
from tests.faults.scenes.scene import NEW, OLD, OLDEST
from tests.serving.bundles.versions import flip, followed, publish

APP = build_app()
STEPS = range(7)


@contextmanager
def descriptors(left: int) -> Iterator[None]:
    """No more than that many files can be opened."""
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + left, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for number in range(3):
        publish(tmp_path / "root", number)
    return tmp_path / "root"


def starved(left: int, *command: str) -> Result:
    with descriptors(left):
        return CliRunner().invoke(APP, command)


@pytest.mark.parametrize(
    "command", [("verify",), ("verify", "--deep"), ("versions", "--json"), ("rollback",), ("prune", "--keep", "2")]
)
def test_a_command_says_that_there_are_no_descriptors_and_not_that_it_is_damaged(root, tmp_path, command) -> None:
    spare = shutil.copytree(root, tmp_path / "spare")
    assert CliRunner().invoke(APP, [*command, "--root", str(spare)]).exit_code == 0  # imports everything
    names = sorted(path.name for path in (root / "versions").iterdir())
    refused = 0
    for left in STEPS:
        result = starved(left, *command, "--root", str(root))
        if result.exit_code == 0:
            assert "broken" not in result.output
            break
        refused += 1
        assert exhaustion(result.exception) == errno.EMFILE, repr(result.exception)
        assert isinstance(result.exception, ResourcesError | OSError), repr(result.exception)
        assert sorted(path.name for path in (root / "versions").iterdir()) == names
    assert refused, "the limit was never felt"


def test_the_doctor_finds_no_damage_where_nothing_can_be_opened(root) -> None:
    whole = CliRunner().invoke(APP, ["doctor", "--json", "--root", str(root)])
    known = [row["name"] for row in json.loads(whole.output)["findings"] if row["level"] == "error"]
    told = 0
    for left in STEPS:
        result = starved(left, "doctor", "--json", "--root", str(root))
        if not result.output.startswith("{"):
            assert exhaustion(result.exception) == errno.EMFILE, repr(result.exception)
            told += 1
            continue
        findings = json.loads(result.output)["findings"]
        assert [row for row in findings if row["level"] == "error" and row["name"] not in known] == []
        told += any(row["level"] == "warning" and "open files" in row["found"] for row in findings)
    assert told


def test_an_import_says_so_and_succeeds_later(moving: Moving, tmp_path: Path) -> None:
    moving.copy(tmp_path / "warm").publish()
    refused = 0
    for left in (*STEPS, 200):
        try:
            with descriptors(left):
                moving.publish()
            break
        except ResourcesError:
            refused += 1
            assert moving.check(allowed=(OLD,)) == OLD
            assert moving.root.version_names() == [OLDEST, OLD]
    assert refused
    assert moving.check(allowed=(NEW,)) == NEW
    with publishing(moving.root):
        prune(moving.root, moving.settings.bundle)  # removing needs descriptors, too
    assert moving.litter() == []


def test_an_index_run_stops_instead_of_leaving_files_out(project: Project, monkeypatch) -> None:
    before, real = project.root.current.read_bytes(), _DiskFiles.read

    def refuse(files: _DiskFiles, path: bytes, limit: int) -> bytes:
        if path.endswith(b"one.py"):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real(files, path, limit)

    monkeypatch.setattr(_DiskFiles, "read", refuse)
    result = CliRunner().invoke(APP, ["index", "--settings", str(project.settings_file)])
    assert isinstance(result.exception, ResourcesError), repr(result.exception)
    assert project.root.current.read_bytes() == before


def test_a_server_that_cannot_open_a_channel_for_want_of_descriptors_does_not_start_without_it(root) -> None:
    Bundle.open_current(root).close()
    outcomes = set()
    for left in (*range(0, 40, 2), 80, 160, 320, 640):  # of a process that has others open
        try:
            with descriptors(left):
                bundle = Bundle.open_current(root)
        except ResourcesError:
            outcomes.add("refused")
            continue
        with bundle.hold:
            assert set(bundle.problems()) <= {"faiss"}, "the corpus has no encoder"
            outcomes.add("opened")
        bundle.close()
        break
    assert outcomes == {"refused", "opened"}


def test_a_follower_calls_a_version_that_it_cannot_open_unreadable_and_not_damaged(root, monkeypatch) -> None:
    monkeypatch.setattr(following, "FIRST_RETRY_S", 0.0)
    current = (root / "CURRENT").read_bytes()
    flip(root, current.replace(current[:25], current[:25]))
    engine, follower = followed(root)
    follower.check()
    other = publish(root, 7)
    with descriptors(2):
        follower.look()
    assert "open files" in follower.refusal.reason
    assert not follower.damage
    monkeypatch.setattr(follower, "_retry_at", 0.0)
    follower.look()
    assert engine.bundle.current == other
    engine.served.close()

"""A run that publishes no complete version leaves what delta versions need of their base."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.serving.files.integrity import read_manifest
from tests.pipelines.conftest import Run
from tests.pipelines.repositories import commit
from tests.pipelines.stack.test_changes import FILES

SETTINGS = '[sources]\nrepositories = [{ path = "app" }]\n[bundle]\ndelta_share = 1.0\n'


class Project:
    """A folder with settings and a repository of which a complete version is published, and a delta version over it."""

    def __init__(self, home: Path, run: Run) -> None:
        self.home, self._run = home, run
        self.settings = home / "dagster_project.toml"
        self.settings.write_text(SETTINGS)
        commit(home / "app", FILES)
        self.base = self.index()
        self.over = self.save("one")

    def index(self, *options: str) -> str:
        """Run `codequarry index`, which must succeed: the current version."""
        done = self._run("index", "--settings", self.settings, *options)
        assert done.returncode == 0, done.stderr
        return self.current

    def save(self, word: str, *options: str) -> str:
        """Save a file and publish it as a delta version over the base."""
        (self.home / "app" / "saved.py").write_text(f"def saved_{word}():\n    return 1\n")
        version = self.index("--delta", *options)
        stack = read_manifest(self.root.version(version)).stack
        assert stack is not None and stack.base == self.base
        return version

    @property
    def root(self) -> BundleRoot:
        return BundleRoot(self.home / ".codequarry" / "bundles")

    @property
    def current(self) -> str:
        return self.root.read_current().version

    @property
    def kept(self) -> Path:
        return self.home / ".codequarry" / "work" / "base"


@pytest.fixture
def project(tmp_path: Path, run: Run) -> Project:
    return Project(tmp_path, run)


def test_after_an_index_of_what_a_delta_holds_the_next_delta_lies_over_the_same_base(project: Project) -> None:
    assert project.index() == project.over
    assert project.kept.is_dir()
    second = project.save("two")
    assert project.index() == second
    project.save("three")


def test_a_complete_version_leaves_nothing_to_keep(project: Project) -> None:
    project.index()
    project.base = project.index("--full")
    assert project.base != project.over
    assert not project.kept.exists()
    project.save("four")


def test_after_a_gate_stopped_a_run_the_next_delta_lies_over_the_same_base(project: Project, run: Run) -> None:
    text = project.settings.read_text()
    for file in (project.home / "app" / "pkg").glob("*.py"):
        file.unlink()
    project.settings.write_text(f"{text}[checks]\nmin_chunks = 100000\n")
    assert run("index", "--settings", project.settings, "--full").returncode == 2
    assert project.current == project.over
    project.settings.write_text(text)
    project.save("five")


def test_after_a_run_was_killed_the_next_delta_lies_over_the_same_base(project: Project) -> None:
    command = [sys.executable, "-m", "codequarry.pipelines.cli", "index", "--full", "--settings", str(project.settings)]
    with subprocess.Popen(command, cwd=project.home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as killed:
        while not (project.kept / "repositories" / "app").exists():
            assert killed.poll() is None
            time.sleep(0.01)
        killed.send_signal(signal.SIGKILL)
    assert project.current == project.over
    project.save("six")

"""A repository that brings state, settings and programs of its own, used by somebody who only wants to search it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.pipelines.conftest import MAIN
from tests.pipelines.repositories import commit, git

Run = Callable[..., "subprocess.CompletedProcess[str]"]
INDEXER = ".codequarry/store/tools/node_modules/.bin/scip-python"
UNTRUSTED = 2


@pytest.fixture
def clone(tmp_path: Path) -> Callable[..., Path]:
    """``clone(prepare)``: a clone of a repository that a stranger prepared."""

    def make(prepare: Callable[[Path], None]) -> Path:
        evil, victim = tmp_path / "evil", tmp_path / "victim"
        evil.mkdir()
        git(evil, "init", "--quiet")
        prepare(evil)
        commit(evil, {"a.py": "def hello():\n    return 1\n"})
        git(tmp_path, "clone", "--quiet", str(evil), str(victim))
        return victim

    return make


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run the command line as a person does, with the store where it is by default."""

    def run(folder: Path, *arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", MAIN, *arguments],
            cwd=folder, env={**os.environ, **extra}, capture_output=True, text=True, check=False, timeout=100,
        )  # fmt: skip

    return run


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A bundle root of the user's, with versions that nothing may touch."""
    root = tmp_path / "foreign"
    for day in range(1, 6):
        version = root / "versions" / f"2020010{day}T000000Z-0123abcd"
        version.mkdir(parents=True)
        (version / "manifest.json").write_text("{}")
    (root / "CURRENT").write_text(f"20200105T000000Z-0123abcd {'0' * 64}\n")
    return root


def everything(folder: Path) -> dict[str, str]:
    return {str(file): file.read_text() for file in sorted(folder.rglob("*")) if file.is_file()}


def planted(folder: Path, name: str, proof: Path) -> None:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n/bin/echo ran > {proof}\n")
    file.chmod(0o755)


def test_row_23_no_program_of_a_clone_runs(clone, run: Run, tmp_path: Path) -> None:
    victim = clone(lambda evil: planted(evil, INDEXER, tmp_path / "proof"))
    done = run(victim, "index", ".")
    assert not (tmp_path / "proof").exists()
    assert done.returncode == UNTRUSTED
    assert INDEXER in done.stderr.replace("\n", "")
    assert "Traceback" not in done.stderr


def test_programs_that_lie_in_a_folder_never_run_though_git_does_not_track_them(
    clone, run: Run, tmp_path: Path
) -> None:
    """As from an archive; also where PATH has relative entries, or some of the folder."""
    victim = clone(lambda evil: planted(evil, "bin/git", tmp_path / "proof"))
    for name in (INDEXER, "scip-python", "git", "bin/scip-python", "bin/node", "bin/unshare"):
        planted(victim, name, tmp_path / "proof")
    path = os.pathsep.join(["", ".", "bin", str(victim / "bin"), os.environ["PATH"]])
    done = run(victim, "index", ".", PATH=path)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "proof").exists()


@pytest.mark.parametrize("command", [("index", "."), ("prune", "--keep", "2"), ("rollback",)])
@pytest.mark.parametrize("way", ["link", "settings", "settings through a link"])
def test_row_23_no_bundle_root_elsewhere_is_changed(
    clone, run: Run, foreign: Path, way: str, command: tuple[str, ...]
) -> None:
    def prepare(evil: Path) -> None:
        if way == "link":
            (evil / ".codequarry").mkdir()
            (evil / ".codequarry" / "bundles").symlink_to("../../foreign")
        elif way == "settings":
            (evil / "dagster_project.toml").write_text('[bundle]\nroot = "../foreign"\n')
        else:
            (evil / "out").symlink_to("../foreign")
            (evil / "dagster_project.toml").write_text('[bundle]\nroot = "out"\n')

    before = everything(foreign)
    done = run(clone(prepare), *command)
    assert done.returncode == UNTRUSTED, done.stderr
    assert everything(foreign) == before


def test_a_link_deep_in_the_state_that_git_does_not_track_is_refused_before_anything_is_written(
    clone, run: Run, foreign: Path
) -> None:
    victim = clone(lambda evil: None)
    (victim / ".codequarry" / "store" / "deep").mkdir(parents=True)
    (victim / ".codequarry" / "store" / "deep" / "x").symlink_to(foreign)
    for command in (("index", "."), ("store", "gc", "--days", "0")):
        assert run(victim, *command).returncode == UNTRUSTED
    assert not (victim / ".codequarry" / "work").exists()


def test_row_23_no_code_is_sent_where_a_clone_says(clone, run: Run, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        text = f'[embedding]\nmodel = "m"\nendpoint = "{address}"\nendpoint_key = "HOME"\n'
        victim = clone(lambda evil: (evil / "dagster_project.toml").write_text(text) and None)
        done = run(victim, "index", ".")
        server.settimeout(0)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert done.returncode == UNTRUSTED
    assert "codequarry trust" in done.stderr


def test_a_file_named_like_a_missing_default_needs_trust_too(clone, run: Run) -> None:
    victim = clone(lambda evil: (evil / "dagster_project.toml").write_text('[auth]\npublic_key = "None"\n') and None)
    done = run(victim, "settings")
    assert (done.returncode, "auth.public_key = 'None'" in done.stderr) == (UNTRUSTED, True)


def test_a_folder_is_trusted_once_until_its_file_changes(clone, run: Run, tmp_path: Path) -> None:
    def prepare(evil: Path) -> None:
        (evil / "dagster_project.toml").write_text('[bundle]\nroot = "../mine"\n')

    victim, own = clone(prepare), {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    assert run(victim, "settings", **own).returncode == UNTRUSTED
    shown = run(victim, "trust", "--show", **own)
    assert (shown.returncode, "bundle.root = '../mine'" in shown.stdout) == (0, True)
    assert run(victim, "settings", **own).returncode == UNTRUSTED
    assert run(victim.parent, "trust", str(victim), **own).returncode == 0
    assert run(victim, "settings", **own).returncode == 0
    assert run(victim, "trust", "--list", **own).stdout == f"{victim}\n"
    with (victim / "dagster_project.toml").open("a") as file:
        file.write("[serving]\nhost = '0.0.0.0'\n")
    assert run(victim, "settings", **own).returncode == UNTRUSTED
    assert "changed" in run(victim, "trust", "--list", **own).stdout
    assert run(victim, "trust", "--remove", **own).returncode == 0
    assert run(victim, "trust", "--list", **own).stdout == ""

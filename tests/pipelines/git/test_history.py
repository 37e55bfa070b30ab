"""Commit messages and what they changed: right, bounded, and without running anything a repository configures."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from codequarry.pipelines.adapt.pairs import commit_pairs
from codequarry.pipelines.git import history as git_history
from codequarry.pipelines.git.history import Commit, file_versions, read_history
from codequarry.pipelines.git.trees import BlobReader, resolve_ref
from tests.pipelines.repositories import git

OLD = "import os\n\n\ndef load(path):\n    return open(path)\n\n\ndef keep(path, other):\n    return os.stat(path)\n"
NEW = OLD.replace("return open(path)", "with open(path) as stream:\n        return stream.read()")


def save(folder: Path, message: str, **files: str | bytes) -> None:
    folder.mkdir(exist_ok=True)
    if not (folder / ".git").exists():
        git(folder, "init", "-q")
    for name, data in files.items():
        (folder / name.replace("__", ".")).write_bytes(data.encode() if isinstance(data, str) else data)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", message)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "app"
    save(folder, "First", a__py=OLD, b__py="x = 1\n")
    save(folder, "Close the file after reading it (#12)\n\nIt leaked.\n\nSigned-off-by: A <a@b.c>", a__py=NEW)
    return folder


def history(folder: Path, *paths: str) -> list[Commit]:
    return read_history(folder, resolve_ref(folder, "HEAD"), paths or ("a.py", "b.py"))


def test_a_commit_is_its_message_and_the_files_it_changed(repository: Path) -> None:
    (found,) = history(repository)
    assert found.message == "Close the file after reading it\nIt leaked."
    assert [change.path for change in found.changes] == ["a.py"]
    (version,) = file_versions(repository, [found])
    assert version == (found.message, "a.py", OLD.encode(), NEW.encode())
    assert history(repository, "b.py") == []


def test_the_definition_that_changed_is_the_pair_and_no_other() -> None:
    (pair,) = commit_pairs("Close the file after reading it", OLD.encode(), NEW.encode(), "python")
    assert (pair.kind, pair.qualified_name) == ("commit", "load")
    assert pair.code.startswith("def load(path):\n    with open(path)")
    assert list(commit_pairs("Fix it", OLD.encode(), NEW.encode(), "python")) == []
    assert list(commit_pairs("Close the file after reading it", NEW.encode(), NEW.encode(), "python")) == []


def test_of_a_class_only_the_method_that_changed_counts() -> None:
    body = "    def {0}(self, first, second):\n        return first.{0}(second, {1})\n\n"
    old = "class Store:\n" + "".join(body.format(name, 1) for name in ("read", "write"))
    new = old.replace("write(second, 1)", "write(second, 2)")
    (pair,) = commit_pairs("Write the second value twice", old.encode(), new.encode(), "python")
    assert pair.qualified_name == "Store.write"


def test_merges_first_commits_and_wide_ones_are_left_out(repository: Path) -> None:
    git(repository, "checkout", "-q", "-b", "side", "HEAD~1")
    save(repository, "Change the other file on a branch", b__py="x = 2\n")
    git(repository, "checkout", "-q", "-")
    git(repository, "merge", "-q", "--no-ff", "-m", "Merge the branch into the main line", "side")
    wide = {f"w{number}__py": "x = 1\n" for number in range(git_history.MAX_FILES + 1)}
    save(repository, "Add many files at once", **wide)
    save(repository, "Change all of them at once", **dict.fromkeys(wide, "x = 2\n"))
    names = ("a.py", "b.py", *(name.replace("__", ".") for name in wide))
    assert sorted(found.message.splitlines()[0] for found in history(repository, *names)) == [
        "Change the other file on a branch",
        "Close the file after reading it",
    ]


def test_a_shallow_clone_has_no_history_to_tell(repository: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repository}", "clone")
    assert history(tmp_path / "clone") == []


def test_what_is_no_repository_or_broken_has_none(repository: Path, tmp_path: Path) -> None:
    assert read_history(tmp_path, "0" * 40, ["a.py"]) == []
    assert read_history(repository, "0" * 40, ["a.py"]) == []


def test_nothing_that_the_repository_configures_runs(repository: Path, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {marker}\n")
    program.chmod(0o755)
    for key in ("diff.external", "diff.x.textconv", "diff.x.command", "gpg.program", "core.pager", "core.fsmonitor"):
        git(repository, "config", key, str(program))
    git(repository, "config", "log.showSignature", "true")
    (repository / ".git" / "info" / "attributes").write_text("*.py diff=x\n")
    assert len(history(repository)) == 1
    assert not marker.exists()
    done = subprocess.run(["git", "-C", repository, "diff", "HEAD~1"], capture_output=True, check=False)
    assert marker.exists(), done  # the trap works


def test_large_and_missing_blobs_are_left_out_and_their_neighbours_are_not(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(repository, "Make the one file much larger", a__py=NEW + "#" * 5_000, b__py="x = 3\n")
    found = history(repository)
    monkeypatch.setattr(git_history, "MAX_FILE_BYTES", 1_000)
    assert [(path, len(new)) for _, path, _, new in file_versions(repository, found)] == [
        ("b.py", 6), ("a.py", len(NEW)),
    ]  # fmt: skip
    oid = found[0].changes[1].new_oid
    (repository / ".git" / "objects" / oid[:2] / oid[2:]).unlink()
    assert [path for _, path, _, _ in file_versions(repository, found)] == ["a.py"]
    with BlobReader(repository) as reader:
        assert reader.read(oid) is None


def test_no_more_commits_than_the_limit_are_read(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        save(repository, f"Set the value to {number}", b__py=f"x = {number + 10}\n")
    monkeypatch.setattr(git_history, "MAX_COMMITS", 3)
    assert [one.message for one in history(repository)] == [f"Set the value to {number}" for number in (4, 3, 2)]

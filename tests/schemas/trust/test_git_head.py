"""The commit that a work tree is at, compared with what git says, and files that were written since."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from codequarry.schemas.trust.git_head import head_commit_of, written_since
from tests.pipelines.repositories import commit, git


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_head_is_read_as_git_reads_it(tmp_path: Path, object_format: str) -> None:
    top = tmp_path / "app"
    top.mkdir()
    git(top, "init", "--quiet", f"--object-format={object_format}")
    assert head_commit_of(top) == ""
    first = commit(top, {"deep/a.py": "x\n"})
    assert head_commit_of(top) == head_commit_of(top / "deep") == first
    second = commit(top, {"b.py": "x\n"})
    git(top, "pack-refs", "--all")
    assert not (top / ".git" / "refs" / "heads" / "main").exists()
    assert head_commit_of(top) == second
    git(top, "checkout", "--quiet", "--detach", first)
    assert head_commit_of(top) == first
    git(top, "checkout", "--quiet", "-b", "feature/one")
    third = commit(top, {"c.py": "x\n"})
    assert head_commit_of(top) == third
    git(top, "worktree", "add", "--quiet", str(tmp_path / "linked"), "main")
    assert head_commit_of(tmp_path / "linked") == second
    git(tmp_path / "linked", "pack-refs", "--all")
    assert head_commit_of(tmp_path / "linked") == second


def test_nothing_else_is_a_commit(tmp_path: Path) -> None:
    assert head_commit_of(tmp_path) == ""
    commit(tmp_path, {"a.py": "x\n"})
    (tmp_path / "secret").write_text("a" * 39 + "g")
    head = tmp_path / ".git" / "HEAD"
    for text in (
        "",
        "ref: ",
        "ref: ../secret",
        "ref: refs/../../secret",
        "ref: refs/heads/nothing",
        "x" * 40,
        "a" * 41,
    ):
        head.write_text(f"{text}\n")
        assert head_commit_of(tmp_path) == ""
    (tmp_path / ".git" / "refs" / "heads" / "loop").write_text("ref: refs/heads/loop\n")
    head.write_text("ref: refs/heads/loop\n")
    assert head_commit_of(tmp_path) == ""
    head.unlink()
    os.mkfifo(head)
    assert head_commit_of(tmp_path) == ""


def test_files_that_were_written_or_removed_are_told(tmp_path: Path) -> None:
    commit(tmp_path, {"a.py": "x\n", "b/c.py": "x\n", "b/d.py": "x\n"})
    now = time.time_ns() + 60 * 10**9
    assert written_since(tmp_path, now) == []
    os.utime(tmp_path / "a.py", ns=(now + 1, now + 1))
    (tmp_path / "b" / "d.py").unlink()
    (tmp_path / "untracked.py").write_text("x\n")
    assert sorted(written_since(tmp_path, now)) == ["a.py", "b/d.py"]
    assert written_since(tmp_path / "b", now) == ["d.py"]
    (tmp_path / ".git" / "index").write_bytes(b"DIRC")
    assert written_since(tmp_path, now) == []
    assert written_since(tmp_path.parent, now) == []

"""Which paths git tracks, read from index files that git itself wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from codequarry.schemas.errors import SourceError
from codequarry.schemas.trust.git_index import git_top, tracked_below
from tests.pipelines.repositories import commit, git

FILES = {f"a/{name}": "x\n" for name in ("b", "codequarry", ".codequarr", ".codequarryignore", "long-name-of-a-file")}


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_paths_are_found_in_every_version_of_the_index(tmp_path: Path, version: int, object_format: str) -> None:
    git(tmp_path, "init", "--quiet", f"--object-format={object_format}")
    git(tmp_path, "config", "index.version", str(version))
    commit(tmp_path, FILES)
    state = tmp_path / "a" / ".codequarry"
    assert tracked_below(state, tmp_path) == ""
    commit(tmp_path, {"a/.codequarry/store/x": "x\n"})
    git(tmp_path, "update-index", f"--index-version={version}")
    if version == 3:  # written only where an entry needs its flags
        (tmp_path / "later").write_text("x\n")
        git(tmp_path, "add", "--intent-to-add", "later")
    assert (tmp_path / ".git" / "index").read_bytes()[7] == version
    assert tracked_below(state, tmp_path) == "a/.codequarry/store/x"
    assert tracked_below(tmp_path / "a" / "b", tmp_path) == "a/b"
    assert tracked_below(tmp_path / "nothing", tmp_path) == ""


def test_letter_case_does_not_hide_a_path(tmp_path: Path) -> None:
    commit(tmp_path, {".CodeQuarry/x": "x\n"})
    assert tracked_below(tmp_path / ".codequarry", tmp_path) == ".CodeQuarry/x"


def test_a_split_index_and_a_linked_work_tree_are_read(tmp_path: Path) -> None:
    main, linked = tmp_path / "main", tmp_path / "linked"
    commit(main, FILES | {".codequarry/x": "x\n"})
    git(main, "worktree", "add", "--quiet", str(linked))
    assert git_top(linked / "a") == linked
    assert tracked_below(linked / ".codequarry", linked) == ".codequarry/x"
    git(main, "update-index", "--split-index")
    assert tracked_below(main / ".codequarry", main) == ".codequarry/x"


def test_a_submodule_counts(tmp_path: Path) -> None:
    oid = commit(tmp_path / "top", {"a.py": "x\n"})
    git(tmp_path / "top", "update-index", "--add", "--cacheinfo", f"160000,{oid},.codequarry")
    assert tracked_below(tmp_path / "top" / ".codequarry", tmp_path / "top") == ".codequarry"


@pytest.mark.parametrize("damage", [b"", b"DIRC", b"DIRC\0\0\0\x09\0\0\0\x01", b"x" * 500])
def test_an_index_that_cannot_be_read_is_no_empty_one(tmp_path: Path, damage: bytes) -> None:
    commit(tmp_path, {".codequarry/x": "x\n"})
    index = tmp_path / ".git" / "index"
    index.write_bytes(damage + index.read_bytes()[12:])
    with pytest.raises(SourceError):
        tracked_below(tmp_path / ".codequarry", tmp_path)

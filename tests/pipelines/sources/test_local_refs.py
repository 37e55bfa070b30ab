"""A ref of a local repository: the commit's files, whatever lies in the work tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from codequarry.pipelines.sources.census import CensusFile, take_census
from codequarry.pipelines.sources.sources import list_source
from codequarry.schemas.errors import SourceError
from codequarry.schemas.settings.load import RepositorySettings, SourcesSettings
from tests.pipelines.repositories import commit, git


def census(path: Path, ref: str) -> dict[str, CensusFile]:
    source = list_source(RepositorySettings(path=path, ref=ref, name="repo"))
    return {entry.path: entry for entry in take_census(source, SourcesSettings(max_file_bytes=100))}


def test_files_are_those_of_the_commit_and_nothing_is_checked_out(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    commit(repo, {"a.py": "old\n", "gone.py": "x\n", "big.py": "x = 1\n" * 99, "empty.py": "", "logo.png": "x"})
    git(repo, "tag", "v1")
    commit(repo, {"a.py": "new\n"})
    (repo / "gone.py").unlink()
    (repo / "untracked.py").write_text("x")
    before = git(repo, "status", "--porcelain")
    found = census(repo, "v1")
    assert {path: (entry.skip_reason, entry.content) for path, entry in found.items()} == {
        "a.py": (None, b"old\n"), "gone.py": (None, b"x\n"), "big.py": ("too_large", b""),
        "empty.py": ("empty", b""), "logo.png": ("binary", b""),
    }  # fmt: skip
    assert not any(entry.differs_from_head for entry in found.values())
    assert git(repo, "status", "--porcelain") == before


def test_a_bare_repository_a_work_tree_beside_and_a_folder_have_refs_too(tmp_path: Path) -> None:
    commit(tmp_path / "repo", {"a.py": "a\n", "sub/b.py": "b\n"})
    git(tmp_path, "clone", "--quiet", "--bare", "repo", "bare.git")
    git(tmp_path / "repo", "worktree", "add", "--quiet", "--detach", str(tmp_path / "linked"))
    assert list(census(tmp_path / "bare.git", "main")) == ["a.py", "sub/b.py"]
    assert list(census(tmp_path / "linked", "main")) == ["a.py", "sub/b.py"]
    assert list(census(tmp_path / "repo" / "sub", "main")) == ["b.py"]


def test_shallow_and_sparse_clones_have_every_file_of_their_commit(tmp_path: Path) -> None:
    commit(tmp_path / "repo", {"a.py": "a\n"})
    commit(tmp_path / "repo", {"sub/b.py": "b\n"})
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{tmp_path}/repo", "shallow")
    git(tmp_path / "shallow", "sparse-checkout", "set", "--no-cone", "/a.py")
    assert {path: entry.skip_reason for path, entry in census(tmp_path / "shallow", "HEAD").items()} == {
        "a.py": None, "sub/b.py": None,
    }  # fmt: skip


def test_a_lost_object_is_a_row_or_an_error_never_silence(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    commit(repo, {"a.py": "a\n", "b.py": "b\n"})
    oid = git(repo, "rev-parse", "HEAD:a.py")
    (repo / ".git" / "objects" / oid[:2] / oid[2:]).unlink()
    found = census(repo, "main")
    assert {path: entry.skip_reason for path, entry in found.items()} == {"a.py": "missing", "b.py": None}


def test_an_unknown_ref_names_near_ones_and_a_plain_directory_has_none(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    commit(repo, {"a.py": "a\n"})
    git(repo, "branch", "feature/search")
    with pytest.raises(SourceError, match="no branch, tag or commit 'feature/serch'; did you mean feature/search"):
        census(repo, "feature/serch")
    (tmp_path / "plain").mkdir()
    with pytest.raises(SourceError, match="not a git repository"):
        census(tmp_path / "plain", "main")

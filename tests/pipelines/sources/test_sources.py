"""Listing sources: what git knows, what a plain directory holds, what is refused; and reading their heads."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from codequarry.pipelines.git import process as git_process
from codequarry.pipelines.git.trees import blob_oid
from codequarry.pipelines.sources import sources as module
from codequarry.pipelines.sources.sources import Heads, list_source, read_heads, repositories_by_name
from codequarry.schemas.errors import InvalidArgumentError, SourceError
from codequarry.schemas.settings.load import RepositorySettings
from tests.pipelines.repositories import commit, git


def source_of(path: Path) -> RepositorySettings:
    return RepositorySettings(path=path, name="repo")


def test_a_repository_lists_tracked_and_new_but_not_ignored_files(tmp_path: Path) -> None:
    head = commit(tmp_path, {"a.py": "a", ".gitignore": "*.log\n"})
    (tmp_path / "new.py").write_text("new")
    (tmp_path / "x.log").write_text("ignored")
    source = list_source(source_of(tmp_path))
    assert source.commit == head
    assert source.paths == (b".gitignore", b"a.py", b"new.py")
    assert source.head[b"a.py"].oid == blob_oid(b"a", head) == git(tmp_path, "hash-object", "a.py")


def test_a_folder_of_a_repository_lists_what_lies_below_it(tmp_path: Path) -> None:
    head = commit(tmp_path, {"a.py": "a", "sub/b.py": "b"})
    source = list_source(source_of(tmp_path / "sub"))
    assert (source.commit, source.paths, list(source.head)) == (head, (b"b.py",), [b"b.py"])


def test_a_plain_directory_is_walked_without_following_links(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "a.py").write_text("a")
    (tmp_path / "loop").symlink_to(tmp_path)
    source = list_source(source_of(tmp_path))
    assert (source.commit, source.paths) == ("", (b"loop", b"pkg/a.py"))


def test_an_ignored_folder_that_is_named_is_taken_as_it_lies(tmp_path: Path) -> None:
    commit(tmp_path, {".gitignore": "env/\n"})
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "lib.py").write_text("x")
    assert list_source(source_of(tmp_path / "env")).paths == (b"lib.py",)


def test_row_21_hooks_fsmonitor_and_filters_of_a_repository_never_run(tmp_path: Path) -> None:
    """CVE-2025-68144 and kin: a repository's configuration is somebody else's program."""
    repo = tmp_path / "repo"
    commit(repo, {"a.py": "a", ".gitattributes": "*.py filter=evil diff=evil\n"})
    script = tmp_path / "evil.sh"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path}/pwned\ncat\n")
    script.chmod(0o755)
    for key in ("core.fsmonitor", "filter.evil.clean", "filter.evil.smudge", "diff.evil.command", "core.pager"):
        git(repo, "config", key, str(script))
    for hook in ("post-index-change", "post-checkout", "pre-commit"):
        link = repo / ".git" / "hooks" / hook
        link.unlink(missing_ok=True)
        link.symlink_to(script)
    (repo / "a.py").write_text("changed")
    assert list_source(source_of(repo)).paths == (b".gitattributes", b"a.py")
    assert not (tmp_path / "pwned").exists()


def test_a_path_that_is_missing_or_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file.py").write_text("x")
    with pytest.raises(SourceError, match="does not exist"):
        list_source(source_of(tmp_path / "nowhere"))
    with pytest.raises(SourceError, match="is a file, expected a directory"):
        list_source(source_of(tmp_path / "file.py"))


def test_a_repository_without_commits_is_read_as_its_work_tree_lies(tmp_path: Path) -> None:
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    git(fresh, "init", "--quiet")
    for name, text in {".gitignore": "*.log\n", "app.py": "x = 1\n", "staged.py": "y = 2\n", "a.log": "z\n"}.items():
        (fresh / name).write_text(text)
    git(fresh, "add", "staged.py")
    source = list_source(source_of(fresh))
    assert (source.commit, source.unborn, source.head) == ("", True, {})
    assert source.paths == (b".gitignore", b"app.py", b"staged.py")


def test_a_repository_without_work_tree_is_refused(tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    git(tmp_path, "init", "--quiet", "--bare", "bare.git")
    with pytest.raises(SourceError, match="bare repository"):
        list_source(source_of(bare))


def test_git_that_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    with pytest.raises(SourceError, match="git is not installed"):
        list_source(source_of(tmp_path))


def test_a_hanging_git_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake, source = tmp_path / "bin" / "git", tmp_path / "source"
    source.mkdir()
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\nsleep 600\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(git_process, "LOCAL_TIMEOUT_S", 0.1)
    with pytest.raises(SourceError, match="did not finish"):
        list_source(source_of(source))


def test_a_partial_clone_runs_nothing_to_get_what_it_lacks(tmp_path: Path) -> None:
    """Git would fetch a missing object from the promisor remote, by a command of the repository's configuration."""
    repo = tmp_path / "repo"
    commit(repo, {"sub/a.py": "a"})
    tree = git(repo, "rev-parse", "HEAD:sub")
    for key, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::touch {tmp_path}/pwned",
        "protocol.allow": "always",
        "protocol.ext.allow": "always",
    }.items():
        git(repo, "config", key, value)
    (repo / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    with pytest.raises(SourceError, match="git ls-tree failed"):
        list_source(source_of(repo))
    assert not (tmp_path / "pwned").exists()


def test_names_come_from_folders_and_collisions_are_refused(tmp_path: Path) -> None:
    one, two = tmp_path / "one" / "my app", tmp_path / "two" / "my app"
    assert list(repositories_by_name((RepositorySettings(path=one),))) == ["my-app"]
    with pytest.raises(InvalidArgumentError, match="two repositories are named 'my-app'") as caught:
        repositories_by_name((RepositorySettings(path=one), RepositorySettings(path=two)))
    assert "NAME" in caught.value.suggestion.upper()


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda git_folder: (git_folder / "HEAD").write_text("junk"), "not a git repository"),
        (lambda git_folder: (git_folder / "config").write_text("[core\n"), "bad config"),
        (lambda git_folder: git_folder.rename(git_folder.with_name("gone")), "cannot read the repository"),
    ],
)
def test_a_repository_git_cannot_read_is_not_taken_for_a_plain_directory(
    tmp_path: Path, damage: Callable[[Path], object], complaint: str
) -> None:
    """It would lose its .gitignore, and nobody would be told."""
    commit(tmp_path / "repo", {"a.py": "a"})
    git(tmp_path / "repo", "worktree", "add", "--quiet", str(tmp_path / "linked"))
    damage(tmp_path / "repo" / ".git")
    broken = tmp_path / ("linked" if (tmp_path / "repo" / "gone").exists() else "repo")
    with pytest.raises(SourceError, match=complaint):
        list_source(source_of(broken))


def test_a_work_tree_beside_the_repository_is_read_at_its_own_commit(tmp_path: Path) -> None:
    commit(tmp_path / "repo", {"a.py": "a"})
    git(tmp_path / "repo", "worktree", "add", "--quiet", "-b", "other", str(tmp_path / "linked"))
    head = commit(tmp_path / "linked", {"b.py": "b"})
    source = list_source(source_of(tmp_path / "linked"))
    assert (source.commit, source.paths) == (head, (b"a.py", b"b.py"))


@pytest.mark.parametrize("name", ["loop", "x" * 300], ids=["loop", "too long"])
def test_a_path_the_system_refuses_is_a_source_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (repository,) = repositories_by_name((RepositorySettings(path=tmp_path / name),)).values()
    with pytest.raises(SourceError, match="cannot be read"):
        list_source(repository)


def test_what_codequarry_writes_is_not_listed(tmp_path: Path) -> None:
    commit(tmp_path, {"a.py": "a", "out/b.py": "b", "output.py": "c"})
    assert list_source(source_of(tmp_path), [tmp_path / "out", tmp_path]).paths == (b"a.py", b"output.py")


def test_a_folder_that_cannot_be_listed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root lists everything, so the refusal is injected."""
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed" / "a.py").write_text("a")
    (tmp_path / "b.py").write_text("b")
    real = os.open

    def refuse(path: bytes, flags: int, *, dir_fd: int | None = None) -> int:
        if path == b"closed":
            raise PermissionError(13, "Permission denied", path)
        return real(path, flags, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refuse)
    assert list_source(source_of(tmp_path)).paths == (b"b.py", b"closed")


def ask(folder: Path, *repositories: RepositorySettings) -> Heads:
    return read_heads(repositories_by_name(repositories).values(), folder)


def test_local_and_remote_repositories_tell_the_commit_a_run_would_read(tmp_path: Path) -> None:
    app = tmp_path / "app"
    first = commit(app, {"a.py": "first\n"}, "first")
    git(app, "-c", "user.name=T", "-c", "user.email=t@example.invalid", "tag", "-a", "v1", "-m", "one")
    second = commit(app, {"a.py": "second\n"}, "second")
    (tmp_path / "plain").mkdir()
    found = ask(
        tmp_path,
        RepositorySettings(path=app),
        RepositorySettings(path=app, ref="v1", name="pinned"),
        RepositorySettings(url=f"file://{app}", name="remote"),
        RepositorySettings(url=f"file://{app}", ref="v1", name="tagged"),
        RepositorySettings(path=tmp_path / "plain"),
    )
    assert found.commits == {"app": second, "pinned": first, "remote": second, "tagged": first, "plain": ""}
    assert found.problems == {}


def test_a_forced_push_and_a_deleted_branch_show(tmp_path: Path) -> None:
    app = tmp_path / "app"
    first = commit(app, {"a.py": "first\n"}, "first")
    commit(app, {"a.py": "second\n"}, "second")
    remote = RepositorySettings(url=f"file://{app}", ref="main", name="remote")
    git(app, "reset", "--quiet", "--hard", first)
    assert ask(tmp_path, remote).commits == {"remote": first}
    git(app, "checkout", "--quiet", "-b", "other")
    git(app, "branch", "-D", "main")
    assert "no branch, tag or commit 'main'" in ask(tmp_path, remote).problems["remote"]


def test_a_repository_that_is_gone_or_silent_does_not_hide_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ASK_TIMEOUT_S", 0.3)
    head = commit(tmp_path / "app", {"a.py": "first\n"}, "first")
    commit(tmp_path / "gone", {"a.py": "first\n"}, "first")
    shutil.rmtree(tmp_path / "gone")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        found = ask(
            tmp_path,
            RepositorySettings(path=tmp_path / "app"),
            RepositorySettings(path=tmp_path / "gone"),
            RepositorySettings(url=f"file://{tmp_path}/gone", name="gone-remote"),
            RepositorySettings(url=f"git://127.0.0.1:{silent.getsockname()[1]}/app", name="silent"),
        )
    assert found.commits == {"app": head}
    assert found.problems.keys() == {"gone", "gone-remote", "silent"}
    assert "gone does not exist" in found.problems["gone"]
    assert "did not answer in 0.3 s" in found.problems["silent"]


def test_answers_that_come_too_late_count_as_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ALL_TIMEOUT_S", 0.2)
    monkeypatch.setattr(module, "ASK_TIMEOUT_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        slow = RepositorySettings(url=f"git://127.0.0.1:{silent.getsockname()[1]}/app", name="slow")
        assert ask(tmp_path, slow).problems == {"slow": "there was no answer in 0.2 s"}

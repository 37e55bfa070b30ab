"""Heads are asked for without fetching: local and remote, and those that do not answer are named."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

import pytest

from codequarry.pipelines.sources import heads as module
from codequarry.pipelines.sources.heads import Heads, read_heads
from codequarry.pipelines.sources.sources import repositories_by_name
from codequarry.schemas.settings.load import RepositorySettings
from tests.pipelines.repositories import commit, git


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

"""Fetching from a URL: the right commit, once, and nothing of what the remote brings along runs."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from codequarry.pipelines.git import remote as git_remote
from codequarry.pipelines.git.remote import fetch_commit
from codequarry.pipelines.sources.census import take_census
from codequarry.pipelines.sources.sources import open_source, repositories_by_name
from codequarry.schemas.errors import SourceError
from codequarry.schemas.settings.load import RepositorySettings, Settings, SourcesSettings
from tests.pipelines.conftest import MakeSettings
from tests.pipelines.repositories import commit, git, shim


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    commit(tmp_path / "remote", {"a.py": "first\n"}, "first")
    return tmp_path / "remote"


@pytest.fixture
def settings(make_settings: MakeSettings, tmp_path: Path) -> Settings:
    made = make_settings()
    return made.model_copy(update={"paths": made.paths.model_copy(update={"store": tmp_path / "store"})})


def census(settings: Settings, remote: Path, ref: str = "") -> dict[str, tuple[str | None, bytes]]:
    (repository,) = repositories_by_name((RepositorySettings(url=f"file://{remote}", ref=ref),)).values()
    source = open_source(repository, settings)
    assert source.commit
    return {entry.path: (entry.skip_reason, entry.content) for entry in take_census(source, SourcesSettings())}


def test_branch_tag_commit_and_head_lead_to_their_files(remote: Path, settings: Settings) -> None:
    first = git(remote, "rev-parse", "HEAD")
    git(remote, "-c", "user.name=T", "-c", "user.email=t@example.invalid", "tag", "-a", "v1", "-m", "one")
    git(remote, "branch", "release/1")
    second = commit(remote, {"a.py": "second\n"})
    commit(remote, {"a.py": "third\n"})
    refs = {
        "v1": b"first\n", "release/1": b"first\n", "refs/heads/release/1": b"first\n", "tags/v1": b"first\n",
        first: b"first\n", second: b"second\n", "main": b"third\n", "HEAD": b"third\n", "": b"third\n",
    }  # fmt: skip
    assert {ref: census(settings, remote, ref)["a.py"][1] for ref in refs} == refs


def test_a_tag_wins_over_a_branch_of_its_name_as_in_git(remote: Path, settings: Settings) -> None:
    git(remote, "tag", "same")
    git(remote, "branch", "same")
    commit(remote, {"a.py": "second\n"})
    git(remote, "branch", "--force", "same")
    assert census(settings, remote, "same")["a.py"][1] == b"first\n"
    assert census(settings, remote, "refs/heads/same")["a.py"][1] == b"second\n"


def test_only_the_commit_is_fetched_and_only_once(
    remote: Path, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(remote, {"a.py": "second\n"})
    monkeypatch.setenv("PATH", shim(tmp_path / "bin", "git", f'echo "$@" >>{tmp_path}/log; exec $REAL "$@"'))
    for _ in range(2):
        fetched = fetch_commit(f"file://{remote}", "", settings.paths.store)
        assert git(fetched.repository, "rev-list", "--count", fetched.commit) == "1"
    assert (tmp_path / "log").read_text().count(" fetch ") == 1


def test_what_a_killed_fetch_left_is_in_nobodys_way(remote: Path, settings: Settings) -> None:
    fetched = fetch_commit(f"file://{remote}", "", settings.paths.store)
    kept = next((fetched.repository / "refs" / "codequarry").iterdir())
    left = [fetched.repository / "shallow.lock", kept.with_name(f"{kept.name}.lock")]
    left.append(fetched.repository / "objects" / "pack" / "tmp_pack_abc")
    for file in left:
        file.touch()
    commit(remote, {"a.py": "second\n"})
    assert census(settings, remote)["a.py"][1] == b"second\n"
    assert not any(file.exists() for file in left)


def test_what_a_killed_first_fetch_left_goes_with_the_next(remote: Path, settings: Settings) -> None:
    """Not what another process makes for another URL at the same time."""
    made = fetch_commit(f"file://{remote}", "", settings.paths.store).repository
    left, others = (made.parent / f".new-{name}-x1" for name in (made.name, "0" * 32))
    made.rename(left)
    others.mkdir()
    assert fetch_commit(f"file://{remote}", "", settings.paths.store).repository == made
    assert not left.exists() and others.is_dir()


def test_a_force_pushed_branch_is_followed(remote: Path, settings: Settings) -> None:
    assert census(settings, remote)["a.py"][1] == b"first\n"
    git(remote, "checkout", "--quiet", "--orphan", "other")
    commit(remote, {"a.py": "rewritten\n"})
    git(remote, "branch", "--force", "main", "other")
    assert census(settings, remote, "main")["a.py"][1] == b"rewritten\n"


def test_a_detached_head_and_a_bare_remote_are_read(remote: Path, settings: Settings, tmp_path: Path) -> None:
    first = git(remote, "rev-parse", "HEAD")
    commit(remote, {"a.py": "second\n"})
    git(remote, "checkout", "--quiet", first)
    assert census(settings, remote)["a.py"][1] == b"first\n"
    git(tmp_path, "clone", "--quiet", "--bare", str(remote), "bare.git")
    assert census(settings, tmp_path / "bare.git", "main")["a.py"][1] == b"second\n"


@pytest.mark.parametrize(("ref", "message"), [("relase/1", "did you mean release/1"), ("0" * 40, "cannot be fetched")])
def test_a_ref_that_does_not_exist_is_said_with_near_ones(
    remote: Path, settings: Settings, ref: str, message: str
) -> None:
    git(remote, "branch", "release/1")
    with pytest.raises(SourceError, match=message):
        census(settings, remote, ref)


def test_a_tag_of_no_commit_is_refused(remote: Path, settings: Settings) -> None:
    git(remote, "tag", "blob", git(remote, "rev-parse", "HEAD:a.py"))
    with pytest.raises(SourceError, match=r"blob of file://.* is not a commit"):
        census(settings, remote, "blob")


def test_an_empty_and_a_missing_remote_are_said(settings: Settings, tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--bare", "empty.git")
    with pytest.raises(SourceError, match="has no commits"):
        census(settings, tmp_path / "empty.git")
    with pytest.raises(SourceError, match=r"cannot be read: .*does not appear to be a git repository"):
        census(settings, tmp_path / "nowhere")


def test_hooks_filters_and_submodules_of_a_remote_do_nothing(remote: Path, settings: Settings, tmp_path: Path) -> None:
    evil = tmp_path / "evil.sh"
    evil.write_text(f"#!/bin/sh\ntouch {tmp_path}/pwned\ncat\n")
    evil.chmod(0o755)
    (remote / "link.py").symlink_to("/etc/passwd")
    (remote / "folder").symlink_to("/etc")
    commit(
        remote,
        {
            ".gitattributes": "*.py filter=evil diff=evil\n*.bin filter=lfs\n",
            ".gitmodules": f'[submodule "sub"]\n\tpath = sub\n\turl = ext::{evil}\n\tupdate = !{evil}\n',
        },
    )
    git(remote, "update-index", "--add", "--cacheinfo", f"160000,{git(remote, 'rev-parse', 'HEAD')},sub")
    git(remote, "commit", "--quiet", "-m", "submodule")
    for key in ("core.fsmonitor", "filter.evil.smudge", "filter.evil.clean", "filter.lfs.process", "diff.evil.command"):
        git(remote, "config", key, str(evil))
    git(remote, "config", "uploadpack.packObjectsHook", str(evil))
    for hook in ("post-checkout", "post-update", "reference-transaction", "pre-auto-gc", "post-merge"):
        (remote / ".git" / "hooks" / hook).symlink_to(evil)
    (tmp_path / "pwned").unlink(missing_ok=True)  # our own git above ran some of them
    found = census(settings, remote)
    assert found["a.py"] == (None, b"first\n")
    assert {name: found[name][0] for name in ("link.py", "folder", "sub")} == {
        "link.py": "symlink", "folder": "symlink", "sub": "nested_repository",
    }  # fmt: skip
    assert not (tmp_path / "pwned").exists()
    (clone,) = (path for path in (settings.paths.store / "repositories").iterdir() if path.is_dir())
    assert not list(clone.glob("hooks/*"))
    assert str(remote) not in (clone / "config").read_text()


def test_a_tree_with_names_that_lead_out_is_recorded_not_followed(remote: Path, settings: Settings) -> None:
    tree = git(remote, "rev-parse", "HEAD^{tree}")
    entry = bytes.fromhex(tree)
    (remote / "raw").write_bytes(b"40000 ..\0" + entry + b"40000 pkg\0" + entry)
    odd = git(remote, "hash-object", "-t", "tree", "-w", "--literally", "raw")
    made = git(remote, "-c", "user.name=T", "-c", "user.email=t@example.invalid", "commit-tree", odd, "-m", "odd")
    git(remote, "update-ref", "refs/heads/odd", made)
    found = census(settings, remote, "odd")
    assert {name: reason for name, (reason, _) in found.items()} == {"../a.py": "outside_tree", "pkg/a.py": None}


def test_a_blob_whose_name_git_would_not_check_out_is_recorded(remote: Path, settings: Settings) -> None:
    blob = bytes.fromhex(git(remote, "rev-parse", "HEAD:a.py"))
    names = ("..", ".", ".git", ".GIT ", "git~1", "/etc/passwd", "x/../../b.py", "a\u200cb.py", ".g\u200cit", "good.py")
    (remote / "raw").write_bytes(b"".join(b"100644 " + name.encode() + b"\0" + blob for name in names))
    odd = git(remote, "hash-object", "-t", "tree", "-w", "--literally", "raw")
    made = git(remote, "-c", "user.name=T", "-c", "user.email=t@example.invalid", "commit-tree", odd, "-m", "odd")
    git(remote, "update-ref", "refs/heads/odd", made)
    found = census(settings, remote, "odd")
    assert {name: reason for name, (reason, _) in found.items()} == {
        **dict.fromkeys(("..", ".", "/etc/passwd", "x/../../b.py"), "outside_tree"),
        **dict.fromkeys((".git", ".GIT ", "git~1", ".g\u200cit"), "reserved_name"),
        **dict.fromkeys(("a\u200cb.py", "good.py"), None),
    }


def test_a_remote_that_hangs_is_given_up(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_remote, "LIST_TIMEOUT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"git://127.0.0.1:{silent.getsockname()[1]}/app"
        with pytest.raises(SourceError, match=r"git://127.0.0.1:\d+/app did not answer in 0.3 s"):
            fetch_commit(url, "", settings.paths.store)


@pytest.mark.parametrize(
    ("complaint", "tries"),
    [("Could not resolve host: example.org", 3), ("Permission denied (publickey). Connection closed", 1)],
)
def test_network_errors_are_tried_again_and_refusals_are_not(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, complaint: str, tries: int
) -> None:
    script = f'echo "$@" >>{tmp_path}/log; echo "fatal: {complaint} https://me:s3cret@h/ s3cret" >&2; exit 128'
    monkeypatch.setenv("PATH", shim(tmp_path / "bin", "git", script))
    monkeypatch.setattr(git_remote, "WAITS_S", (0.0, 0.0))
    with pytest.raises(SourceError, match="cannot be read: fatal: ") as caught:
        fetch_commit("https://me:s3cret@example.org/app", "", settings.paths.store)
    assert "s3cret" not in str(caught.value)
    log = (tmp_path / "log").read_text()
    assert log.count("ls-remote") == tries
    assert "s3cret" not in log  # other users may list the arguments of a process


def test_a_connection_that_comes_back_is_used(
    remote: Path, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = f"""case "$*" in *ls-remote*|*fetch*) if mkdir {tmp_path}/failed 2>/dev/null; then
        echo 'fatal: early EOF' >&2; exit 128; fi;; esac; exec $REAL "$@" """
    monkeypatch.setenv("PATH", shim(tmp_path / "bin", "git", script))
    monkeypatch.setattr(git_remote, "WAITS_S", (0.0,))
    assert census(settings, remote)["a.py"][1] == b"first\n"


def test_a_server_without_shallow_clones_gives_the_whole_history(
    remote: Path, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(remote, {"a.py": "second\n"})
    script = """case "$*" in *--depth*) echo 'fatal: dumb http transport does not support shallow capabilities' >&2
        exit 128;; esac; exec $REAL "$@" """
    monkeypatch.setenv("PATH", shim(tmp_path / "bin", "git", script))
    fetched = fetch_commit(f"file://{remote}", "", settings.paths.store)
    assert git(fetched.repository, "rev-list", "--count", fetched.commit) == "2"


def test_the_urls_own_scheme_is_the_only_transport(
    remote: Path, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's own configuration may rewrite a URL, but not into a program to run."""
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    (home / ".gitconfig").write_text(
        f'[url "ext::touch {tmp_path}/pwned "]\n\tinsteadOf = file:///evil\n[protocol "ext"]\n\tallow = always\n'
    )
    monkeypatch.setenv("HOME", os.fspath(home))
    with pytest.raises(SourceError, match="transport 'ext' not allowed"):
        fetch_commit("file:///evil/app", "", settings.paths.store)
    assert not (tmp_path / "pwned").exists()

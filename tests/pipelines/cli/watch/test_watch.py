"""`codequarry watch` and `serve --watch` in processes of their own, beside writers that save as editors do."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from codequarry.pipelines.cli.watch.watched_tree import WatchedTree, is_empty
from codequarry.schemas.bundle.layout import BundleRoot
from tests.pipelines.cli.watch.watch_process import (
    COMMAND,
    DEADLINE_S,
    Watch,
    append,
    swap,
    truncate_and_write,
    write_aside,
    write_with_backup,
)
from tests.pipelines.conftest import run_here
from tests.pipelines.repositories import commit, git

FILES: dict[str, str | bytes] = {
    "app.py": "def pour_tea(cup):\n    return cup + 1\n",
    "deep/leaf.py": "from app import pour_tea\n\nprint(pour_tea(2))\n",
    ".gitignore": "*.log\n*.gen.py\nbuild/\n",
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "app"
    commit(folder, FILES)
    return folder


@pytest.fixture
def watching(repository: Path, shared_store: Path) -> Iterator[Callable[..., Watch]]:
    started: list[Watch] = []

    def start(*arguments: str, below: str = "") -> Watch:
        watch = Watch(repository / below, shared_store, *arguments)
        watch.folder = repository
        started.append(watch)
        return watch

    yield start
    for watch in started:
        watch.close()


def test_each_way_to_save_is_published_and_ctrl_c_ends_well(repository: Path, watching: Callable[..., Watch]) -> None:
    watch = watching(below="deep")  # any folder below the top
    assert watch.finds("pour_tea")
    for number, write in enumerate((write_aside, truncate_and_write, append, write_with_backup, swap)):
        write(repository / "app.py", f"def wombat_{number}(cup):\n    return cup\n")
        line = watch.wait_for("published in")
        assert "app: 1 file changed (app.py)" in line
        assert watch.finds(f"wombat_{number}")
    (repository / "deep" / "leaf.py").rename(repository / "deep" / "twig.py")
    assert "1 file added, 1 deleted (deep/twig.py, deep/leaf.py)" in watch.wait_for("published in")
    current = watch.current
    assert watch.end(signal.SIGINT) == 0
    assert f"stopped watching; CURRENT is {current}" in watch.wait_for("stopped")


def test_a_switch_of_branches_is_followed_and_sigterm_ends_well(
    repository: Path, watching: Callable[..., Watch]
) -> None:
    git(repository, "switch", "--quiet", "-c", "feature")
    there = commit(repository, {f"many/m{number}.py": f"def many_{number}(): ...\n" for number in range(300)})
    watch = watching()
    git(repository, "switch", "--quiet", "main")
    line = watch.wait_for("published in")
    assert "300 deleted" in line or "300 files deleted" in line
    assert not watch.finds("many_7")
    git(repository, "switch", "--quiet", "feature")
    line = watch.wait_for("published in")
    assert "300 files added" in line
    assert f"commit {there[:12]}" in line
    assert watch.finds("many_299")
    git(repository, "commit", "--quiet", "--allow-empty", "-m", "empty")
    head = git(repository, "rev-parse", "HEAD")
    assert f"app: commit {head[:12]};" in watch.wait_for("published in")
    assert watch.end(signal.SIGTERM) == 0


def test_answers_are_of_the_branch_that_is_switched_to(repository: Path, watching: Callable[..., Watch]) -> None:
    """A ref that was indexed before does not answer in its place, nor does CURRENT answer for the branch before."""
    git(repository, "branch", "feature")
    watch = watching()
    run_here(repository, watch.environment, "index", ".", ".#feature")

    def grep(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run_here(repository, watch.environment, "grep", "pour_tea|quokka", "-E", *arguments)

    git(repository, "switch", "--quiet", "-c", "other")
    deadline = time.monotonic() + DEADLINE_S
    while "the working folder is at other" in (done := grep()).stderr:  # the same commit: no version, and no line
        assert time.monotonic() < deadline
    assert "#" not in done.stderr and "pour_tea" in done.stdout
    git(repository, "switch", "--quiet", "feature")
    append(repository / "app.py", "\n\ndef quokka(cup): ...\n")
    watch.wait_until_found("quokka")
    assert "working folder" not in grep().stderr
    assert "def quokka" in grep("--ref", "feature").stdout
    assert "app#feature" in (refused := grep("--ref", "main")).stderr
    assert refused.returncode != 0


def test_a_watch_in_a_linked_work_tree_has_an_index_of_its_own(
    repository: Path, shared_store: Path, watching: Callable[..., Watch]
) -> None:
    run_here(repository, {"CODEQUARRY__PATHS__STORE": str(shared_store)}, "index")
    before = BundleRoot(repository / ".codequarry" / "bundles").read_current()
    linked = repository.with_name("linked")
    git(repository, "worktree", "add", "--quiet", "-b", "side", str(linked))
    watch = watching(below="../linked")
    watch.folder = linked
    append(linked / "app.py", "\n\ndef quokka(cup): ...\n")
    watch.wait_until_found("quokka")
    assert "working folder" not in run_here(linked, watch.environment, "grep", "quokka").stderr
    assert BundleRoot(repository / ".codequarry" / "bundles").read_current() == before


def test_what_is_ignored_makes_no_version_and_a_burst_few(repository: Path, watching: Callable[..., Watch]) -> None:
    watch = watching("--until-stdin-closes")
    (repository / "build").mkdir()
    git(repository, "branch", "other")
    for name in ("a.gen.py", "build/made.py", ".codequarry/note.py"):
        (repository / name).write_text("def ignored_word(): ...\n")
    git(repository, "update-index", "--refresh")
    for number in range(200):
        append(repository / "app.py", f"\n\ndef burst_{number}():\n    return {number}\n")
        time.sleep(0.002)
    append(repository / "app.py", "\n\ndef burst_end(): ...\n")
    watch.wait_until_found("burst_end")
    published = [line for line in watch.lines if "published in" in line]
    assert len(published) < 20
    assert all("app: 1 file changed (app.py)" in line for line in published)
    assert not watch.finds("ignored_word")
    assert watch.process.stdin is not None
    watch.process.stdin.close()  # as the end of a server does
    assert watch.process.wait(DEADLINE_S) == 0


@pytest.fixture
def tree(repository: Path) -> WatchedTree:
    commit(repository, {"build/kept.py": "def kept(): ...\n", ".codequarryignore": "drafts/\n"})
    for name in ("build/deep/made.py", "nested/.git/HEAD", "nested/inside.py"):
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).touch()
    return WatchedTree("app", repository, [repository / "state"], ("gone/",))


@pytest.mark.parametrize(
    "path",
    [
        "a.log", "a.gen.py", "build/deep/made.py", "build/new.py", "drafts/a.py", "gone/a.py", "state/CURRENT",
        "nested/inside.py", ".codequarry/bundles/CURRENT", "node_modules/a/index.js", ".app.py.swp", "app.py~",
        "#app.py#", "a.png", ".env", ".git/index", ".git/HEAD.lock", ".git/objects/ab/cd", ".git/logs/HEAD",
        ".git/refs/remotes/origin/main", "nested/.git/HEAD", "",
    ],
    ids=lambda path: path or "root",
)  # fmt: skip
def test_a_path_that_changes_nothing_of_the_index_is_sifted_out(repository: Path, tree: WatchedTree, path: str) -> None:
    for _ in range(2):  # asked of git, and remembered
        assert tree.sift([repository / path if path else repository]) == (set(), False)
    assert tree.sift([repository / path, repository / "app.py"])[0] == {"app.py"}


def test_what_may_change_the_index_is_not_sifted_out(repository: Path, tree: WatchedTree) -> None:
    for path in ("app.py", "new/deep/file.py", "build/kept.py", ".gitignore", "deep", "Makefile"):
        assert tree.sift([repository / path]) == ({path}, False)
    assert tree.sift([repository / "a.gen.py"])[0] == set()
    (repository / ".gitignore").write_text("")
    assert tree.sift([repository / ".gitignore", repository / "a.gen.py"])[0] == {".gitignore", "a.gen.py"}
    for path in ("HEAD", "refs/heads/main", "packed-refs"):
        assert tree.sift([repository / ".git" / path]) == (set(), True)
    assert tree.sift([repository / ".git" / "info" / "exclude"]) == ({""}, True)


def test_a_linked_work_tree_and_a_folder_that_git_ignores(repository: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    git(repository, "worktree", "add", "--quiet", "-b", "side", str(linked))
    tree = WatchedTree("linked", linked, [], ())
    assert tree.folders == (linked, repository / ".git")
    assert tree.sift([repository / ".git" / "worktrees" / "linked" / "HEAD"]) == (set(), True)
    assert tree.sift([repository / ".git" / "HEAD"]) == (set(), False)
    assert tree.sift([repository / ".git" / "refs" / "heads" / "side"]) == (set(), True)
    (repository / "build").mkdir()
    ignored = WatchedTree("build", repository / "build", [], ())
    assert ignored.sift([repository / "build" / "made.py"])[0] == {"made.py"}


def test_a_folder_without_git_has_its_ignore_files(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.gen\n")
    tree = WatchedTree("plain", tmp_path, [], ())
    assert tree.sift([tmp_path / "a.gen", tmp_path / "a.py"]) == ({"a.py"}, False)
    assert tree.commit() == ""
    (tmp_path / "a.py").touch()
    assert is_empty(tmp_path / "a.py")
    assert not is_empty(tmp_path / "gone.py")


@contextmanager
def held(lock: Path) -> Iterator[None]:
    with lock.open("a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def test_errors_are_said_and_the_watch_goes_on(repository: Path, watching: Callable[..., Watch]) -> None:
    commit(repository, {"dagster_project.toml": "[checks]\nmin_chunks = 3\n"})
    watch = watching()
    with held(repository / ".codequarry" / "work" / ".lock"):
        append(repository / "app.py", "\n\ndef after_the_lock(): ...\n")
        watch.wait_for("error: another process is indexing")
    watch.wait_until_found("after_the_lock")
    current = watch.current
    for file in (repository / "deep" / "leaf.py", repository / "dagster_project.toml"):
        file.unlink()
    watch.wait_for("the watch waits for the next change")
    assert watch.current == current
    (repository / "deep" / "leaf.py").write_text("def back_again(): ...\n")
    watch.wait_until_found("back_again")
    repository.rename(repository.with_name("away"))
    watch.wait_for("error: ")
    repository.with_name("away").rename(repository)
    watch.wait_for("the index is up to date again")
    append(repository / "app.py", "\n\ndef after_the_return(): ...\n")
    watch.wait_until_found("after_the_return")


@pytest.mark.parametrize(
    ("argument", "message"),
    [("app#main", "it is read at the ref main"), ("https://example.invalid/team/app", "it is fetched from a URL")],
    ids=["ref", "url"],
)
def test_what_cannot_be_watched_is_refused(tmp_path: Path, repository: Path, argument: str, message: str) -> None:
    done = run_here(tmp_path, {"COLUMNS": "200"}, "watch", argument)
    assert done.returncode == 2
    assert message in done.stderr.replace("\n", " ")


def test_outside_of_a_repository_nothing_is_watched(tmp_path: Path) -> None:
    done = run_here(tmp_path, {"COLUMNS": "200"}, "watch")
    assert done.returncode == 2
    assert "name what to watch" in done.stderr.replace("\n", " ")
    assert not (tmp_path / ".codequarry").exists()


def test_a_server_that_watches_finds_what_was_saved(tmp_path: Path, repository: Path, shared_store: Path) -> None:
    log = tmp_path / "log"

    async def talk() -> None:
        transport = StdioTransport(
            COMMAND[0], [*COMMAND[1:], "serve", "--stdio", "--watch"], cwd=str(repository / "deep"),
            env={**os.environ, "CODEQUARRY__PATHS__STORE": str(shared_store)}, keep_alive=False, log_file=log,
        )  # fmt: skip
        async with Client(transport) as client:
            answer = await client.call_tool_mcp("search_code", {"pattern": "pour_tea"})
            assert answer.structured_content["results"]
            while "watching" not in log.read_text():
                await asyncio.sleep(0.1)
            write_aside(repository / "app.py", "def quokka(cup):\n    return cup\n")
            while not (await client.call_tool_mcp("search_code", {"pattern": "quokka"})).structured_content["results"]:
                await asyncio.sleep(0.1)

    asyncio.run(asyncio.wait_for(talk(), DEADLINE_S))
    deadline = time.monotonic() + DEADLINE_S
    while "stopped watching" not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)


def test_a_server_goes_on_without_its_watch(repository: Path, shared_store: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "serve", "--watch", "--port", "0"], cwd=repository, text=True, stderr=subprocess.PIPE,
        env={**os.environ, "CODEQUARRY__PATHS__STORE": str(shared_store)},
    ) as server:  # fmt: skip
        assert server.stderr is not None
        lines = iter(server.stderr.readline, "")
        assert any("knows more clients" in line for line in lines)
        listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(server.pid)], capture_output=True, text=True)
        (watch,) = map(int, listed.stdout.split())
        os.kill(watch, signal.SIGKILL)
        assert any("`codequarry watch` ended with exit code -9: the server goes on" in line for line in lines)
        assert server.poll() is None
        server.send_signal(signal.SIGTERM)
        server.stderr.read()

"""Listings have limits: a few kilobytes of objects that name billions of files are given up with a clear error."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from codequarry.pipelines.git import process as git_process
from codequarry.pipelines.git import remote as git_remote
from codequarry.pipelines.git.remote import fetch_commit
from codequarry.pipelines.sources.sources import list_source
from codequarry.schemas.errors import SourceLimitError
from codequarry.schemas.settings.load import RepositorySettings
from codequarry.schemas.settings.sources import LimitsSettings
from tests.pipelines.bounded import run_bounded
from tests.pipelines.repositories import commit, git, shim


def make_tree(folder: Path, rows: list[str]) -> str:
    done = subprocess.run(
        ["git", "mktree"], cwd=folder, input="\n".join(rows) + "\n", text=True, capture_output=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def bomb(tmp_path: Path) -> Path:
    """Ten levels of trees of ten entries each, which are one object per level: ten billion files."""
    folder = tmp_path / "bomb"
    commit(folder, {"a.py": "x = 1\n"})
    kind, oid = "100644 blob", git(folder, "rev-parse", "HEAD:a.py")
    for _ in range(10):
        oid = make_tree(folder, [f"{kind} {oid}\tf{number}" for number in range(10)])
        kind = "040000 tree"
    git(folder, "update-ref", "HEAD", git(folder, "commit-tree", oid, "-m", "bomb"))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["url", "ref", "work tree"])
def test_row_26_a_tree_of_trees_is_given_up_before_it_fills_the_memory(tmp_path: Path, bomb: Path, kind: str) -> None:
    place = {"url": f"file://{bomb}", "ref": f"{bomb}#HEAD", "work tree": str(bomb)}[kind]
    done = run_bounded(
        tmp_path / "cwd", "census", f"big={place}", memory_mb=1_536,
        CODEQUARRY__LIMITS__ENTRIES="300000", CODEQUARRY__LIMITS__LISTING_TIMEOUT_S="600",
    )  # fmt: skip
    assert done.returncode == 2
    assert "big (" in done.stderr and "300,000" in done.stderr and "[limits] entries" in done.stderr
    assert "Traceback" not in done.stderr


LIMITS: dict[str, LimitsSettings] = {
    "entries": LimitsSettings(entries=5),
    "listing_bytes": LimitsSettings(listing_bytes=1_000),
    "path_bytes": LimitsSettings(path_bytes=20),
    "depth": LimitsSettings(depth=3),
}


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("ref", ["HEAD", ""])
def test_each_limit_names_itself_and_the_repository(tmp_path: Path, limit: str, ref: str) -> None:
    repo = tmp_path / "repo"
    commit(repo, {f"d/e/f/{'x' * 20}{number}.py": "x" for number in range(40)})
    repository = RepositorySettings(path=repo, ref=ref, name="hostile")
    with pytest.raises(SourceLimitError) as caught:
        list_source(repository, limits=LIMITS[limit])
    assert caught.value.limit == f"limits.{limit}"
    assert "hostile" in caught.value.message
    list_source(repository)  # the defaults are generous


@pytest.mark.parametrize("limit", ["entries", "path_bytes", "depth"])
def test_a_plain_directory_has_the_same_limits(tmp_path: Path, limit: str) -> None:
    for number in range(6):
        file = tmp_path / "d" / "e" / "f" / f"{'x' * 20}{number}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    repository = RepositorySettings(path=tmp_path, name="hostile")
    with pytest.raises(SourceLimitError) as caught:
        list_source(repository, limits=LIMITS[limit])
    assert caught.value.limit == f"limits.{limit}"
    assert len(list_source(repository).paths) == 6


@pytest.mark.parametrize(
    ("script", "limit"),
    [
        ("exec sleep 600", "listing_timeout_s"),
        ("while :; do printf '100644 blob %040d -\\tf%d\\0' 1 $((n += 1)); done", "entries"),
        ("while :; do printf 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'; done", "path_bytes"),
    ],
    ids=["silent", "endless", "one endless record"],
)
def test_a_git_that_does_not_end_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, limit: str
) -> None:
    commit(tmp_path / "repo", {"a.py": "x"})
    fake = f'case "$*" in *ls-tree*) n=0; {script};; esac; exec $REAL "$@"'
    monkeypatch.setenv("PATH", shim(tmp_path / "bin", "git", fake))
    limits = LimitsSettings(listing_timeout_s=1.0 if limit == "listing_timeout_s" else 60.0, entries=100)
    with pytest.raises(SourceLimitError) as caught:
        list_source(RepositorySettings(path=tmp_path / "repo", ref="main", name="repo"), limits=limits)
    assert caught.value.limit == f"limits.{limit}"


def test_a_remote_that_advertises_without_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = 'case "$*" in *ls-remote*) while :; do printf "%040d\\trefs/heads/x\\n" 1; done;; esac; exec $REAL "$@"'
    monkeypatch.setenv("PATH", shim(tmp_path / "bin", "git", script))
    monkeypatch.setattr(git_process, "OUTPUT_BYTES", 100_000)
    monkeypatch.setattr(git_remote, "LIST_TIMEOUT_S", 60.0)
    with pytest.raises(SourceLimitError, match=r"https://example\.org/app") as caught:
        fetch_commit("https://me:s3cret@example.org/app", "", tmp_path / "store")
    assert "s3cret" not in str(caught.value)

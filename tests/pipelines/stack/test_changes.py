"""Files that differ from the base are found however they came to differ, and no others."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from codequarry.pipelines.run import IndexReport, StackedFiles, index_repositories
from codequarry.pipelines.sources import files
from codequarry.pipelines.sources.beneath import Beneath
from codequarry.pipelines.sources.stamps import Stamp
from codequarry.pipelines.stack.build import index_changes
from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.settings.load import RepositorySettings, Settings
from tests.pipelines.conftest import MakeSettings
from tests.pipelines.repositories import commit, git
from tests.pipelines.stack.readings import live_files

FILES: dict[str, str | bytes] = {
    **{f"pkg/mod{number}.py": f"def work{number}(x):\n    return x + {number}\n" for number in range(6)},
    "notes.md": "# Notes\n\nNothing yet.\n",
    "logo.png": b"\x89PNG\r\n",
    "blob.txt": b"\0\1\2",
}
Change = Callable[[Path], None]


def edit(repo: Path) -> None:
    (repo / "pkg/mod1.py").write_text("def work1(x):\n    return x - 1\n")


def edit_and_commit(repo: Path) -> None:
    commit(repo, {"pkg/mod1.py": "def work1(x):\n    return x - 1\n"})


def add_untracked(repo: Path) -> None:
    (repo / "pkg/more.py").write_text("def more(x):\n    return x\n")


def delete(repo: Path) -> None:
    (repo / "pkg/mod2.py").unlink()
    commit(repo, {})


def rename(repo: Path) -> None:
    git(repo, "mv", "pkg/mod2.py", "pkg/moved.py")


def change_mode(repo: Path) -> None:
    (repo / "pkg/mod2.py").chmod(0o755)


def touch(repo: Path) -> None:
    os.utime(repo / "pkg/mod2.py")


def edit_unseen_by_git(repo: Path) -> None:
    git(repo, "update-index", "--assume-unchanged", "pkg/mod3.py")
    edit_of_equal_length(repo, "pkg/mod3.py")


def edit_of_equal_length(repo: Path, path: str = "pkg/mod3.py") -> None:
    (repo / path).write_text("def work3(y):\n    return y + 3\n")


def commit_and_restore(repo: Path) -> None:
    """The work tree is the base's, and no longer its commit's."""
    old = (repo / "pkg/mod1.py").read_text()
    edit_and_commit(repo)
    (repo / "pkg/mod1.py").write_text(old)


def becomes_binary(repo: Path) -> None:
    (repo / "pkg/mod1.py").write_bytes(b"\0\1\2")


def becomes_text(repo: Path) -> None:
    (repo / "blob.txt").write_text("words\n")


def is_excluded(repo: Path) -> None:
    (repo / ".codequarryignore").write_text("pkg/mod4.py\n")


CASES: list[tuple[Change, StackedFiles | None]] = [
    (edit, StackedFiles("", 1, 0, 1)),
    (edit_and_commit, StackedFiles("", 1, 0, 1)),
    (add_untracked, StackedFiles("", 1, 0, 1)),
    (delete, StackedFiles("", 0, 1, 1)),  # some file is read again: a version has one at least
    (rename, StackedFiles("", 1, 1, 1)),
    (change_mode, None),
    (touch, None),
    (edit_unseen_by_git, StackedFiles("", 1, 0, 1)),
    (edit_of_equal_length, StackedFiles("", 1, 0, 1)),
    (commit_and_restore, StackedFiles("", 0, 0, 1)),  # nothing but the commit differs
    (becomes_binary, StackedFiles("", 1, 0, 1)),
    (becomes_text, StackedFiles("", 1, 0, 1)),
    (is_excluded, StackedFiles("", 2, 0, 1)),
]


def with_any_share(settings: Settings) -> Settings:
    """Settings with which any share of changes makes a delta version."""
    return settings.model_copy(update={"bundle": settings.bundle.model_copy(update={"delta_share": 1.0})})


def changes(settings: Settings) -> IndexReport:
    report = index_changes(settings)
    assert isinstance(report, IndexReport), report
    return report


def require_same(over: IndexReport, full: IndexReport) -> None:
    """A delta version and its base hold the files and counts of a complete version."""
    assert (over.manifest.sources, over.manifest.counts) == (full.manifest.sources, full.manifest.counts)
    found, wanted = (live_files(BundlePaths(each.path), each.manifest) for each in (over, full))
    assert found == wanted


@pytest.mark.parametrize(("change", "expected"), CASES)
def test_changes_of_a_work_tree(
    change: Change, expected: StackedFiles | None, tmp_path: Path, make_settings: MakeSettings
) -> None:
    repo = tmp_path / "app"
    commit(repo, FILES)
    settings = with_any_share(make_settings(repo))
    base = index_repositories(settings)
    change(repo)
    over = changes(settings)
    require_same(over, index_repositories(make_settings(repo, home=tmp_path / "full")))
    if expected is None:
        assert (over.unchanged, over.path) == (True, base.path)
        return
    assert over.stacked is not None
    assert over.stacked == StackedFiles(base.manifest.version, expected.changed, expected.deleted, expected.chunks)
    assert changes(settings).unchanged


def test_every_state_is_compared_with_the_base(tmp_path: Path, make_settings: MakeSettings) -> None:
    repo = tmp_path / "app"
    first = commit(repo, FILES)
    settings = with_any_share(make_settings(repo))
    base = index_repositories(settings)
    edit_and_commit(repo)
    one = changes(settings)
    add_untracked(repo)
    both = changes(settings)
    assert (one.stacked, both.stacked) == (
        StackedFiles(base.manifest.version, 1, 0, 1),
        StackedFiles(base.manifest.version, 2, 0, 2),
    )
    (repo / "pkg/more.py").unlink()
    git(repo, "reset", "--quiet", "--hard", first)
    back = changes(settings)
    assert (back.path, back.unchanged) == (base.path, False)
    assert changes(settings).unchanged


def test_a_base_that_was_dirty(tmp_path: Path, make_settings: MakeSettings) -> None:
    repo = tmp_path / "app"
    commit(repo, FILES)
    edit(repo)
    add_untracked(repo)
    (repo / "logo.png").write_bytes(b"\x89PNG\r\n" + bytes(100))
    settings = with_any_share(make_settings(repo))
    index_repositories(settings)
    git(repo, "checkout", "--quiet", "pkg/mod1.py", "logo.png")
    (repo / "pkg/more.py").write_text("def much_more(x):\n    return x\n")
    over = changes(settings)
    require_same(over, index_repositories(make_settings(repo, home=tmp_path / "full")))
    assert over.stacked is not None and over.stacked.changed == 2


def test_folders_without_git(tmp_path: Path, make_settings: MakeSettings) -> None:
    repo = tmp_path / "app"
    commit(repo, FILES)
    shutil.rmtree(repo / ".git")
    settings = with_any_share(make_settings(repo))
    index_repositories(settings)
    assert changes(settings).unchanged
    edit(repo)
    (repo / "notes.md").unlink()
    over = changes(settings)
    require_same(over, index_repositories(make_settings(repo, home=tmp_path / "full")))
    assert over.stacked is not None and (over.stacked.changed, over.stacked.deleted) == (1, 1)


def edit_and_set_back_the_time(repo: Path) -> None:
    path = repo / "pkg/mod3.py"
    before = path.stat()
    edit_of_equal_length(repo)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def is_excluded_as_by_git(repo: Path) -> None:
    (repo / ".gitignore").write_text("pkg/mod4.py\n")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (edit, (1, 0)),
        (add_untracked, (1, 0)),
        (edit_of_equal_length, (1, 0)),
        (edit_and_set_back_the_time, (1, 0)),
        (touch, None),
        (change_mode, None),
        (becomes_binary, (1, 0)),
        (becomes_text, (1, 0)),
        (is_excluded, (2, 0)),
        (is_excluded_as_by_git, (2, 0)),
    ],
)
def test_of_a_folder_without_git_the_files_are_read_that_were_written(
    change: Change,
    expected: tuple[int, int] | None,
    tmp_path: Path,
    make_settings: MakeSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    repo = tmp_path / "app"
    commit(repo, FILES)
    shutil.rmtree(repo / ".git")
    settings = with_any_share(make_settings(repo))
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + 60 * 10**9)  # all of it was written long before the census
    base = index_repositories(settings)
    change(repo)
    read: list[bytes] = []
    really = Beneath.read
    monkeypatch.setattr(Beneath, "read", lambda *given: (read.append(given[1]), really(*given))[1])
    over = changes(settings)
    monkeypatch.undo()
    require_same(over, index_repositories(make_settings(repo, home=tmp_path / "full")))
    assert over.unchanged == (expected is None)
    if over.stacked is None:
        assert over.path == base.path
    else:
        assert (over.stacked.changed, over.stacked.deleted) == expected
    if not change.__name__.startswith("is_excluded"):
        assert len(set(read)) <= 2  # one that was written, and one that is read again, as a version has one at least


def test_a_file_that_was_written_about_when_it_was_read_is_read_again(
    tmp_path: Path, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its times may stay the same though its contents change: the clock of a file system has ticks."""
    repo = tmp_path / "app"
    commit(repo, FILES)
    shutil.rmtree(repo / ".git")
    settings = with_any_share(make_settings(repo))
    written = Stamp(28, time.time_ns(), time.time_ns(), 1)
    monkeypatch.setattr(files, "stamp_of", lambda status: written)
    index_repositories(settings)
    edit_of_equal_length(repo)
    assert changes(settings).stacked is not None


def test_a_branch_is_compared_commit_by_commit(tmp_path: Path, make_settings: MakeSettings) -> None:
    repo = tmp_path / "app"
    commit(repo, FILES)

    def at_main(settings: Settings) -> Settings:
        listed = (RepositorySettings(path=repo, ref="main"),)
        sources = settings.sources.model_copy(update={"repositories": listed})
        return with_any_share(settings.model_copy(update={"sources": sources}))

    settings = at_main(make_settings(repo))
    index_repositories(settings)
    edit(repo)  # not committed: of no concern
    assert changes(settings).unchanged
    delete(repo)
    over = changes(settings)
    require_same(over, index_repositories(at_main(make_settings(repo, home=tmp_path / "full"))))
    assert over.stacked is not None and (over.stacked.changed, over.stacked.deleted) == (1, 1)


def test_no_filter_of_a_repository_is_run(tmp_path: Path, make_settings: MakeSettings) -> None:
    repo, mark = tmp_path / "app", tmp_path / "ran"
    commit(repo, {**FILES, ".gitattributes": "*.py filter=evil\n"})
    settings = with_any_share(make_settings(repo))
    index_repositories(settings)
    for name in ("clean", "process", "smudge"):
        git(repo, "config", f"filter.evil.{name}", f"touch {mark}; cat")
    git(repo, "config", "filter.evil.required", "true")
    git(repo, "config", "core.fsmonitor", f"touch {mark}")
    index = repo / ".git/index"
    edit_of_equal_length(repo)
    os.utime(repo / "pkg/mod3.py", ns=(index.stat().st_mtime_ns,) * 2)
    over = changes(settings)
    assert over.stacked is not None and over.stacked.changed == 1
    assert not mark.exists()

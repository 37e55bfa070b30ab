"""Ignore files: ours in every kind of source, git's where git is not asked; the same verdicts as git's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from codequarry.pipelines.census import take_census
from codequarry.pipelines.sources import list_source
from codequarry.schemas.settings import RepositorySettings, SourcesSettings
from tests.pipelines.repositories import commit, git

FILES: dict[str, str] = {
    ".codequarryignore": "*.gen.py\n/build/\n\n# a comment\n!\n",
    "a.py": "x",
    "b.gen.py": "x",
    "build/c.py": "x",
    "build/.codequarryignore": "!c.py\n",
    "sub/.codequarryignore": "!b.gen.py\nlocal.py\n",
    "sub/b.gen.py": "x",
    "sub/build/c.py": "x",
    "sub/deep/local.py": "x",
    "local.py": "x",
}
IGNORED = {"b.gen.py", "build/c.py", "build/.codequarryignore", "sub/deep/local.py"}


def reasons(path: Path, ref: str = "", exclude: tuple[str, ...] = ()) -> dict[str, str | None]:
    source = list_source(RepositorySettings(path=path, ref=ref, name="repo"))
    return {entry.path: entry.skip_reason for entry in take_census(source, SourcesSettings(exclude=exclude))}


def write(folder: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)


def plain(folder: Path) -> dict[str, str | None]:
    write(folder, FILES)
    return reasons(folder)


def work_tree(folder: Path) -> dict[str, str | None]:
    commit(folder, dict(FILES))
    return reasons(folder)


def one_commit(folder: Path) -> dict[str, str | None]:
    commit(folder, dict(FILES))
    return reasons(folder, "main")


@pytest.mark.parametrize("kind", [plain, work_tree, one_commit])
def test_codequarryignore_holds_in_every_kind_of_source(
    tmp_path: Path, kind: Callable[[Path], dict[str, str | None]]
) -> None:
    found = kind(tmp_path / "repo")
    assert {path for path, reason in found.items() if reason == "codequarryignore"} == IGNORED
    assert {path for path, reason in found.items() if reason is None} == FILES.keys() - IGNORED


def test_a_plain_directory_honours_nested_gitignores_and_the_settings_come_first(tmp_path: Path) -> None:
    write(tmp_path, {".gitignore": "*.log.py\n", "sub/.gitignore": "!keep.log.py\nout/\n", "sub/keep.log.py": "x"})
    write(tmp_path, {"a.log.py": "x", "sub/b.log.py": "x", "sub/out/c.py": "x", "out/d.py": "x", "docs/e.py": "x"})
    write(tmp_path, {"docs/.codequarryignore": "*\n"})
    found = reasons(tmp_path, exclude=("docs/",))
    excluded = {path for path, reason in found.items() if reason == "excluded"}
    assert excluded == {"a.log.py", "sub/b.log.py", "sub/out/c.py", "docs/e.py", "docs/.codequarryignore"}
    assert set(found.values()) == {None, "excluded"}


def test_an_ignore_file_that_is_a_link_or_huge_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("*\n")
    repo = tmp_path / "repo"
    write(repo, {"a.py": "x", "sub/b.py": "x", "sub/.codequarryignore": "b.py\n" + "#" * 1_000_000})
    (repo / ".codequarryignore").symlink_to(tmp_path / "elsewhere")
    found = reasons(repo)
    assert (found["a.py"], found["sub/b.py"]) == (None, None)


_LINE = st.sampled_from(["a", "*.x", "!*.x", "d/", "/d", "!d/", "d/*", "!d/k.x", "**/a", "d/**/a", "k.?", "!a"])
_PLACES = ("a", "k.x", "d/a", "d/k.x", "d/d/a", "d/d/k.x", "e/a", "e/d/k.x")


@example(["a"], ["!d/"])
@given(st.lists(_LINE, max_size=4), st.lists(_LINE, max_size=3))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_verdicts_are_those_of_git(tmp_path_factory: pytest.TempPathFactory, top: list[str], below: list[str]) -> None:
    folder = tmp_path_factory.mktemp("ignore")
    write(folder, dict.fromkeys(_PLACES, "x"))
    write(folder, {".gitignore": "\n".join(top) + "\n", "d/.gitignore": "\n".join(below) + "\n"})
    ours = {path for path, reason in reasons(folder).items() if reason is None} & set(_PLACES)
    git(folder, "init", "--quiet")
    listed = git(folder, "ls-files", "--others", "--exclude-standard").splitlines()
    assert ours == set(listed) & set(_PLACES)

"""Ignore files: ours in every kind of source, git's where git is not asked; the same verdicts as git's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from codequarry.pipelines.ignore import patterns as ignore_patterns
from codequarry.pipelines.ignore import rules as ignore_rules
from codequarry.pipelines.ignore.patterns import MatchingBudget, PatternList
from codequarry.pipelines.ignore.rules import IgnoreFiles, settings_patterns
from codequarry.pipelines.sources.census import take_census
from codequarry.pipelines.sources.sources import list_source
from codequarry.schemas.errors import SettingsError
from codequarry.schemas.settings.load import RepositorySettings, SourcesSettings
from tests.pipelines.bounded import run_bounded
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
    assert found["sub/.codequarryignore"] == "ignore_limit"


_LINE = st.sampled_from(
    ["a", "*.x", "!*.x", "d/", "/d", "!d/", "d/*", "!d/k.x", "**/a", "d/**/a", "k.?", "!a", "d/**", "[a-k]", "k*x", "*"]
)
_PLACES = ("a", "k.x", "d/a", "d/k.x", "d/d/a", "d/d/k.x", "e/a", "e/d/k.x")


@example(["a"], ["!d/"])
@example(["d/**", "!d/k.x"], [])
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


def fates(folder: Path, repository: Path | str) -> dict[str, str]:
    """Skip reason of each path, by the command line."""
    done = run_bounded(folder, "census", repository, "--all", "--json")
    assert done.returncode == 0, done.stderr
    (report,) = json.loads(done.stdout)["repositories"]
    return {each["path"]: each["skip_reason"] for each in report["listed"]}


@pytest.mark.parametrize("kind", ["plain", "work tree", "url"])
def test_row_25_no_pattern_takes_long_over_a_long_name(tmp_path: Path, kind: str) -> None:
    """Python's own engine tries every way to split the name, and never ends."""
    name, repo = "a" * 200, tmp_path / "repo"
    files = {f"{name}.py": "x = 1\n", f"{name}b": "x\n", ".codequarryignore": "a*a*a*a*a*a*b\n" + "*a" * 60 + "*.c\n"}
    if kind == "plain":
        write(repo, {**files, ".gitignore": "a*a*a*a*a*a*b\n"})
    else:
        commit(repo, dict(files))
    found = fates(tmp_path / "cwd", f"file://{repo}" if kind == "url" else repo)
    ignored = "excluded" if kind == "plain" else "codequarryignore"
    assert (found[f"{name}.py"], found[f"{name}b"]) == ("", ignored)


def test_row_25_thirty_thousand_patterns_hold(tmp_path: Path) -> None:
    """A set of RE2 gives up on them."""
    lines = "".join(f"**/x{number}/**/y{number}*\n" for number in range(30_000))
    write(
        tmp_path / "repo", {"a.py": "x", "x7/b/y7.py": "x", "x7/b/y8.py": "x", "y7.py": "x", ".codequarryignore": lines}
    )
    found = fates(tmp_path / "cwd", tmp_path / "repo")
    assert {path for path, reason in found.items() if reason} == {"x7/b/y7.py"}


def test_row_25_ignore_files_beyond_a_limit_are_recorded_and_say_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ignore_rules, "MAX_PATTERNS", 3)
    monkeypatch.setattr(ignore_rules, "MAX_PATTERNS_IN_FORCE", 5)
    write(tmp_path, {".codequarryignore": "b.py\nx\ny\n", "b.py": "x", "many/.codequarryignore": "a.py\n" * 4})
    write(tmp_path, {"many/a.py": "x", "long/.codequarryignore": f"a.py\n{'x' * 2_000}\n", "long/a.py": "x"})
    write(tmp_path, {"deep/.codequarryignore": "a.py\nx\n", "deep/a.py": "x", "deep/er/a.py": "x"})
    write(tmp_path, {"deep/er/.codequarryignore": "!a.py\n", "wide/.codequarryignore": "a.py\n", "wide/a.py": "x"})
    found = reasons(tmp_path)
    assert {path for path, reason in found.items() if reason == "codequarryignore"} == {
        "b.py", "deep/a.py", "deep/er/a.py", "wide/a.py",
    }  # fmt: skip
    assert {path for path, reason in found.items() if reason == "ignore_limit"} == {
        f"{folder}/.codequarryignore" for folder in ("many", "long", "deep/er")
    }


def test_row_25_paths_for_which_no_work_is_left_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ignore_patterns.MatchingBudget.__init__, "__defaults__", (40_000,))
    write(tmp_path, {f"{number:03}.py": "x" for number in range(200)})
    write(tmp_path, {".codequarryignore": "*a*\n0*0*1*.py\n*b*\n"})
    found = reasons(tmp_path)
    assert found["001.py"] == "codequarryignore"
    assert (found["000.py"], found["199.py"]) == (None, "ignore_limit")
    assert reasons(tmp_path) == found, "what is left out does not depend on the time of day"


def test_a_path_of_many_folders_is_decided(tmp_path: Path) -> None:
    deep = "d/" * 1_200
    rules = IgnoreFiles(".gitignore", {".gitignore": b"d/d/x.py\n", f"{deep}.gitignore": b"a.py\n"}.get)
    assert [rules.ignores(f"{deep}{name}") for name in ("a.py", "b.py")] == [True, False]


def test_patterns_of_the_settings_have_limits_too() -> None:
    with pytest.raises(SettingsError):
        settings_patterns(("x",) * 50_001)
    with pytest.raises(SettingsError):
        settings_patterns(("x" * 1_025,))
    with pytest.raises(SettingsError):
        settings_patterns(("[z-a]",))


_GLOBS = (
    "a",
    "*.x",
    "/d/",
    "d/**",
    "**/d/k.?",
    "d/*/a",
    "!k.x",
    "[ab]*",
    "*",
    "e/d/",
    "!e/",
    "*/k.x",
    "?",
    "d*",
    "**/",
)


@given(st.lists(st.sampled_from(_GLOBS), max_size=6), st.sampled_from((*_PLACES, "d/", "d/d/", "e/d/")))
@settings(deadline=None)
def test_looking_patterns_up_by_their_parts_changes_no_verdict(lines: list[str], path: str) -> None:
    together = PatternList(lines, MatchingBudget()).last(path)
    alone = [PatternList([line], MatchingBudget()) for line in lines]
    for each in alone:
        each._any_last_first, each._by_key = [0] * len(each), {}  # matched without a look-up
    said = [verdict for each in alone if (verdict := each.last(path)) is not None]
    assert together == (said[-1] if said else None)

"""Paths that commands print and take are those that a shell in the working folder opens."""

from __future__ import annotations

from pathlib import Path

import pytest

from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.wire.search import BundleInfo
from codequarry.serving.catalog.globs import compile_glob
from codequarry.serving.cli.finding.shell_paths import ShellPaths, place_of

BUNDLE = BundleInfo(version="v", created="", commits={"app": "", "lib": "", "far": ""})


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    for file in ("app/src/a.py", "app/src/[id]/b.py", "app/README.md", "lib/c.py", "app/vendor/d.py", "alone.txt"):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).touch()
    return folder


def paths(home: Path, here: str) -> ShellPaths:
    return ShellPaths({"app": home / "app", "lib": home / "lib", "gone": home / "gone"}, home / here)


@pytest.mark.parametrize(
    ("here", "shown"), [("app", "src/a.py"), ("app/src", "a.py"), (".", "app/src/a.py"), ("lib", "../app/src/a.py")]
)
def test_what_is_shown_means_the_same_file_again(home: Path, here: str, shown: str) -> None:
    there = paths(home, here)
    assert there.show("app/src/a.py", BUNDLE) == shown
    assert (home / here / shown).exists()
    for lines in ("", ":3", ":3-9"):
        assert there.resolve(f"{shown}{lines}") == f"app/src/a.py{lines}"


def test_what_is_no_file_here_stays_as_it_is(home: Path) -> None:
    there = paths(home, "app")
    for other in ("k3x9q", "1234567890", "src/unknown.py", "../alone.txt", "", 'File "src/a.py", line 12'):
        assert there.resolve(other) == other
    assert there.resolve(".") == "app"
    assert there.show("far/x.py", BUNDLE) == "far/x.py"
    assert "\x1b" not in there.show("app/\x1b[2J.py", BUNDLE)


def test_paths_and_globs_narrow_a_search(home: Path) -> None:
    there = paths(home, "app/src")
    filters = there.narrow({"lang": ["python"]}, ["[id]", "a.py"])
    assert (filters["lang"], filters["repos"]) == (["python"], ["app"])
    matching = [compile_glob(glob) for glob in filters["include"]]
    for path, expected in (("src/[id]/b.py", True), ("src/a.py", True), ("a.py", False), ("src/i/b.py", False)):
        assert any(matches(path) for matches in matching) == expected, path
    assert there.narrow({}, ["*.md"]) == {"repos": [], "include": ["*.md"]}
    assert there.narrow({}, [".."]) == {"repos": ["app"], "include": ["**"]}
    assert there.narrow({"repos": ["lib"]}, []) == {"repos": ["lib"]}


@pytest.mark.parametrize(
    ("given", "said"), [(["what", "is"], "put quotes around"), (["a.py", "../../lib/c.py"], "2 repositories: app, lib")]
)
def test_what_cannot_be_meant_is_refused(home: Path, given: list[str], said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        paths(home, "app/src").narrow({}, given)
    with pytest.raises(InvalidArgumentError, match="expected one of them"):
        paths(home, "app/src").narrow({"include": ["*.py"]}, ["a.py"])


def test_places_are_counted_from_one(home: Path) -> None:
    there = paths(home, "app")
    assert place_of("src/a.py:7:24", there) == {"uri": "app/src/a.py", "line": 6, "column": 23}
    assert place_of("src/a.py:7", there) == {"uri": "app/src/a.py", "line": 6, "column": -1}
    for name in ("Index.open", "io::open", "src/a.py", "src/a.py:0", ":7"):
        assert place_of(name, there) is None

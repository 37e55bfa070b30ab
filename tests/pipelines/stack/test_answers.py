"""A delta version and a complete one of the same tree give the same answers."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codequarry.pipelines.run import IndexReport, index_repositories
from codequarry.pipelines.stack.build import index_changes
from codequarry.schemas.settings.load import ServingSettings, Settings
from codequarry.serving.engine.engine import Engine
from tests.pipelines.conftest import MakeSettings
from tests.pipelines.repositories import commit, git
from tests.pipelines.stack.alike import differing, moved

WORDS = "parse render fetch store merge count order index close write".split()
FILES = 60
"""Enough that a few changed ones are below the share at which a delta is refused."""

Edit = tuple[str, int, int]
"""Kind of change, number of the file, and seed."""


def python(seed: int) -> str:
    """A module of functions and a class; names and calls come from few words, so that files share them."""
    draw = random.Random(seed)
    first, second, third = draw.sample(WORDS, 3)
    rare = f"special_{seed % 37}"
    return (
        f'"""Does {first} and {second}."""\n\nimport os\nfrom pkg1.mod1 import {draw.choice(WORDS)}\n\n'
        f"LIMIT = {seed}\nlimit_{seed % 11} = {third} = LIMIT\n\n\n"
        f'def {first}(value):\n    """{first.title()} a value."""\n    return {second}(value) + {rare}(value)\n\n\n'
        f"class {second.title()}er:\n    size_{seed % 7} = 1\n\n    def {third}(self, item):\n"
        f"        return self.{first}(item) + LIMIT + self.size_{seed % 7}\n\n\n"
        f"def special_{draw.randrange(37)}(value):\n    return {draw.choice(WORDS)}({seed % 5})\n"
    )


def text_of(path: str, seed: int) -> str:
    """A file's text by its kind."""
    if path.endswith(".md"):
        return f"# About {WORDS[seed % 10]}\n\nHow to {WORDS[seed % 7]} things, number {seed}.\n"
    if path.endswith(".go"):
        name = WORDS[seed % 10].title()
        return f"package pkg\n\n// {name} does it.\nfunc {name}(n int) int {{\n\treturn Special{seed % 11}(n)\n}}\n"
    return python(seed)


def tree(count: int = FILES) -> dict[str, str | bytes]:
    kinds = ("py", "py", "py", "go", "md")
    paths = [f"pkg{number % 5}/mod{number}.{kinds[number % 5]}" for number in range(count)]
    return {path: text_of(path, number) for number, path in enumerate(paths)}


def apply(folder: Path, edit: Edit) -> None:
    """Change the work tree in one way."""
    what, at, seed = edit
    files = sorted(path for path in folder.rglob("*.*") if ".git" not in path.parts)
    file = files[at % len(files)]
    if what == "edit":
        file.write_text(text_of(file.name, seed))
    elif what == "append":
        file.write_text(file.read_text() + f"\n\ndef late_{seed % 9}():\n    return special_{seed % 37}(1)\n")
    elif what == "add":
        (file.parent / f"new{seed % 50}{file.suffix}").write_text(text_of(file.name, seed))
    elif what == "delete" and len(files) > 50:
        file.unlink()
    elif what == "rename":
        target = folder / f"pkg{seed % 5}" / f"moved{seed % 50}{file.suffix}"
        shutil.move(file, target)
    elif what == "mode":
        file.chmod(0o755 if seed % 2 else 0o644)
    elif what == "commit":
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "--allow-empty", "-m", "more")


edits = st.tuples(
    st.sampled_from(("edit", "edit", "append", "add", "delete", "rename", "mode", "commit")),
    st.integers(0, 200),
    st.integers(0, 10_000),
)


def compared(stacked: Settings, complete: Settings, folder: Path) -> list[str]:
    """Build a complete version, and return what the two answer otherwise."""
    index_repositories(complete)
    files = sorted(path for path in folder.rglob("*.*") if ".git" not in path.parts)
    engines = [Engine.open(each.bundle.root, ServingSettings()) for each in (stacked, complete)]
    try:
        names = [f"{folder.name}/{file.relative_to(folder)}" for file in files]
        texts = [file.read_text() for file in files]
        different, places = moved(*engines, texts)
        assert different <= 0.1 * places, "statistics of hidden chunks move few places of hybrid answers"
        return differing(*engines, texts, names)
    finally:
        for engine in engines:
            engine.close()


def with_large_deltas(given: Settings) -> Settings:
    """Let half of the few chunks change before a complete version is built."""
    bundle = given.bundle.model_copy(update={"delta_share": 0.5})
    return given.model_copy(update={"bundle": bundle})


@given(first=st.lists(edits, min_size=1, max_size=6), then=st.lists(edits, min_size=1, max_size=6))
@settings(
    max_examples=int(os.environ.get("CODEQUARRY_STACK_EXAMPLES", "4")),
    deadline=None,
    derandomize="CODEQUARRY_STACK_EXAMPLES" not in os.environ,  # each case builds three versions
    suppress_health_check=list(HealthCheck),  # pyright: ignore[reportArgumentType]
)
def test_answers_are_those_of_a_complete_version(
    first: list[Edit], then: list[Edit], make_settings: MakeSettings, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A version over a base, and over it the version that replaces it: edits, renames, deletes, modes, commits."""
    home = tmp_path_factory.mktemp("alike")
    folder = home / "app"
    commit(folder, tree())
    stacked, complete = (with_large_deltas(make_settings(folder, home=home / name)) for name in ("stacked", "complete"))
    index_repositories(stacked)
    for step in (first, then):
        for edit in step:
            apply(folder, edit)
        report = index_changes(stacked)
        assert isinstance(report, IndexReport), report
    assert compared(stacked, complete, folder) == []
    shutil.rmtree(home)

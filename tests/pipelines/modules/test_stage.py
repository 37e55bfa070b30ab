"""Imports mean the files they mean to the language, and the table holds together."""

from __future__ import annotations

import random
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codequarry.pipelines.modules.resolve.families import Repository
from codequarry.pipelines.modules.stage import ModuleReport, module_repository, module_rows
from codequarry.pipelines.sources.snapshot import snapshot_repository
from codequarry.pipelines.sources.sources import repositories_by_name
from codequarry.pipelines.store.workspace import repository_work
from codequarry.pipelines.syntax.facts.table import SourceModule
from codequarry.pipelines.syntax.stage import chunk_repository
from codequarry.schemas.catalog.views import set_bundle
from codequarry.schemas.errors import SourceError
from codequarry.schemas.languages import MODULE_LANGUAGES
from codequarry.schemas.records import Import, ModuleFacts
from tests.pipelines.conftest import MakeSettings, Run
from tests.pipelines.modules.module_trees import TREES
from tests.pipelines.repositories import commit

Rows = dict[str, dict]


def described(folder: Path, make_settings: MakeSettings) -> tuple[Rows, ModuleReport]:
    """The module rows of a folder by path, after the stages before."""
    over = make_settings(folder)
    (repository,) = repositories_by_name(over.sources.repositories).values()
    snapshot_repository(repository, over)
    chunk_repository(repository.name, over)
    report = module_repository(repository.name, over)
    table = pq.read_table(repository_work(over.paths.work, repository.name).table("modules"))
    return {row["path"]: row for row in table.to_pylist()}, report


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


@pytest.mark.parametrize("name", TREES)
def test_imports_name_the_files_that_the_language_means(name: str, tmp_path: Path, make_settings: MakeSettings) -> None:
    tree = TREES[name]
    rows, report = described(write(tmp_path / "tree", tree.files), make_settings)
    assert {path: row["resolved"] for path, row in rows.items() if row["resolved"]} == tree.resolved
    assert {path: (rows[path]["module"], rows[path]["package"]) for path in tree.names} == tree.names
    for path, row in rows.items():
        importing = [other for other, targets in tree.resolved.items() if path in targets]
        assert (row["fan_in"], row["fan_out"]) == (len(importing), len(row["resolved"]))
        assert set(row["external"]) <= set(row["imports"])
    assert report.imports - report.resolved == sum(len(row["external"]) for row in rows.values())


def test_entries_that_leave_the_repository_are_told(tmp_path: Path, make_settings: MakeSettings) -> None:
    rows, _ = described(write(tmp_path / "tree", TREES["python"].files), make_settings)
    assert rows["src/shop/cart.py"]["imports"] == ["json", ".money", ".deep.tax.rate", "shop.cart"]
    assert rows["src/shop/cart.py"]["external"] == ["json"]
    assert rows["src/shop/deep/tax.py"]["external"] == ["...nowhere", "missing.module"]


TAGGED = {
    "pkg/__init__.py": ("from .a import b\n", ["package", "re_export"]),
    "pkg/a.py": ("def b(): pass\n", []),
    "pkg/__main__.py": ("import click\n", ["cli", "entry_point"]),
    "pkg/settings.py": ("DEBUG = True\n", ["config"]),
    "tests/test_a.py": ("from pkg.a import b\nb()\n", ["test"]),
    "tool.py": ("import argparse\nif __name__ == '__main__':\n    pass\n", ["cli", "entry_point"]),
    "web/index.ts": ("export * from './a';\n", ["package", "re_export"]),
    "web/a.ts": ("export const a = 1;\n", []),
    "vite.config.js": ("export default {};\n", ["config"]),
    "cmd/main.go": ('package main\n\nimport "github.com/urfave/cli/v2"\n\nfunc main() {}\n', ["cli", "entry_point"]),
    "cmd/flags.go": ('package main\n\nimport "flag"\n', ["cli"]),
    "crate/src/lib.rs": ("pub mod a;\n", ["package", "re_export"]),
    "crate/src/main.rs": ("use clap::Parser;\nfn main() {}\n", ["cli", "entry_point"]),
    "main.swift": ("let x = 1\n", ["entry_point"]),
    "examples/run.sh": ("#!/bin/sh\ntrue\n", ["entry_point", "example"]),
    "lua/shop/init.lua": ("local argparse = require('argparse')\nreturn {}\n", ["cli", "package"]),
    "app/Main.hs": ("module Main where\nimport Options.Applicative\nmain = run\n", ["cli", "entry_point"]),
    "Serve.cs": ('using System;\nConsole.WriteLine("x");\n', ["entry_point"]),
}


def test_tags_tell_the_role_of_a_file(tmp_path: Path, make_settings: MakeSettings) -> None:
    rows, report = described(write(tmp_path / "tree", {p: text for p, (text, _) in TAGGED.items()}), make_settings)
    assert {path: row["tags"] for path, row in rows.items()} == {path: tags for path, (_, tags) in TAGGED.items()}
    assert report.tags["cli"] == 7
    assert report.most_imported[0] == ("pkg/a.py", 2)


def test_a_file_that_cannot_be_parsed_is_a_module_all_the_same(
    tmp_path: Path, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codequarry.pipelines.syntax.workers._ANSWER_S", 0.0)
    rows, _ = described(write(tmp_path / "tree", {"a.py": "import b\n\nx = 1\n", "b.md": "# b\n"}), make_settings)
    (row,) = rows.values()
    assert (row["module"], row["imports"], row["lines"], row["code_lines"]) == ("a", [], 3, 2)


def test_the_module_of_a_class_is_documented_by_the_class(tmp_path: Path, make_settings: MakeSettings) -> None:
    source = "package a;\n\n/** Holds items. */\npublic class HttpServer {}\n"
    rows, _ = described(write(tmp_path / "tree", {"a/http_server.java": source}), make_settings)
    assert rows["a/http_server.java"]["doc"] == "Holds items."


def test_the_stage_says_which_stage_is_missing(tmp_path: Path, make_settings: MakeSettings) -> None:
    with pytest.raises(SourceError, match=r"census\.parquet is missing"):
        module_repository("nobody", make_settings(tmp_path))


def test_modules_reach_the_catalog(run: Run, tmp_path: Path) -> None:
    commit(tmp_path / "shop", TREES["python"].files)
    done = run("index", tmp_path / "shop", "--verbose")
    assert done.returncode == 0, done.stderr
    assert "modules 11 13 of 18 imports resolved inside" in " ".join(done.stderr.split())
    folder = Path(done.stdout.strip())
    with closing(duckdb.connect(str(folder / "catalog.duckdb"), read_only=True)) as connection:
        connection.execute(set_bundle(str(folder)))
        found = connection.execute(
            "SELECT module, fan_in, definitions, tags FROM modules "
            "WHERE list_contains(exports, 'cents') AND definitions > 0"
        ).fetchall()
    assert found == [("shop.money", 4, 1, [])]


# Properties of the rules, over repositories without files.

WORDS = st.sampled_from(["a", "b", "index", "__init__", "mod", "lib", "src", "main", "..", "", "é"])
PATHS = st.lists(WORDS.filter(lambda word: word not in ("..", "")), min_size=1, max_size=4).map("/".join)
SOURCES = st.one_of(
    st.builds(str.__add__, st.sampled_from(["", ".", "..", "...."]), st.lists(WORDS, max_size=4).map(".".join)),
    st.builds(str.__add__, st.sampled_from(["./", "../", "/", ""]), st.lists(WORDS, max_size=4).map("/".join)),
    st.lists(st.sampled_from(["crate", "self", "super", "a", "b", "*", ""]), max_size=5).map("::".join),
    st.text(max_size=12),
)  # fmt: skip
SUFFIXES = {"elixir": ".ex", "haskell": ".hs", "lua": ".lua", "zig": ".zig", "python": ".py",
            "typescript": ".ts", "go": ".go", "rust": ".rs", "java": ".java", "csharp": ".cs",
            "php": ".php", "c": ".h", "ruby": ".rb", "bash": ".sh", "swift": ".swift"}  # fmt: skip


@st.composite
def modules(draw: st.DrawFn) -> SourceModule:
    lang = draw(st.sampled_from(sorted(SUFFIXES)))
    names = st.lists(st.tuples(WORDS | st.just("*"), WORDS), max_size=2).map(tuple)
    imports = draw(st.lists(st.builds(Import, SOURCES, names), max_size=4))
    package = draw(st.sampled_from(["", "a", "a.b"]))
    defined = tuple(f"{package}.{word}".strip(".") for word in draw(st.lists(WORDS, max_size=2)))
    facts = ModuleFacts(package, "", tuple(imports), ("a",), defined, 0, 0, 0, entry_point=False, only_imports=False)
    return SourceModule(draw(PATHS) + SUFFIXES[lang], lang, 1, 0, facts)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(modules(), max_size=10), st.randoms(use_true_random=False))
def test_rows_do_not_depend_on_the_order_of_files_and_hold_together(
    found: list[SourceModule], shuffle: random.Random
) -> None:
    by_path = {module.path: module for module in found}
    one = Repository(
        by_path,
        frozenset(by_path),
        lambda: {"go.mod": b"module a", "Cargo.toml": b'[package]\nname = "b"'},
        lambda _: frozenset({"a", "b"}),
    )
    shuffled = list(by_path.values())
    shuffle.shuffle(shuffled)
    other = replace(one, modules={module.path: module for module in shuffled})
    rows = module_rows("shop", one, {})
    assert rows == module_rows("shop", other, {})
    assert [row.path for row in rows] == sorted(by_path)
    assert sum(row.fan_in for row in rows) == sum(row.fan_out for row in rows) == sum(len(row.resolved) for row in rows)
    for row in rows:
        assert set(row.resolved) <= by_path.keys() - {row.path}
        assert row.module
    assert {row.lang for row in rows} <= MODULE_LANGUAGES

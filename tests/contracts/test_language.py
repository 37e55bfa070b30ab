"""One language: what a check can see of docstrings, names of files and the size of rooms."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
LAYERS = ("schemas", "pipelines", "serving", "assets", "tools")
MODULES = sorted(file for layer in LAYERS for file in (PROJECT / layer).rglob("*.py"))
PROGRAMS = [*MODULES, *sorted((PROJECT / "benchmarks").rglob("*.py"))]
MOST_IN_A_ROOM = 14
_CLAUSE = re.compile(r"(What|Whether|Where|Which|How|Who|When|Why|Whose|That|If|As)\b")
_PARTICIPLES = frozenset(
    "asked begun broken built checked chosen closed done drawn filled found given gone got held joined kept known left "
    "lent listed lost made measured met moved named noted opened paid placed quoted refused said seen sent shown taken "
    "told used wanted won worn written".split()
)
"""Words that name neither an act nor a thing: a function is a verb with its object, a property a noun."""
_ONE_MEANING = {
    "automation": "schedules and sensors: their settings, and what Dagster runs",
    "bm25": "the BM25 index: its writing and its search",
    "build": "the writing of an index",
    "bundle": "the bundle as a whole: its settings, and its assets",
    "catalog": "the DuckDB file of a version: its writing and its reading",
    "chatgpt": "the tools under the names that ChatGPT asks for: their schemas and their answers",
    "definitions": "definitions in code; in `assets`, where Dagster looks for its own",
    "describe": "the tool `describe_index`: its schema and its answer",
    "endpoint": "the encoder behind a URL: its export and its use",
    "explore": "the tool `explore`: its schema and its answer",
    "fetch": "the tool `fetch`: its answer and the text of it",
    "file_index": "the index of file summaries: its writing and its search",
    "grep": "the tool `search_code`: its schema and its answer",
    "list_files": "the tool `list_files`: its schema and its answer",
    "manifest": "`manifest.json`: its schema and its writing",
    "outline": "the tool `outline`: its schema and its answer",
    "overview": "the tool `overview`: its schema and its answer",
    "pro": "the tool `semantic_search_pro`: its schema and its answer",
    "ranking_profile": "the weights of the ranking: their schema and their choice",
    "references": "references in code: how they are found, and the tool that lists them",
    "relations": "the tool `relations`: its schema, its answer, the text of it, and its command",
    "resource": "files as resources of MCP: their schema, their reading and their door",
    "search": "the search for chunks: its schema, the tool, and that of late interaction",
    "shards": "the parts in which the chunks are numbered: their schema, their plan and their writing",
    "sources": "the repositories that are read: their settings and their reading",
    "sparse": "the encoder of learned sparse terms: its export and its use",
    "splade": "the learned sparse index: its schema and its search",
    "stage": "one stage of the pipeline, as `run.py` calls it",
    "static": "the encoder of static vectors: its export and its use",
    "symbols": "symbols: their names in SCIP, their tables, and the tools' schemas",
}
"""File names that occur in several rooms, and the one thing each means. A module of commands has their name."""
_ANSWERS = PROJECT / "schemas" / "codequarry" / "schemas" / "wire"
"""Docstrings of these models are part of ``tools/list``, which changes with the answers and not with the language."""


def test_no_docstring_opens_with_a_subordinate_clause() -> None:
    guilty = [
        f"{file.relative_to(PROJECT)}:{getattr(node, 'lineno', 1)}: {text.splitlines()[0]}"
        for file in MODULES
        if _ANSWERS not in file.parents
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module)
        and (text := ast.get_docstring(node))
        and _CLAUSE.match(text)
    ]
    assert guilty == []


def test_no_function_is_named_by_a_bare_participle() -> None:
    guilty = [
        f"{file.relative_to(PROJECT)}:{node.lineno}: {node.name}"
        for file in MODULES
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.strip("_") in _PARTICIPLES
    ]
    assert guilty == []


def test_no_class_name_means_two_things() -> None:
    places: dict[str, list[str]] = {}
    for file in MODULES:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name.lstrip("_"), []).append(f"{file.relative_to(PROJECT)}:{node.lineno}")
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_a_file_name_in_two_rooms_has_one_meaning() -> None:
    product = [file for file in MODULES if PROJECT / "tools" not in file.parents and "cli" not in file.parts]
    counts = Counter(file.stem for file in product if not file.stem.startswith("__"))
    assert {name for name, count in counts.items() if count > 1} == _ONE_MEANING.keys()


def test_sections_of_docstrings_are_complete() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pydoclint.main", *LAYERS], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_room_has_more_than_fourteen_modules() -> None:
    tests = (PROJECT / "tests").rglob("*.py")
    counts = Counter(file.parent for file in [*PROGRAMS, *tests] if file.name not in ("__init__.py", "__main__.py"))
    assert {str(room.relative_to(PROJECT)): n for room, n in counts.items() if n > MOST_IN_A_ROOM} == {}


def test_every_room_says_what_it_is() -> None:
    rooms = {file.parent for file in PROGRAMS}
    silent = [str(room.relative_to(PROJECT)) for room in rooms if room.name != "codequarry" and not _says(room)]
    assert silent == []


def _says(room: Path) -> bool:
    init = room / "__init__.py"
    return init.is_file() and bool(ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))))

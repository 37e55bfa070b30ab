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
MOST_IN_A_ROOM = 14
_CLAUSE = re.compile(r"(What|Whether|Where|Which|How|Who|When|Why|Whose|That|If|As)\b")
_PARTICIPLES = frozenset(
    "asked begun broken built checked chosen closed done drawn filled found given gone got held joined kept known left "
    "lent listed lost made measured met moved named noted opened paid placed quoted refused said seen sent shown taken "
    "told used wanted won worn written".split()
)
"""Words that name neither an act nor a thing: a function is a verb with its object, a property a noun."""
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


def test_sections_of_docstrings_are_complete() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pydoclint.main", *LAYERS], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_room_has_more_than_fourteen_modules() -> None:
    counts = Counter(file.parent for file in MODULES if file.name not in ("__init__.py", "__main__.py"))
    assert {str(room.relative_to(PROJECT)): n for room, n in counts.items() if n > MOST_IN_A_ROOM} == {}


def test_every_room_says_what_it_is() -> None:
    rooms = {file.parent for file in MODULES}
    silent = [str(room.relative_to(PROJECT)) for room in rooms if room.name != "codequarry" and not _says(room)]
    assert silent == []


def _says(room: Path) -> bool:
    init = room / "__init__.py"
    return init.is_file() and bool(ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))))

"""Definitions of given repositories beside those of Universal Ctags, by language and kind."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.report import Figure, at_least, print_figures
from codequarry.pipelines.syntax.chunks.chunk import chunk_source
from codequarry.schemas.languages import language_of
from codequarry.schemas.records import AstNode

PROGRAM = "ctags"
LINES_APART = 1
"""Lines by which the two may differ in the place of a name: a declaration may begin above its name."""
_LANGUAGES = {
    "python", "javascript", "typescript", "tsx", "go", "rust", "java", "c", "cpp", "csharp", "ruby", "php", "kotlin",
    "lua", "scala", "swift", "bash",
}  # fmt: skip
_FUNCTIONS = {"function", "func", "method", "singletonMethod", "generator", "getter", "setter", "member", "subroutine"}
"""Kinds of scopes whose names are locals; a ``member`` of Python and C++ that holds others is a method."""
_NO_DEFINITIONS = {
    "package", "packageName", "heredoc", "implementation", "context", "describe", "unknown", "alias:PHP",
    "namespace:Python", "namespace:PHP", "using", "script", "module:Python",
}  # fmt: skip
"""Kinds that name something defined elsewhere, or nothing: package clauses, imports, ``impl`` blocks, test texts."""


_VALUES = {"variable", "constant", "property", "member", "field", "enumerator"}
"""Kinds of which ctags also lists names in functions, some without their scope."""
_CALLABLE = ("function", "method")


@dataclass
class Kind:
    """Counts of one kind of ctags in one language."""

    names: int = 0
    defined: int = 0
    missing: list[str] = field(default_factory=list)
    """Places of some names that are no definitions of ours."""


@dataclass
class Comparison:
    """Counts of one repository or of several."""

    kinds: dict[tuple[str, str], Kind] = field(default_factory=lambda: defaultdict(Kind))
    """By language and kind of ctags."""
    ours: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Definitions of ours by language and kind."""
    misplaced: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Those of them whose name does not stand at the place given."""

    def share_defined(self, language: str = "") -> float:
        """Share of ctags' names that are definitions of ours, in %."""
        kinds = [kind for (lang, _), kind in self.kinds.items() if language in ("", lang)]
        return 100 * sum(kind.defined for kind in kinds) / max(sum(kind.names for kind in kinds), 1)

    def share_in_place(self) -> float:
        """Share of our definitions whose name stands at the place given, in %."""
        return 100 * (1 - sum(self.misplaced.values()) / max(sum(self.ours.values()), 1))


def compare(folders: Iterable[Path]) -> Comparison:
    """Compare the definitions in repositories with those of ctags.

    Args:
        folders: The repositories.

    Returns:
        Counts by language and kind.
    """
    found = Comparison()
    for folder in folders:
        tags = _tags(folder)
        for path in sorted(tags):
            language = language_of(path)
            data = (folder / path).read_bytes()
            if language not in _LANGUAGES:
                continue
            made = chunk_source(data, language)
            if not made.parsed:
                continue
            written = data.split(b"\n")
            lines: dict[str, set[int]] = defaultdict(set)
            for node in (*made.ast_nodes, *made.members):
                lines[node.name.removeprefix("~")].add(node.name_start_line)
                found.ours[language, node.kind] += 1
                if not data.startswith(node.name.encode(), node.name_start_byte):
                    found.misplaced[language, node.kind] += 1
            for tag in tags[path]:
                if not _is_written(tag, written) or (tag["kind"] in _VALUES and _in_function(tag, made.ast_nodes)):
                    continue
                kind = found.kinds[language, tag["kind"]]
                kind.names += 1
                near = range(tag["line"] - 1 - LINES_APART, tag["line"] + LINES_APART)
                if any(line in lines[_own_name(tag["name"])] for line in near):
                    kind.defined += 1
                elif len(kind.missing) < 1_000:
                    kind.missing.append(f"{folder.name}/{path}:{tag['line']} {tag['name']}")
    return found


def _own_name(name: str) -> str:
    """Return the last part of a name that ctags gives with its scope.

    >>> _own_name("M.open"), _own_name("lib::put"), _own_name("operator ==")
    ('open', 'put', 'operator==')
    """
    if name.startswith("operator "):
        return name.replace(" ", "")
    name = name.removeprefix("~")
    return name.rpartition("::")[2].rpartition(".")[2].rpartition(":")[2] or name


def _tags(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the file- and type-level names of ctags by path."""
    command = [PROGRAM, "--output-format=json", "--fields=+nKsZrl", "-R", "-f", "-", "."]
    output = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, errors="replace").stdout
    tags: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for tag in map(json.loads, output.splitlines()):
        kind, language = tag["kind"], tag["language"]
        reference = tag.get("roles", "def") != "def"
        anonymous = tag["name"].startswith(("__anon", "Anonymous", "anonymous"))
        if reference or anonymous or {kind, f"{kind}:{language}"} & _NO_DEFINITIONS or _is_local(tag):
            continue
        tags[tag["path"].removeprefix("./")].append(tag)
    return tags


def _is_written(tag: dict[str, Any], lines: Sequence[bytes]) -> bool:
    """Return whether the name stands in the source: ctags makes some up, such as ``Companion`` and ``<lambda>``."""
    near = b"\n".join(lines[max(tag["line"] - 1 - LINES_APART, 0) : tag["line"] + LINES_APART])
    return _own_name(tag["name"]).removeprefix("operator").encode() in near


def _in_function(tag: dict[str, Any], nodes: Sequence[AstNode]) -> bool:
    """Return whether the innermost definition around a name is a function."""
    line = tag["line"] - 1
    around = [node for node in nodes if node.start_line <= line <= node.end_line and node.name_start_line != line]
    return bool(around) and around[-1].kind in _CALLABLE


def _is_local(tag: dict[str, Any]) -> bool:
    return tag.get("scopeKind") in _FUNCTIONS


def figures(folders: Sequence[Path]) -> Iterator[Figure]:
    """Yield the shares of the repositories, and print the differences by kind.

    Args:
        folders: The repositories.

    Yields:
        One figure per share and language.
    """
    if shutil.which(PROGRAM) is None:
        print("Definitions are not compared: the program ctags is not installed (Debian: universal-ctags).")
        return
    found = compare(folders)
    yield at_least("file- and type-level names of ctags that are definitions", found.share_defined(), 98, "%", 2)
    yield at_least("definitions whose name stands at the place given", found.share_in_place(), 97, "%", 2)
    for language in sorted({language for language, _ in found.kinds}):
        yield Figure(f"{language}: names of ctags that are definitions", f"{found.share_defined(language):.1f} %")
    print("\n| language | kind of ctags | names | no definitions of ours | for example |\n|---|---|---|---|---|")
    for (language, name), kind in sorted(found.kinds.items()):
        example = kind.missing[0] if kind.missing else ""
        print(f"| {language} | {name} | {kind.names:,} | {kind.names - kind.defined:,} | {example} |")


def print_comparison(folders: Sequence[Path]) -> None:
    """Compare and print."""
    print_figures(f"Definitions in {len(folders)} repositories beside Universal Ctags", figures(folders))

"""Definitions and references of real sources, asked over MCP and compared with what grep finds."""

from __future__ import annotations

import asyncio
import io
import re
import shutil
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

import codequarry.schemas.bundle
from codequarry.pipelines.run import index_repositories
from codequarry.schemas.settings.load import ServingSettings
from codequarry.serving.engine.engine import Engine
from codequarry.serving.server.mcp import build_server
from tests.pipelines.conftest import MakeSettings, Run

UNIQUE = "SELECT name FROM symbols_mat GROUP BY name HAVING count(*) = 1 AND min(kind) = 'function'"
FORMATTED = set[tuple[str, int]]()
"""Lines of f-strings, whose names Python 3.11's tokenizer does not show."""
Place = tuple[str, int, int]
ATTRIBUTES = set[Place]()
"""Names behind a dot."""
WEB = {
    "src/price.ts": "export interface Priced { total(): number }\n\n"
    "export function roundCents(value: number): number {\n  return Math.round(value);\n}\n",
    "src/cart.ts": "import { Priced, roundCents } from './price';\n\n/** roundCents in a comment */\n"
    "export class Cart implements Priced {\n  private größe = 'ü𝒳'; items: number[] = [];\n\n  total(): number {\n"
    "    return roundCents(this.items.reduce((a, b) => a + b, 0));\n  }\n}\n\n"
    "export function emptyCart(): Cart {\n  return new Cart();\n}\n",
    "src/index.ts": "import { emptyCart } from './cart';\nimport { roundCents } from './price';\n\n"
    "export function checkout(): number {\n"
    "  const s = '𝒳roundCents'; return emptyCart().total() + roundCents(s.length);\n}\n",
}


# Path, text, a name, its qualified name, its kind, and the lines that use it.
MEMBERS: dict[str, tuple[str, str, str, str, list[int]]] = {
    "retry.py": (
        "retry_limit = 3\n\n\ndef wait(count):\n    return count < retry_limit\n\n\n"
        "def other(retry_limit):\n    return retry_limit\n",
        "retry_limit", "retry_limit", "variable", [4],
    ),
    "box.go": (
        "package box\n\nvar openBoxes = 1\n\ntype Box struct {\n\tinnerSize int\n}\n\n"
        "func (b *Box) Grow(n int) { b.innerSize = n; openBoxes++ }\n",
        "innerSize", "Box.innerSize", "field", [8],
    ),
    "colour.rs": (
        "pub enum Colour { DarkRed, Blue }\nfn f() -> Colour {\n    Colour::DarkRed\n}\n",
        "DarkRed", "Colour.DarkRed", "enum_member", [2],
    ),
    "routes.ts": (
        "export const homeRoute = '/';\nfunction f(homeRoute: string) { return homeRoute; }\nopen(homeRoute);\n",
        "homeRoute", "homeRoute", "variable", [2],
    ),
    "Mail.java": (
        "class Mail {\n  private int sentMails;\n  void send() { this.sentMails += 1; }\n}\n",
        "sentMails", "Mail.sentMails", "field", [2],
    ),
    "Shop.cs": (
        "class Shop {\n  public int OpenOrders { get; set; }\n  void Close() { this.OpenOrders = 0; }\n}\n",
        "OpenOrders", "Shop.OpenOrders", "property", [2],
    ),
    "Session.kt": (
        "class Session(val userToken: String) {\n    fun show() = print(userToken)\n}\n",
        "userToken", "Session.userToken", "property", [1],
    ),
    "tree.rb": (
        "class Tree\n  attr_reader :leafCount\n\n  def bare?\n    self.leafCount.zero?\n  end\nend\n",
        "leafCount", "Tree.leafCount", "accessor", [4],
    ),
    "ring.c": (
        "int ring_total;\nint ring_push(int item);\nint main(void) { return ring_push(ring_total); }\n",
        "ring_push", "ring_push", "function", [2],
    ),
}  # fmt: skip


def python_hits(path: str, source: bytes) -> Iterator[tuple[str, Place]]:
    """Names outside of comments and strings."""
    lines = source.decode().split("\n")
    tokens = list(tokenize.tokenize(io.BytesIO(source).readline))
    for token, after in zip(tokens, [*tokens[1:], tokens[-1]], strict=True):
        if token.type == tokenize.STRING and "f" in token.string.partition(token.string[-1])[0]:
            FORMATTED.update((path, line) for line in range(token.start[0] - 1, token.end[0]))
        if token.type == tokenize.NAME and not (after.string == "=" and lines[token.start[0] - 1][token.end[1]] == "="):
            line, column = token.start[0] - 1, token.start[1]
            place = (path, line, len(lines[line][:column].encode()))
            if lines[line][:column].endswith("."):
                ATTRIBUTES.add(place)
            yield token.string, place


def typescript_hits(path: str, source: bytes) -> Iterator[tuple[str, Place]]:
    code = re.sub(r"/\*.*?\*/|'[^']*'", lambda found: "_" * len(found[0]), source.decode(), flags=re.DOTALL)
    for line, text in enumerate(code.split("\n")):
        for found in re.finditer(r"\w+", text):
            before = source.decode().split("\n")[line][: found.start()]
            yield found[0], (path, line, len(before.encode()))


def compare(root: Path, folder: Path, hits: list[tuple[str, Place]], *, precise: bool) -> int:
    """Check every function whose name is defined once. Returns how many there were."""
    engine = Engine.open(root, ServingSettings())
    server = build_server(engine, version="0")

    async def talk() -> int:
        async with Client(server) as client:

            async def ask(tool: str, **arguments: Any) -> dict[str, Any]:
                answer = await client.call_tool_mcp(tool, arguments)
                assert not answer.is_error, answer.structured_content
                return answer.structured_content

            with engine.bundle.catalog.reading() as cursor:
                names = [row[0] for row in cursor.execute(UNIQUE).fetchall()]
            by_name: defaultdict[str, set[Place]] = defaultdict(set)
            for name, place in hits:
                by_name[name].add(place)
            for name in names:
                (definition,) = (await ask("go_to_definition", symbol=name))["results"]
                assert definition["precise"] == ("precise" if precise else "heuristic")
                # What is behind a dot may be another thing's method of the same name.
                sure = by_name[name] - ATTRIBUTES
                uses = await ask("find_references", symbol=name, limit=500, include_definitions=True)
                found = Counter(placed(use) for use in uses["results"])
                assert sure <= set(found), name
                assert all(place[:2] in FORMATTED for place in set(found) - by_name[name]), name
                assert max(found.values()) == 1
                assert placed(definition) in by_name[name]
                for use in uses["results"]:
                    line = (folder / use["uri"].partition("/")[2]).read_bytes().split(b"\n")[use["start_line"]]
                    assert line[use["start_column"] : use["end_column"]] == name.encode()
                    back = await ask(
                        "go_to_definition",
                        **{key: use[key] for key in ("uri",)},
                        line=use["start_line"],
                        column=use["start_column"],
                    )
                    assert placed(back["results"][0]) == placed(definition), use
            return len(names)

    try:
        return asyncio.run(talk())
    finally:
        engine.close()


def placed(result: dict[str, Any]) -> Place:
    return result["uri"].partition("/")[2], result["start_line"], result["start_column"]


def own_sources(folder: Path) -> tuple[Path, list[tuple[str, Place]]]:
    target = folder / "codequarry" / "schemas" / "bundle"
    shutil.copytree(codequarry.schemas.bundle.__path__[0], target, ignore=shutil.ignore_patterns("__pycache__"))
    files = [(file.relative_to(folder).as_posix(), file.read_bytes()) for file in sorted(target.rglob("*.py"))]
    return folder, [hit for path, source in files for hit in python_hits(path, source)]


def web_sources(folder: Path) -> tuple[Path, list[tuple[str, Place]]]:
    for path, text in WEB.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder, [hit for path in WEB for hit in typescript_hits(path, (folder / path).read_bytes())]


@pytest.mark.parametrize(("sources", "least"), [(own_sources, 20), (web_sources, 3)])
def test_by_syntax_alone(tmp_path: Path, make_settings: MakeSettings, sources, least) -> None:
    folder, hits = sources(tmp_path / "sources")
    settings = make_settings(folder, scip={"enabled": False})
    index_repositories(settings)
    assert compare(settings.bundle.root, folder, hits, precise=False) >= least


def test_members_are_found_over_mcp_and_on_the_command_line(
    tmp_path: Path, make_settings: MakeSettings, run: Run
) -> None:
    folder = tmp_path / "sources"
    folder.mkdir()
    for path, (text, *_) in MEMBERS.items():
        (folder / path).write_text(text, encoding="utf-8")
    settings = make_settings(folder, scip={"enabled": False})
    index_repositories(settings)
    engine = Engine.open(settings.bundle.root, ServingSettings())

    async def ask() -> dict[str, tuple[str, str, list[int]]]:
        found: dict[str, tuple[str, str, list[int]]] = {}
        async with Client(build_server(engine, version="0")) as client:
            for path, (_, name, *_) in MEMBERS.items():
                answer = await client.call_tool_mcp("go_to_definition", {"symbol": name})
                (defined,) = (answer.structured_content or {})["results"]
                uses = await client.call_tool_mcp("find_references", {"symbol": name})
                lines = [use["start_line"] for use in (uses.structured_content or {})["results"]]
                found[path] = defined["qualified_name"], defined["kind"], lines
        return found

    try:
        expected = {path: (whole, kind, lines) for path, (_, _, whole, kind, lines) in MEMBERS.items()}
        assert asyncio.run(ask()) == expected
    finally:
        engine.close()
    for name, place in (("openBoxes", "box.go:3:5"), ("ring_total", "ring.c:1:5"), ("Blue", "colour.rs:1:28")):
        told = run("definition", name, "--root", settings.bundle.root)
        assert place in told.stdout, told.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("real_indexers")
@pytest.mark.parametrize(("sources", "least"), [(own_sources, 20), (web_sources, 3)])
def test_with_real_indexers(tmp_path: Path, make_settings: MakeSettings, sources, least) -> None:
    folder, hits = sources(tmp_path / "sources")
    settings = make_settings(folder)
    index_repositories(settings)
    assert compare(settings.bundle.root, folder, hits, precise=True) >= least

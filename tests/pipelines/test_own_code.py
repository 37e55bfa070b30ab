"""This project's own sources, indexed as a user would, searched over MCP, and compared with reading the files."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client, FastMCP

from codequarry.pipelines.run import index_repositories
from codequarry.schemas.settings.load import ServingSettings
from codequarry.serving.engine.engine import Engine
from codequarry.serving.server.mcp import build_server
from tests.pipelines.conftest import MakeSettings

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture
def own_code(tmp_path: Path, make_settings: MakeSettings) -> Iterator[tuple[FastMCP, dict[str, str]]]:
    """A server over the project's serving layer, and the texts of its files by uri."""
    folder = tmp_path / "own"
    shutil.copytree(PROJECT / "serving", folder, ignore=shutil.ignore_patterns("__pycache__"))
    settings = make_settings(folder)
    index_repositories(settings)
    engine = Engine.open(settings.bundle.root, ServingSettings())
    texts = {f"own/{path.relative_to(folder).as_posix()}": path.read_text() for path in sorted(folder.rglob("*.*"))}
    yield build_server(engine, version="0"), texts
    engine.close()


def test_every_mode_finds_what_reading_the_files_finds(own_code: tuple[FastMCP, dict[str, str]]) -> None:
    server, texts = own_code
    asked: list[tuple[dict[str, Any], str, re.RegexFlag]] = [
        ({"pattern": "deadline.passed"}, r"deadline\.passed", re.NOFLAG),
        ({"pattern": "raise InvalidArgumentError("}, r"raise InvalidArgumentError\(", re.NOFLAG),
        ({"pattern": "hunk", "case_sensitive": False}, "hunk", re.IGNORECASE),
        ({"pattern": "engine", "mode": "word"}, r"\bengine\b", re.NOFLAG),
        ({"pattern": "For (a) caller", "mode": "phrase"}, r"\bfor\W+a\W+caller\b", re.IGNORECASE),
        ({"pattern": r"^def \w+\(", "mode": "regex"}, r"^def \w+\(", re.MULTILINE),
        ({"pattern": r"class \w+Channel\b", "mode": "regex"}, r"class \w+Channel\b", re.NOFLAG),
        ({"pattern": r"import \(\n\s+\w+", "mode": "regex"}, r"import \(\n\s+\w+", re.NOFLAG),
    ]  # fmt: skip
    answers = _call(server, [{**arguments, "limit": 200} for arguments, _, _ in asked])
    for (arguments, oracle, flags), answer in zip(asked, answers, strict=True):
        wanted = [
            (uri, text[: match.start()].count("\n"), match.start() - text.rfind("\n", 0, match.start()) - 1)
            for uri, text in texts.items()
            for match in re.finditer(oracle, text, flags)
        ]
        found = [(one["uri"], one["start_line"], one["start_column"]) for one in answer["results"]]
        assert wanted, arguments
        assert found == wanted[:200], arguments
        assert (answer["total"], answer["total_is_exact"]) == (len(wanted), True)


def _call(server: FastMCP, calls: list[dict[str, Any]]) -> list[Any]:
    async def talk() -> list[Any]:
        async with Client(server) as client:
            return [(await client.call_tool_mcp("search_code", one)).structured_content for one in calls]

    return asyncio.run(talk())

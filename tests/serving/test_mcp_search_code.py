"""``search_code`` through an in-memory client, in both protocol eras."""

from __future__ import annotations

from typing import Any

import pytest
from fastmcp import FastMCP

from codequarry.schemas.settings.load import ServingSettings
from codequarry.serving.engine.engine import Engine
from codequarry.serving.server.mcp import build_server
from tests.serving.bundles.corpus import INDEX_OPEN
from tests.serving.server.test_mcp import ERAS, call, failed


@pytest.fixture(scope="module")
def server(lexical_engine: Engine) -> FastMCP:
    return build_server(lexical_engine, version="1.2.3")


@pytest.mark.parametrize("era", ERAS)
def test_a_match_leads_to_its_code(server: FastMCP, era: str) -> None:
    arguments = {"pattern": "def open(path)", "context_lines": 1, "filters": {"lang": ["python"]}}
    answer = call(server, era, "search_code", arguments).structured_content
    assert (answer["total"], answer["total_is_exact"], answer["files"], answer["limits"]) == (1, True, 1, [])
    assert answer["bundle"]["commits"]["quarry"] == "a" * 40
    (match,) = answer["results"]
    assert match == {
        "uri": "quarry/io/index.py",
        "start_line": 0,
        "start_column": 0,
        "end_line": 0,
        "end_column": 14,
        "preview": "def open(path):",
        "highlight": [0, 14],
        "before": [],
        "after": ["    '''Memory-map an index file.'''"],
        "chunk_id": str(INDEX_OPEN.id),
        "lang": "python",
        "qualified_name": "Index.open",
        "kind": "method",
        "title": "quarry/io/index.py: line 1",
        "url": "repo://quarry/io/index.py#L1",
    }
    read = call(server, era, "fetch", {"id": match["chunk_id"]}).structured_content
    assert read["text"] == INDEX_OPEN.text


@pytest.mark.parametrize("era", ERAS)
def test_every_mode_answers_and_context_is_there_only_when_asked_for(server: FastMCP, era: str) -> None:
    for mode, pattern in [("exact", "ope"), ("word", "open"), ("phrase", "memory map"), ("regex", r"def \w+")]:
        answer = call(server, era, "search_code", {"pattern": pattern, "mode": mode}).structured_content
        assert answer["results"]
        assert not {"before", "after"} & set(answer["results"][0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "pattern: is required"),
        ({"pattern": 7}, "pattern: must be a string"),
        ({"pattern": ""}, "pattern: is empty"),
        ({"pattern": "x" * 10_000}, "pattern: 10000 characters"),
        ({"pattern": "a\0"}, "pattern: holds NUL"),
        ({"pattern": "x", "mode": "fuzzy"}, "mode: must be one of"),
        ({"pattern": "x", "context_lines": "1"}, "context_lines: must be an integer"),
        ({"pattern": "x", "filter": {}}, "arguments: holds a name that is not an argument"),
        ({"pattern": "SECRET(", "mode": "regex"}, "pattern: a group is not closed"),
        ({"pattern": "(?<=SECRET)x", "mode": "regex"}, "pattern: look-around"),
        ({"pattern": "SECRET{2000}", "mode": "regex"}, "pattern: a repetition count is over 1000"),
    ],
)
def test_errors_say_what_is_wrong_and_echo_nothing(server: FastMCP, arguments: dict[str, Any], message: str) -> None:
    error = failed(call(server, ERAS[0], "search_code", arguments), "INVALID_ARGUMENT")
    assert error["message"].startswith(message)
    assert "SECRET" not in str(error)


def test_a_deadline_is_an_error_when_nothing_was_read(lexical_engine: Engine) -> None:
    hurried = Engine(lexical_engine.bundle, ServingSettings(search_timeout_s=1e-9))
    error = failed(call(build_server(hurried, version="0"), ERAS[0], "search_code", {"pattern": "e"}), "DEADLINE")
    assert error["retryable"]

"""The max_tokens budget of search answers, through the MCP door."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from fastmcp import FastMCP

from codequarry.serving.server.mcp import build_server
from tests.serving.server.test_mcp import ERAS, call

CASES = [
    ("search", {"query": "open file step index"}, "results"),
    ("semantic_search_pro", {"query": "open file step index"}, "findings"),
    ("search_code", {"pattern": "step_", "context_lines": 5}, "results"),
]


@pytest.fixture(scope="module")
def server(lexical_engine) -> FastMCP:
    return build_server(lexical_engine, version="0")


def ask(server: FastMCP, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return call(server, ERAS[0], tool, arguments).structured_content


def size(rows: list[Any]) -> int:
    return sum(len(json.dumps(row, ensure_ascii=False, separators=(",", ":"))) + 1 for row in rows)


@pytest.mark.parametrize(("tool", "arguments", "key"), CASES, ids=[case[0] for case in CASES])
def test_a_budget_is_kept_and_what_was_cut_is_said(server, tool, arguments, key) -> None:
    whole = ask(server, tool, arguments)
    for tokens in (256, 400, 800):
        answer = ask(server, tool, {**arguments, "max_tokens": tokens})
        rows, said = answer[key], " ".join(answer["limits"])
        assert rows
        assert size(rows) <= 4 * tokens
        assert ("results left out" in said) == (len(rows) < len(whole[key]))
        places = [(row.get("id") or row.get("chunk_id"), row.get("start_line")) for row in whole[key]]
        assert [(row.get("id") or row.get("chunk_id"), row.get("start_line")) for row in rows] == places[: len(rows)]


@pytest.mark.parametrize(("tool", "arguments", "key"), CASES, ids=[case[0] for case in CASES])
def test_without_a_budget_nothing_is_cut(server, tool, arguments, key) -> None:
    whole = ask(server, tool, arguments)
    assert not any("to stay within" in limit for limit in whole["limits"])
    assert ask(server, tool, {**arguments, "max_tokens": 16_000})[key] == whole[key]


def test_how_scores_were_made_goes_before_any_result_does(server) -> None:
    asked = {"query": "open file step index", "explain": True}
    whole = ask(server, "search", asked)["results"]
    assert all("scoring" in one["metadata"]["explain"] for one in whole)
    answer = ask(server, "search", {**asked, "max_tokens": size(whole) // 4 - 1})
    assert [one["id"] for one in answer["results"]] == [one["id"] for one in whole]
    assert [one["snippet"] for one in answer["results"]] == [one["snippet"] for one in whole]
    for one, full in zip(answer["results"], whole, strict=True):
        told = full["metadata"]["explain"]
        assert one["metadata"]["explain"] == {
            name: told[name] for name in ("hit_reason", "channels", "scip", "ast", "cst")
        }
    assert [limit for limit in answer["limits"] if "to stay within" in limit] == [
        f"explanations cut to reasons and ranks to stay within {size(whole) // 4 - 1} tokens"
    ]


def test_a_snippet_shrinks_before_its_result_goes(server) -> None:
    whole = ask(server, "search", {"query": "open file step index"})["results"]
    seen = False
    for tokens in range(256, 1200, 40):
        answer = ask(server, "search", {"query": "open file step index", "max_tokens": tokens})
        cut = [one for one, full in zip(answer["results"], whole, strict=False) if one["snippet"] != full["snippet"]]
        assert all(
            full["snippet"].startswith(one["snippet"]) for one, full in zip(answer["results"], whole, strict=False)
        )
        assert any(re.search(r"snippets? shortened", limit) for limit in answer["limits"]) == bool(cut)
        seen |= bool(cut)
    assert seen


def test_a_budget_out_of_range_is_clamped_and_that_is_said(server) -> None:
    small = ask(server, "search", {"query": "open", "max_tokens": 1})
    large = ask(server, "search", {"query": "open", "max_tokens": 10**9})
    assert any("max_tokens clamped to 256" in limit for limit in small["limits"])
    assert any("max_tokens clamped to 16000" in limit for limit in large["limits"])

"""semantic_search_pro through the MCP door."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fastmcp import FastMCP

from codequarry.serving.server.mcp import build_server
from tests.serving.bundles.corpus import INDEX_OPEN
from tests.serving.server.test_mcp import ERAS, call, failed


@pytest.fixture(scope="module")
def server(engine) -> FastMCP:
    return build_server(engine, version="0")


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    return request.param


def ask(server: FastMCP, era: str, **arguments: Any) -> dict[str, Any]:
    found = call(server, era, "semantic_search_pro", {"query": "Index.open", **arguments})
    assert not found.is_error, found.structured_content
    return found.structured_content


def test_the_envelope_names_places_reasons_method_and_scope(server, era) -> None:
    answer = ask(server, era, filters={"lang": ["python"]})
    first = answer["findings"][0]
    assert (first["chunk_id"], first["uri"], first["start_line"]) == (str(INDEX_OPEN.id), "quarry/io/index.py", 119)
    assert "bm25 rank 1" in first["why"]
    assert "filter:lang=python" in first["why"]
    assert answer["answer"].startswith(f"{len(answer['findings'])} findings, best first: quarry/io/index.py: lines 120")
    assert 0 < answer["confidence"] <= 1
    method = answer["method"]["retrieval"]
    assert method["channels"] == ["bm25", "faiss"]
    assert (method["requested_limit"], method["effective_limit"]) == (20, 20)
    assert method["duration_s"] >= 0
    assert answer["scope"]["languages"] == ["python"]
    assert set(answer["scope"]["commits"]) == {"quarry", "gateway"}


def test_what_the_index_lacks_is_said(server, era) -> None:
    limits = " ".join(ask(server, era, use_reranker=True, stage_weights={"splade": 1})["limits"])
    assert "no CodeRankEmbed vectors; dense search uses" in limits
    assert "no WARP vectors" in limits
    assert "no language model is configured" in limits
    assert "no stage splade" in limits
    assert ask(server, era, use_coderank=False, use_warp=False)["limits"] == []


def test_stages_can_be_weighed_and_left_out(server, era) -> None:
    assert ask(server, era, use_coderank=False)["method"]["retrieval"]["channels"] == ["bm25"]
    assert ask(server, era, stage_weights={"bm25": 0})["method"]["retrieval"]["channels"] == ["faiss"]
    plain, weighed = (
        [float(one) for one in re.findall(r"weight ([0-9.]+)\)", ask(server, era, **given)["findings"][0]["why"])]
        for given in ({}, {"stage_weights": {"bm25": 7, "faiss": 2.5}})
    )
    assert weighed == pytest.approx([plain[0] * 7, plain[1] * 2.5], rel=0.01)


def test_parameters_that_the_index_does_not_have_are_said(server, era) -> None:
    limits = ask(server, era, nprobe=8, ef_search=64)["limits"]
    assert [limit for limit in limits if "has no" in limit] == [
        "faiss_flat has no nprobe; it was left out",
        "faiss_flat has no ef_search; it was left out",
    ]
    assert not call(server, era, "semantic_search_pro", {"query": "x", "nprobe": -1}).is_error


def test_without_any_stage_nothing_is_found_and_the_answer_says_why(server, era) -> None:
    answer = ask(server, era, stage_weights={"bm25": 0, "faiss": 0, "symbol": 0})
    assert (answer["findings"], answer["confidence"]) == ([], 0)
    assert any("no channel can answer" in limit for limit in answer["limits"])
    assert "describe_index" in answer["answer"]


def test_without_explain_ranks_are_left_out(server, era) -> None:
    assert "rank" not in ask(server, era, explain=False)["findings"][0]["why"]


def test_the_limit_is_clamped_and_that_is_said(server, era) -> None:
    answer = ask(server, era, limit=999)
    assert "limit clamped to 50" in answer["limits"][0]
    assert answer["method"]["retrieval"]["requested_limit"] == 999
    assert answer["method"]["retrieval"]["effective_limit"] == 50
    assert len(ask(server, era, limit=2)["findings"]) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"stage_weights": {"canary": 1}}, "stage_weights: must be one of"),
        ({"stage_weights": {"bm25": -1}}, "stage_weights.bm25: must be at least 0"),
        ({"stage_weights": {"bm25": 101}}, "must be at most 100"),
        ({"stage_weights": {"bm25": "canary"}}, "must be a number"),
        ({"stage_weights": [1]}, "stage_weights: must be an object"),
        ({"use_warp": "yes"}, "use_warp: must be true or false"),
    ],
)
def test_weights_that_are_none_are_refused_without_echo(server, era, arguments, message) -> None:
    error = failed(call(server, era, "semantic_search_pro", {"query": "x", **arguments}), "INVALID_ARGUMENT")
    assert message.replace("stage_weights.bm25", "stage_weights") in error["message"].replace(
        "stage_weights.bm25", "stage_weights"
    )
    assert "canary" not in str(error)

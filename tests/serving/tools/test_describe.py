"""describe_index through the MCP door."""

from __future__ import annotations

from typing import Any

import pytest

from codequarry.serving.server.mcp import build_server
from tests.serving.bundles.corpus import PIECES
from tests.serving.server.test_mcp import ERAS, call, failed


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    return request.param


def described(engine, era: str, **arguments: Any) -> dict[str, Any]:
    return call(build_server(engine, version="0"), era, "describe_index", arguments).structured_content


def test_repositories_languages_and_counts_are_told(lexical_engine, era) -> None:
    answer = described(lexical_engine, era)
    assert [one["name"] for one in answer["repositories"]] == ["gateway", "quarry"]
    gateway, quarry = answer["repositories"]
    assert gateway["commit"] == "b" * 40 + "+dirty"
    assert gateway["languages"] == {"go": {"files": 1, "chunks": 1}}
    assert quarry["languages"]["python"] == {"files": 4, "chunks": 4}
    assert answer["chunks"] == len(PIECES) == sum(one["chunks"] for one in answer["languages"].values())
    assert answer["repositories_total"] == 2
    assert answer["age_s"] > 0
    assert answer["bundle"]["commits"]["quarry"] == "a" * 40


def test_a_channel_that_is_off_is_told_with_its_reason(lexical_engine, era) -> None:
    channels = described(lexical_engine, era)["channels"]
    assert channels["bm25"] == {"open": True, "source": "bm25", "reason": ""}
    assert channels["faiss"]["open"] is False
    assert channels["faiss"]["reason"]


def test_one_repository_can_be_asked_for(lexical_engine, era) -> None:
    answer = described(lexical_engine, era, repos=["gateway"])
    assert [one["name"] for one in answer["repositories"]] == ["gateway"]
    assert answer["repositories_total"] == 2


def test_an_unknown_repository_is_refused(lexical_engine, era) -> None:
    server = build_server(lexical_engine, version="0")
    error = failed(call(server, era, "describe_index", {"repos": ["canary"]}), "INVALID_ARGUMENT")
    assert "canary" not in str(error)
    assert "'quarry'" in error["suggestion"]

from __future__ import annotations

import pytest

from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.wire.search import FetchRequest, SearchRequest
from codequarry.serving.text.arguments import parse

CHANNELS = "'hybrid', 'faiss', 'faiss2', 'warp', 'bm25', 'splade' or 'symbol'"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "query: is required"),
        ({"query": 5}, "query: must be a string"),
        ({"query": None}, "query: must be a string"),
        ({"query": "x", "top_k": "5"}, "top_k: must be an integer"),
        ({"query": "x", "top_k": True}, "top_k: must be an integer"),
        ({"query": "x", "top_k": 1.5}, "top_k: must be an integer"),
        ({"query": "x", "rerank": "yes"}, "rerank: must be true or false"),
        ({"query": "x", "channel": "secret"}, f"channel: must be one of {CHANNELS}"),
        ({"query": "x", "filters": []}, "filters: must be an object"),
        ({"query": "x", "filters": {"lang": 3}}, "filters.lang: must be a list"),
        ({"query": "x", "filters": {"lang": [1]}}, "filters.lang[0]: must be a string"),
        ({"query": "x", "filters": {"include": ["a"] * 33}}, "filters.include: must hold at most 32 entries"),
        ({"query": "x", "secret": 1}, "arguments: holds a name that is not an argument"),
        ({"query": "x", "filters": {"secret": 1}}, "filters: holds a name that is not an argument"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named_without_an_echo(arguments, message) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        parse(SearchRequest, arguments)
    assert caught.value.message == message
    assert "secret" not in caught.value.message + caught.value.suggestion
    assert "pydantic" not in caught.value.message + caught.value.suggestion


@pytest.mark.parametrize(
    ("arguments", "suggestion"),
    [
        ({"qeury": "x"}, "did you mean 'query'?"),
        ({"query": "x", "filters": {"language": ["go"]}}, "did you mean 'lang'?"),
        ({"query": "x", "zzz": 1}, "known are query, top_k, explain, rerank, channel, filters"),
        ({}, "the arguments are query"),
    ],
)
def test_the_nearest_name_is_suggested(arguments, suggestion) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        parse(SearchRequest, arguments)
    assert suggestion in caught.value.suggestion


def test_whole_numbers_may_be_written_with_a_point() -> None:
    assert parse(SearchRequest, {"query": "x", "top_k": 5.0}).top_k == 5


def test_numbers_out_of_range_reach_the_engine() -> None:
    assert parse(SearchRequest, {"query": "x", "top_k": -7}).top_k == -7
    assert parse(FetchRequest, {"id": "1", "max_tokens": 10**9}).max_tokens == 10**9


def test_more_ids_than_allowed() -> None:
    with pytest.raises(InvalidArgumentError, match="objectIds: must hold at most 50 entries"):
        parse(FetchRequest, {"objectIds": ["1"] * 51})

"""What clients send: other words for languages and kinds, one string for a list, arguments nobody knows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastmcp import FastMCP

from codequarry.schemas.errors import BusyError
from codequarry.schemas.kinds import KINDS
from codequarry.serving.engine.engine import Engine
from codequarry.serving.http.app import Service
from codequarry.serving.server.mcp import build_server, listed_tools
from tests.serving.bundles.corpus import GO_SERVER, INDEX_OPEN, SESSION
from tests.serving.live import request, running
from tests.serving.server.test_mcp import ERAS, call, failed

ERA = ERAS[0]


@pytest.fixture(scope="module")
def server(lexical_engine) -> FastMCP:
    return build_server(lexical_engine, version="1")


@pytest.fixture(scope="module")
def symbols(symbol_engine) -> FastMCP:
    return build_server(symbol_engine, version="1")


def answered(server: FastMCP, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    result = call(server, ERA, tool, arguments)
    assert not result.is_error, result.structured_content
    return result.structured_content


def ids(answer: dict[str, Any]) -> set[str]:
    return {result["id"] for result in answer["results"]}


@pytest.mark.parametrize("lang", [["go"], ["golang"], [".go"], ["Go"], "go", "golang"])
@pytest.mark.parametrize("tool", ["search", "search_code", "semantic_search_pro"])
def test_a_language_by_any_name_and_without_a_list(server, tool: str, lang: Any) -> None:
    arguments = {"pattern" if tool == "search_code" else "query": "address", "filters": {"lang": lang}}
    answer = answered(server, tool, arguments)
    found = [each.get("uri") or each["metadata"]["uri"] for each in answer.get("results") or answer["findings"]]
    assert found == ["gateway/server/main.go"]


def test_an_unknown_language_names_its_nearest(server) -> None:
    error = failed(call(server, ERA, "search", {"query": "open", "filters": {"lang": ["pyhton"]}}), "INVALID_ARGUMENT")
    assert "'python'" in error["suggestion"]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("search", {"query": "open", "filters": {"include": "io/**", "exclude": "tests", "repos": "quarry"}}),
        ("search", {"query": "open", "filters": {"symbols": "Index.open", "kinds": "method"}}),
        ("fetch", {"objectIds": str(INDEX_OPEN.id)}),
        ("set_scope", {"languages": "py", "include": "io/**"}),
    ],
)
def test_a_string_stands_for_a_list_of_one(server, tool: str, arguments: dict[str, Any]) -> None:
    def listed(value: Any) -> Any:
        return {key: listed(one) for key, one in value.items()} if isinstance(value, dict) else [value]

    lists = {key: value if key == "query" else listed(value) for key, value in arguments.items()}
    assert answered(server, tool, arguments) == answered(server, tool, lists)


@pytest.mark.parametrize("kinds", [["method"], ["Method"], "constructor", ["method", "class"]])
def test_kinds_narrow_search_and_search_code(server, kinds: Any) -> None:
    assert ids(answered(server, "search", {"query": "open sessions", "filters": {"kinds": kinds}})) == {
        str(SESSION.id), str(INDEX_OPEN.id),
    }  # fmt: skip
    found = answered(server, "search_code", {"pattern": "def ", "filters": {"kinds": kinds}})["results"]
    assert {each["chunk_id"] for each in found} == {str(SESSION.id), str(INDEX_OPEN.id)}


def test_kinds_see_definitions_inside_of_a_chunk(symbols) -> None:
    every = answered(symbols, "search", {"query": "index", "top_k": 50, "explain": True})["results"]
    asked = {"query": "index", "top_k": 50, "explain": True, "filters": {"kinds": ["class"]}}
    classes = answered(symbols, "search", asked)["results"]
    defining = {one["id"] for one in every if one["metadata"]["explain"].get("kinds", {}).get("class")}
    assert defining and defining <= {one["id"] for one in classes} < {one["id"] for one in every}
    assert all("filter:kinds" in one["metadata"]["explain"]["hit_reason"] for one in classes)


def test_the_kinds_are_an_enumeration_in_the_schema() -> None:
    schemas = {tool["name"]: tool["inputSchema"]["properties"] for tool in listed_tools("full")}
    for tool in ("search", "search_code", "semantic_search_pro"):
        assert schemas[tool]["filters"]["properties"]["kinds"]["items"]["enum"] == list(KINDS)
    assert schemas["go_to_definition"]["kind"]["enum"] == [*KINDS, "any", ""]


def test_an_unknown_kind_names_its_nearest(server) -> None:
    error = failed(
        call(server, ERA, "search", {"query": "open", "filters": {"kinds": ["functon"]}}), "INVALID_ARGUMENT"
    )
    assert "'function'" in error["suggestion"]


def test_any_kind_and_no_kind_are_all_kinds(symbols) -> None:
    asked = {"symbol": "Index"}
    every = answered(symbols, "go_to_definition", asked)
    assert every["total"]
    assert answered(symbols, "go_to_definition", {**asked, "kind": "any"}) == every
    assert answered(symbols, "go_to_definition", {**asked, "kind": ""}) == every
    assert answered(symbols, "go_to_definition", {**asked, "kind": "class"})["total"]
    assert not answered(symbols, "go_to_definition", {**asked, "kind": "macro"})["total"]


def test_a_symbol_may_have_its_prefix_and_an_unknown_one_is_said(server) -> None:
    plain = answered(server, "search", {"query": "open", "filters": {"symbols": ["Index.open"]}})
    prefixed = answered(server, "search", {"query": "open", "filters": {"symbols": ["symbol:Index.open"]}})
    assert prefixed == plain and ids(plain) == {str(INDEX_OPEN.id)}
    partly = answered(server, "search", {"query": "open", "filters": {"symbols": ["Index.open", "Nowhere"]}})
    assert ids(partly) == ids(plain)
    assert [note for note in partly["limits"] if "Nowhere" in note and "Index.open" not in note]
    nothing = answered(server, "search_code", {"pattern": "def", "filters": {"symbols": ["Nowhere"]}})
    assert nothing["total"] == 0 and any("Nowhere" in note for note in nothing["limits"])


def test_search_code_takes_a_query_for_its_pattern(server) -> None:
    assert answered(server, "search_code", {"query": "mmap"}) == answered(server, "search_code", {"pattern": "mmap"})
    failed(call(server, ERA, "search_code", {"query": "mmap", "pattern": "open"}), "INVALID_ARGUMENT")
    failed(call(server, ERA, "search_code", {}), "INVALID_ARGUMENT")


@pytest.mark.parametrize("tool", ["search", "search_code", "semantic_search_pro", "describe_index"])
def test_arguments_that_nobody_knows_are_ignored_and_named(server, tool: str) -> None:
    asked = {} if tool == "describe_index" else {"query": "open"}
    answer = answered(server, tool, {**asked, "verbose": True, "session\x1b": "x"})
    assert answer["limits"][0] == "unknown arguments ignored: 'verbose', 1 more"
    left = {**answer, "limits": answer["limits"][1:]}
    expected = answered(server, tool, asked)
    assert left.keys() == expected.keys()
    assert left.get("results") == expected.get("results")


@pytest.mark.parametrize(
    ("tool", "argument", "meant"),
    [
        ("search", "filter", "filters"),
        ("search", "lang", "filters.lang"),
        ("search", "language", "filters.lang"),
        ("search", "path", "filters.include"),
        ("search", "repository", "filters.repos"),
        ("search_code", "excludes", "filters.exclude"),
        ("go_to_definition", "scopeid", "scope_id"),
        ("set_scope", "lang", "languages"),
    ],
)
def test_an_argument_that_may_be_a_filter_is_refused(server, tool: str, argument: str, meant: str) -> None:
    asked = {"search": {"query": "open"}, "search_code": {"pattern": "open"}, "go_to_definition": {"symbol": "open"}}
    error = failed(call(server, ERA, tool, {**asked.get(tool, {}), argument: ["x"]}), "INVALID_ARGUMENT")
    assert f"'{meant}'" in error["suggestion"]


def test_a_misspelt_filter_is_refused(server) -> None:
    error = failed(call(server, ERA, "search", {"query": "open", "filters": {"langs": ["go"]}}), "INVALID_ARGUMENT")
    assert "'lang'" in error["suggestion"]


def test_stages_go_by_their_other_names(server) -> None:
    weights = {"bm25": 1.25, "symbol": 0}
    asked = {"query": "open", "stage_weights": {**weights, "faiss": 0}}
    expected = answered(server, "semantic_search_pro", asked)
    for name in ("coderank", "biencoder"):
        renamed = answered(server, "semantic_search_pro", {**asked, "stage_weights": {**weights, name: 0}})
        assert renamed["findings"] == expected["findings"]
    retrieval = expected["method"]["retrieval"]
    assert retrieval["count"] == len(expected["findings"]) > 0


def test_an_unknown_id_has_empty_content(server) -> None:
    (missing,) = answered(server, "fetch", {"objectIds": ["1"]})["objects"]
    assert missing["content"] == "" and missing["error"]["code"] == "NOT_FOUND"


def test_plain_json_doors_give_what_the_protocol_gives(lexical_engine) -> None:
    engine = Engine(lexical_engine.bundle, lexical_engine.settings)

    def post(name: str, body: str, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        sent = {"Content-Type": "application/json", **(headers or {})}
        status, raw = request(port, "POST", f"/mcp/tools/{name}", body, sent)[:2]
        return status, raw

    with running(Service(engine, "1")) as port:
        status, raw = post("list", "")
        assert (status, json.loads(raw)["tools"]) == (200, listed_tools())
        server = build_server(engine, version="1")
        for tool, arguments in (("search", {"query": "address in use"}), ("fetch", {"id": str(GO_SERVER.id)})):
            status, raw = post(tool, json.dumps(arguments))
            assert (status, json.loads(raw)) == (200, answered(server, tool, arguments))
        for name, body, expected in (
            ("nothing", "{}", (404, "NOT_FOUND")),
            ("search", "[]", (400, "INVALID_ARGUMENT")),
            ("search", "{", (400, "INVALID_ARGUMENT")),
            ("search", '{"query": 1}', (400, "INVALID_ARGUMENT")),
            ("fetch", '{"id": "12"}', (404, "NOT_FOUND")),
        ):
            status, raw = post(name, body)
            assert (status, json.loads(raw)["error"]["code"]) == expected
        assert post("list", "", {"Host": "elsewhere.example"})[0] == 421
        assert post("list", "", {"Origin": "http://elsewhere.example"})[0] == 403


def test_a_plain_call_of_a_busy_server_may_be_tried_again(lexical_engine, monkeypatch) -> None:
    engine = Engine(lexical_engine.bundle, lexical_engine.settings)

    async def refuse(client: str) -> None:
        raise BusyError("every worker is taken")

    monkeypatch.setattr(engine.gate, "enter", refuse)
    with running(Service(engine, "1")) as port:
        status, raw = request(port, "POST", "/mcp/tools/search", '{"query": "x"}', {})[:2]
        assert (status, json.loads(raw)["error"]["retryable"]) == (429, True)
        assert request(port, "POST", "/mcp/tools/list", "", {})[0] == 200

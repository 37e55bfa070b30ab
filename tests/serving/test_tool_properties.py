"""Property tests from the tools' own schemas: what is valid gets an answer in shape, garbage a refusal in shape."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import jsonschema
import pytest
from fastmcp import FastMCP
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codequarry.serving.server.mcp import PROFILES, build_server, listed_tools
from tests.serving.server.test_mcp import RENDERED

LISTED = {(profile, tool["name"]): tool for profile in PROFILES for tool in listed_tools(profile)}
CODES = {"INVALID_ARGUMENT", "NOT_FOUND", "BUSY", "DEADLINE", "UNAVAILABLE"}
TEXTS = st.sampled_from(["open", "", "*.py", "python", "quarry", "Index.open", "../x", "'; DROP TABLE x --", "日本語"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
CALM = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


def valid(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that a schema of ours accepts."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kind = schema["type"]
    if kind == "string":
        return TEXTS | st.text(max_size=40)
    if kind == "boolean":
        return st.booleans()
    if kind == "integer":
        return st.integers(-(10**6), 10**6)
    if kind == "number":
        return st.floats(schema.get("minimum"), schema.get("maximum"), allow_nan=False, allow_infinity=False)
    if kind == "array":
        return st.lists(valid(schema["items"]), max_size=min(schema.get("maxItems", 5), 5))
    if "properties" not in schema:
        return st.dictionaries(
            valid({"type": "string", **schema["propertyNames"]}), valid(schema["additionalProperties"])
        )
    required = schema.get("required", [])
    named = {name: valid(inner) for name, inner in schema["properties"].items()}
    return st.fixed_dictionaries(
        {name: named[name] for name in required}, optional={name: named[name] for name in named if name not in required}
    )


@pytest.fixture(scope="module")
def servers(symbol_engine) -> dict[str, FastMCP]:
    return {profile: build_server(symbol_engine, version="0", profile=profile) for profile in PROFILES}


def answered(server: FastMCP, tool: dict[str, Any], arguments: dict[str, Any]) -> bool:
    """Call a tool and check the shape of what comes; whether it succeeded."""
    result = asyncio.run(server.call_tool(tool["name"], arguments))
    (content,) = result.content
    if result.is_error or tool["name"] not in RENDERED:
        assert json.loads(content.text) == result.structured_content
    assert "Traceback" not in content.text
    content.text.encode()
    if not result.is_error:
        schema = tool.get("outputSchema") or LISTED["full", tool["name"]]["outputSchema"]
        jsonschema.validate(result.structured_content, schema, cls=jsonschema.Draft202012Validator)
        return True
    assert set(result.structured_content) == {"error"}
    assert result.structured_content["error"]["code"] in CODES
    return False


@pytest.mark.parametrize("key", LISTED, ids="/".join)
def test_valid_arguments_get_an_answer_of_the_advertised_shape(servers, key) -> None:
    tool = LISTED[key]

    @CALM
    @given(valid(tool["inputSchema"]))
    def check(arguments: dict[str, Any]) -> None:
        jsonschema.validate(arguments, tool["inputSchema"])
        answered(servers[key[0]], tool, arguments)

    check()


@pytest.mark.parametrize("key", LISTED, ids="/".join)
def test_garbage_is_refused_and_never_breaks_anything(servers, key) -> None:
    tool = LISTED[key]
    names = st.sampled_from([*tool["inputSchema"].get("properties", {}), "canary"]) | st.text(max_size=12)

    @CALM
    @given(st.dictionaries(names, JSON, max_size=5))
    def check(arguments: dict[str, Any]) -> None:
        try:
            jsonschema.validate(as_understood(arguments, tool["inputSchema"]), tool["inputSchema"])
        except jsonschema.ValidationError:
            assert not answered(servers[key[0]], tool, arguments)
        else:
            answered(servers[key[0]], tool, arguments)

    check()


def as_understood(arguments: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """The arguments without those that nobody knows, and with lists where a string stands for a list of one."""
    properties = schema.get("properties", {})
    understood: dict[str, Any] = {}
    for name, value in arguments.items():
        kind = properties.get(name, {}).get("type")
        if kind == "array" and isinstance(value, str):
            understood[name] = [value]
        elif kind == "object" and isinstance(value, dict):
            understood[name] = {**value, **as_understood(value, properties[name])}
        elif name in properties:
            understood[name] = value
    return understood


@pytest.mark.parametrize("text", ["\0", "\ud800", "\udfff x", "a\u202eb", "\U000e0041", "e\u0301", "é", "x" * 5_000])
@pytest.mark.parametrize("key", LISTED, ids="/".join)
def test_every_text_argument_takes_any_unicode_or_refuses_it(servers, key, text: str) -> None:
    tool = LISTED[key]
    properties = tool["inputSchema"].get("properties", {})
    for name, schema in properties.items():
        value: Any = text if schema["type"] == "string" else [text] if schema["type"] == "array" else None
        if value is not None:
            others = dict.fromkeys(tool["inputSchema"].get("required", []), "x")
            answered(servers[key[0]], tool, {**others, name: value})

"""set_scope, get_scope and what a scope_id does to the other tools, through the MCP door."""

from __future__ import annotations

import base64
import string
from typing import Any

import pytest
from fastmcp import FastMCP
from hypothesis import given
from hypothesis import strategies as st

from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.wire.scope import MAX_SCOPE_BYTES, Scope, SetScopeRequest, parse_scope_id
from codequarry.serving.server.mcp import build_server
from tests.serving.server.test_mcp import ERAS, call, failed

names = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), max_size=4)


@pytest.fixture(scope="module")
def server(lexical_engine) -> FastMCP:
    return build_server(lexical_engine, version="0")


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    return request.param


def made(server: FastMCP, **scope: list[str]) -> str:
    return call(server, ERAS[0], "set_scope", scope).structured_content["scope_id"]


def uris(server: FastMCP, era: str, tool: str, **arguments: Any) -> set[str]:
    found = call(server, era, tool, arguments)
    assert not found.is_error, found.structured_content
    key = "findings" if tool == "semantic_search_pro" else "results"
    rows = found.structured_content[key]
    return {row["metadata"]["uri"] if tool == "search" else row["uri"] for row in rows}


def test_a_scope_comes_back_as_it_was_set(server, era) -> None:
    given_ = {"languages": ["python", "go", "python"], "include": ["io/**"], "exclude": ["tests"], "repos": ["quarry"]}
    answer = call(server, era, "set_scope", given_).structured_content
    assert answer["scope"] == {**given_, "languages": ["go", "python"]}
    assert (answer["files"], answer["chunks"], answer["limits"]) == (2, 2, [])
    again = call(server, era, "get_scope", {"scope_id": answer["scope_id"]}).structured_content
    assert again == answer
    assert set(answer["scope_id"]) <= set(string.ascii_letters + string.digits + "_-")


def test_equal_scopes_have_equal_ids(server) -> None:
    one = made(server, languages=["go", "python"], include=[])
    assert one == made(server, languages=["python", "go"])
    assert one != made(server, languages=["python"])


def test_an_empty_or_a_whole_scope_says_so(server) -> None:
    nothing = call(server, ERAS[0], "set_scope", {"include": ["nowhere/**"]}).structured_content
    assert nothing["chunks"] == 0
    assert "holds nothing" in nothing["limits"][0]
    assert "holds everything" in call(server, ERAS[0], "set_scope", {}).structured_content["limits"][0]


@pytest.mark.parametrize("tool", ["search", "semantic_search_pro"])
def test_searches_stay_in_their_scope(server, era, tool) -> None:
    everywhere = uris(server, era, tool, query="open")
    assert {"quarry/io/index.py", "quarry/tests/test_index.py"} <= everywhere
    scope_id = made(server, exclude=["tests"], languages=["python"])
    assert uris(server, era, tool, query="open", scope_id=scope_id) == {
        uri for uri in everywhere if uri.endswith(".py") and "/tests/" not in uri
    }


def test_text_search_stays_in_its_scope(server, era) -> None:
    scope_id = made(server, include=["io/**"])
    assert uris(server, era, "search_code", pattern="open", scope_id=scope_id) == {"quarry/io/index.py"}


@pytest.mark.parametrize("tool", ["go_to_definition", "find_references"])
def test_symbol_look_ups_stay_in_their_scope(symbol_engine, era, tool) -> None:
    server = build_server(symbol_engine, version="0")
    everywhere = uris(server, era, tool, symbol="open", filters={"lang": ["python"]})
    one = sorted(everywhere)[0]
    scope_id = made(server, include=[one])
    assert len(everywhere) > 1
    assert uris(server, era, tool, symbol="open", scope_id=scope_id) <= {one}


def test_filters_and_scope_must_both_match(server, era) -> None:
    scope_id = made(server, repos=["quarry"], include=["io/**"])
    outside = {"include": ["tests/**"]}
    assert uris(server, era, "search", query="open", filters=outside, scope_id=scope_id) == set()
    inside = {"include": ["io/index.py", "tests/**"]}
    assert uris(server, era, "search", query="open", filters=inside, scope_id=scope_id) == {"quarry/io/index.py"}
    assert uris(server, era, "search", query="open", filters={"repos": ["gateway"]}, scope_id=scope_id) == set()


@pytest.mark.parametrize(
    ("scope", "message"),
    [
        ({"languages": ["klingon"]}, "scope: lang"),
        ({"repos": ["canary"]}, "scope: repos"),
        ({"include": ["../canary"]}, "glob"),
        ({"include": ["/etc/canary"]}, "glob"),
        ({"exclude": ["x"] * 33}, "exclude: must hold at most 32"),
        ({"include": [f"{number:0>250}/*" for number in range(32)]}, f"at most {MAX_SCOPE_BYTES}"),
        ({"langs": []}, "holds a name that is not an argument"),
    ],
)
def test_a_scope_that_cannot_be_is_refused(server, era, scope, message) -> None:
    error = failed(call(server, era, "set_scope", scope), "INVALID_ARGUMENT")
    assert message in error["message"]
    assert "canary" not in str(error)


@pytest.mark.parametrize(
    "raw", ["", "s1", "none", "s1" + "A" * 20_000, "../../etc/passwd", "s1é", "S1AAAA", "s1====", "\0"]
)
def test_what_is_no_scope_id_is_refused(server, era, raw) -> None:
    error = failed(call(server, era, "get_scope", {"scope_id": raw}), "INVALID_ARGUMENT")
    assert "set_scope" in error["suggestion"]
    if raw:
        failed(call(server, era, "search", {"query": "open", "scope_id": raw}), "INVALID_ARGUMENT")


def test_row_19_every_changed_character_is_refused() -> None:
    """Row 19 of SECURITY: each character by itself, also where base64 would decode to the same bytes."""
    scope_id = Scope.of(SetScopeRequest(languages=["go"], include=["src/**"])).id()
    for place, character in enumerate(scope_id):
        for other in string.ascii_letters + string.digits + "_-=+/.":
            if other != character:
                with pytest.raises(InvalidArgumentError):
                    parse_scope_id(scope_id[:place] + other + scope_id[place + 1 :])
    for changed in (scope_id + "A", scope_id[:-1], scope_id + "=", f" {scope_id}", scope_id + "\n"):
        with pytest.raises(InvalidArgumentError):
            parse_scope_id(changed)


def test_a_scope_with_its_digest_but_other_json_is_refused() -> None:
    """Anybody can compute the digest; there is still one spelling of each scope."""
    from codequarry.schemas.wire import scope as module

    for written in (b'{"languages": [], "include": [], "exclude": [], "repos": []}', b"{}", b"[]", b"null", b"{" * 500):
        forged = "s1" + base64.urlsafe_b64encode(module._digest(written) + written).rstrip(b"=").decode()
        with pytest.raises(InvalidArgumentError):
            parse_scope_id(forged)


@given(st.builds(SetScopeRequest, languages=names, include=names, exclude=names, repos=names))
def test_every_scope_survives_the_round_trip(request: SetScopeRequest) -> None:
    scope = Scope.of(request)
    assert parse_scope_id(scope.id()) == scope

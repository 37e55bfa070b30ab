"""Explorations of a small repository, through the MCP client and the function behind the tool."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from fastmcp import Client
from hypothesis import given, settings
from hypothesis import strategies as st

from codequarry.schemas.errors import DeadlineError, InvalidArgumentError
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.explore import ExploreAnswer, ExploreRequest
from codequarry.schemas.wire.search import FileFilters
from codequarry.serving.engine.engine import Engine
from codequarry.serving.render.explore import explore_text
from codequarry.serving.request.deadline import Deadline
from codequarry.serving.server.mcp import build_server
from codequarry.serving.tools.browse.explore import explore
from tests.serving.bundles.bundle_factory import write_bundle
from tests.serving.bundles.symbol_rows import Source, pieces_and_rows
from tests.serving.contexts import context_of

TASK = "remove expired sessions"
BODY = "".join(f"        self.log('step {number} of removing')\n" for number in range(9))
STORE = Source(
    "app/store.py",
    f"""LIMIT = 3


class SessionStore:
    def open(self):
        return self

    def remove_expired(self, policy: Policy):
        # Remove the expired sessions.
{BODY}
        for session in self.sessions:
            if is_stale(session):
                drop(session)


    def close(self):
        pass
""",
    cut="    def",
)
STORE.define("SessionStore", "class", body=STORE.text[STORE.text.index("class") :].rstrip())
STORE.define("SessionStore.open", "method", body="def open(self):\n        return self")
STORE.define(
    "SessionStore.remove_expired", "method",
    body=STORE.text[STORE.text.index("def remove_expired") : STORE.text.index("\n\n\n    def close")],
)  # fmt: skip
STORE.define("SessionStore.close", "method", body="def close(self):\n        pass")
STORE.refer("is_stale", "call")
STORE.refer("drop", "call")
STORE.refer("Policy", "type")
RULES = Source(
    "app/rules.py",
    "class Policy:\n    age = 1\n\n\ndef is_stale(one):\n    return one.age > 1\n\n\ndrop = print\n",
    cut="def",
)
RULES.define("Policy", "class", body="class Policy:\n    age = 1")
RULES.define("is_stale", "function", body="def is_stale(one):\n    return one.age > 1")
RULES.define("drop", "variable")
NIGHTLY = "def nightly(store):\n    store.remove_expired(None)\n    store.remove_expired(1)"
JOBS = Source("app/jobs.py", f"from app.store import remove_expired\n\n\n{NIGHTLY}\n")
JOBS.define("nightly", "function", body=NIGHTLY)
JOBS.refer("remove_expired", "import")
JOBS.refer("remove_expired", "call", nth=1)
JOBS.refer("remove_expired", "call", nth=2)
TEST = Source("tests/test_store.py", "def test_it(store):\n    assert store.remove_expired(None) is None\n")
TEST.define("test_it", "function", body=TEST.text.rstrip())
TEST.refer("remove_expired", "call")
OTHER = Source("main.go", "func Sweep() {\n\t// expired sessions go\n}\n", repo="gateway")
OTHER.define("Sweep", "function", body=OTHER.text.rstrip())


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("explore")
    pieces, rows = pieces_and_rows([STORE, RULES, JOBS, TEST, OTHER])
    write_bundle(root, pieces, rows=rows, commits={"quarry": "a" * 40, "gateway": ""})
    return root


@pytest.fixture(scope="module")
def sessions(root: Path):
    opened = Engine.open(root, ServingSettings())
    yield opened
    opened.close()


def ask(engine: Engine, query: str = TASK, **arguments) -> ExploreAnswer:
    return engine.answer("explore", explore, ExploreRequest(query=query, **arguments))


def only_store() -> FileFilters:
    return FileFilters(include=["app/store.py"])


def test_the_best_match_is_a_whole_definition_with_its_numbers(sessions) -> None:
    first = ask(sessions).places[0]
    assert (first.role, first.uri, first.by_name) == ("match", "quarry/app/store.py", False)
    assert (first.start_line, first.end_line) == (0, STORE.text.count("\n") - 1)  # the class fits, and its parts met
    assert first.code == STORE.text.rstrip("\n")


def test_roles_of_what_is_not_shown_as_a_match(sessions) -> None:
    """Where a place is no match, or has no room as one, its relation is told or counted."""
    answer = ask(sessions, "step log removing", max_tokens=270)
    told = {(one.role, one.uri) for one in answer.places}
    told |= {(one.role, place.partition(":")[0]) for one in answer.left_out for place in one.places}
    assert ("match", "quarry/app/store.py") in told
    assert ("type", "quarry/app/rules.py") in told
    assert told & {("match", "quarry/tests/test_store.py"), ("test", "quarry/tests/test_store.py")}


def test_a_relation_is_a_line_with_the_definition_that_it_relates_to(symbol_engine) -> None:
    text = explore_text(ask(symbol_engine, "def open path größe", max_tokens=256))
    assert re.search(r"^quarry/io/store\.py:11  caller of Index\.open: store\.open\('x'\)", text, re.MULTILINE)


def test_filters_and_scopes_hold_for_matches_and_for_what_relates_to_them(sessions) -> None:
    answer = ask(sessions, filters=only_store())
    assert {one.uri for one in answer.places} == {"quarry/app/store.py"}
    assert answer.left_out == []
    narrowed = ask(sessions, filters=FileFilters(repos=["gateway"]))
    assert {one.uri for one in narrowed.places} == {"gateway/main.go"}
    with pytest.raises(InvalidArgumentError):
        ask(sessions, filters=FileFilters(repos=["nowhere"]))
    with pytest.raises(InvalidArgumentError):
        ask(sessions, scope_id="s1nonsense")


@pytest.mark.parametrize("query", ["", "  ", "zzzz qqqq"])
def test_nothing_found_is_an_answer(sessions, query: str) -> None:
    answer = ask(sessions, query)
    assert (answer.places, answer.left_out) == ([], [])
    assert explore_text(answer).startswith("nothing found")


@pytest.mark.parametrize("query", ["x\0", "x" * 5_000])
def test_a_query_that_cannot_be_used(sessions, query: str) -> None:
    with pytest.raises(InvalidArgumentError):
        ask(sessions, query)


@settings(max_examples=60, deadline=None)
@given(
    max_tokens=st.integers(-5, 20_000),
    query=st.sampled_from([TASK, "open", "SessionStore", "policy is stale", "", "remove_expired in jobs and tests"]),
)
def test_a_text_is_never_longer_than_its_budget(sessions, max_tokens: int, query: str) -> None:
    answer = ask(sessions, query, max_tokens=max_tokens)
    assert len(explore_text(answer)) <= 4 * min(max(max_tokens, 256), 16_000)
    clamped = any("max_tokens clamped" in limit for limit in answer.limits)
    assert clamped == (not 256 <= max_tokens <= 16_000)


@pytest.mark.parametrize("max_tokens", [256, 300, 400, 800, 1_600])
def test_what_has_no_room_is_counted(sessions, max_tokens: int) -> None:
    """Whatever the budget, as many matches are shown or counted."""
    whole = ask(sessions, max_tokens=16_000)
    cut = ask(sessions, max_tokens=max_tokens)
    assert whole.left_out == []
    uris = {one.uri for one in whole.places if one.role == "match"}
    told = {one.uri for one in cut.places} | {p.rpartition(":")[0] for one in cut.left_out for p in one.places}
    assert uris <= told or any(one.count > len(one.places) for one in cut.left_out)


def test_no_line_is_shown_twice(sessions) -> None:
    for tokens in (256, 500, 1_000, 4_000):
        lines = [
            (one.uri, number)
            for one in ask(sessions, max_tokens=tokens).places
            if one.role == "match"
            for number in range(one.start_line, one.end_line + 1)
        ]
        assert len(lines) == len(set(lines))


def test_an_mcp_client_reads_it_in_one_call(sessions) -> None:
    async def converse() -> tuple[str, dict]:
        async with Client(build_server(sessions, version="0", profile="full")) as client:
            result = await client.call_tool("explore", {"query": TASK, "max_tokens": 400})
            assert result.data is not None
            return result.content[0].text, result.structured_content

    text, content = asyncio.run(converse())
    assert len(text) <= 1_600
    assert text.startswith("quarry/app/store.py:")
    assert re.search(r"^ *\d+ \|     def remove_expired", text, re.MULTILINE)
    assert set(content) == {"places", "left_out", "limits", "bundle"}
    references = [place for one in content["left_out"] for place in one["places"]]

    async def read() -> None:
        async with Client(build_server(sessions, version="0")) as client:
            for reference in references:
                assert not (await client.call_tool_mcp("fetch", {"id": reference})).is_error

    asyncio.run(read())


def test_no_time_is_left(sessions) -> None:
    with pytest.raises(DeadlineError):
        explore(context_of(sessions.bundle, Deadline.after(-1)), ExploreRequest(query=TASK))

from __future__ import annotations

import pytest

from codequarry.schemas.errors import DeadlineError, InvalidArgumentError
from codequarry.schemas.wire.search import FetchRequest, FileFilters
from codequarry.schemas.wire.symbols import ReferencesAnswer, ReferencesRequest
from codequarry.serving.request.deadline import Deadline
from codequarry.serving.tools.references import find_references
from tests.serving.bundles.symbol_corpus import APP, INDEX, OPEN, OUTSIDE, STORE
from tests.serving.contexts import context_of
from tests.serving.tools.test_definitions import HOSTILE, at

CALL_IN_STORE = "quarry/io/store.py:6:23"
CALL_OF_STORE = "quarry/io/store.py:10:10"
CALL_OF_ANYTHING = "quarry/io/store.py:10:27"
CALL_IN_TEST = "quarry/tests/test_index.py:4:12"


def ask(engine, **arguments) -> ReferencesAnswer:
    return engine.references(ReferencesRequest(**arguments))


def found(answer: ReferencesAnswer) -> list[str]:
    return [f"{one.uri}:{one.start_line}:{one.start_column}" for one in answer.results]


def test_precise_first_sources_before_tests(symbol_engine) -> None:
    answer = ask(symbol_engine, symbol="Index.open")
    assert found(answer) == [CALL_IN_STORE, CALL_OF_STORE, CALL_IN_TEST, CALL_OF_ANYTHING]
    assert [one.precise for one in answer.results] == ["precise"] * 3 + ["heuristic"]
    assert [one.evidence for one in answer.results] == ["exact"] * 3 + ["by name"]
    assert answer.totals.model_dump() == {"precise": 3, "resolved": 0, "heuristic": 1}
    assert [one.qualified_name for one in answer.definitions] == ["Index.open"]
    assert (answer.definitions_total, answer.limits) == (1, [])


def test_a_result_has_everything_of_the_use(symbol_engine) -> None:
    first = ask(symbol_engine, symbol="Index.open").results[0]
    assert first.model_dump(exclude_none=True) == {
        "title": "quarry/io/store.py: line 7", "url": "repo://quarry/io/store.py#L7", "uri": "quarry/io/store.py",
        "start_line": 6, "start_column": 23, "end_line": 6, "end_column": 27, "lang": "python",
        "chunk_id": str(STORE.pieces[0].id), "precise": "precise", "roles": ["call"],
        "preview": "return Index().open(os.path, path)", "enclosing": "Store.open", "refers_to": "Index.open",
        "evidence": "exact",
    }  # fmt: skip


def test_overriding_is_followed_up_and_down_but_not_sideways(symbol_engine) -> None:
    """A call of the base may reach the derived method, and one of the derived method is what a rename must change."""
    answer = ask(symbol_engine, symbol="Store.open", precision="precise")
    assert [one.refers_to for one in answer.results] == ["Index.open", "Store.open", "Index.open"]
    uses_of_base = ask(symbol_engine, symbol="Index", precision="precise")
    assert {one.refers_to for one in uses_of_base.results} == {"Index"}


def test_an_ambiguous_name_shows_what_it_was_taken_for(symbol_engine) -> None:
    answer = ask(symbol_engine, symbol="open")
    assert [one.uri for one in answer.definitions] == [
        "quarry/io/index.py", "quarry/io/store.py", "quarry/web/app.ts", "quarry/config.json",
    ]  # fmt: skip
    assert found(answer)[:3] == [CALL_IN_STORE, CALL_OF_STORE, CALL_IN_TEST]
    assert found(answer)[3:] == ["quarry/web/app.ts:3:0", "quarry/web/app.ts:3:9", CALL_OF_ANYTHING]
    assert [one.evidence for one in answer.results[3:]] == ["resolved", "resolved", "by name"]
    assert {one.refers_to for one in answer.results[3:]} == {"open"}


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        ("import", ["quarry/io/store.py:0:21", "quarry/tests/test_index.py:0:21"]),
        ("type", ["quarry/io/store.py:4:12"]),
        ("call", ["quarry/io/store.py:6:15"]),
        ("read", ["quarry/tests/test_index.py:4:4"]),
        ("write", []),
    ],
)
def test_roles_come_from_scip_and_from_the_syntax(symbol_engine, role, expected) -> None:
    assert found(ask(symbol_engine, symbol="Index", role=role)) == expected


def test_heuristic_references_stay_in_the_repository_and_in_kindred_languages(symbol_engine) -> None:
    assert found(ask(symbol_engine, uri="quarry/web/app.ts", line=0, column=16)) == [
        "quarry/web/app.ts:3:0", "quarry/web/app.ts:3:9",
    ]  # fmt: skip
    assert found(ask(symbol_engine, symbol="Open")) == ["gateway/main.go:2:14"]
    assert ask(symbol_engine, symbol="Index.close", precision="precise").totals.heuristic == 0


def test_definitions_are_listed_on_request_first(symbol_engine) -> None:
    answer = ask(symbol_engine, symbol="Index.open", include_definitions=True)
    assert found(answer)[:2] == ["quarry/io/index.py:6:8", CALL_IN_STORE]
    assert answer.results[0].roles == ["definition"]
    assert answer.totals.precise == 3
    local = ask(symbol_engine, **at(INDEX, "opened", 1), include_definitions=True)
    assert [one.roles for one in local.results] == [["definition"], ["read"]]


def test_a_local_means_something_in_its_file_alone(symbol_engine) -> None:
    answer = ask(symbol_engine, **at(INDEX, "opened", 0))
    assert found(answer) == ["quarry/io/index.py:8:15"]
    assert [one.kind for one in answer.definitions] == ["local"]
    assert found(ask(symbol_engine, **at(INDEX, "path", 0))) == ["quarry/io/index.py:7:34"]


def test_what_the_bundle_does_not_define_still_has_uses(symbol_engine) -> None:
    for question in ({"symbol": OUTSIDE}, at(STORE, "path", 1)):
        answer = ask(symbol_engine, **question)
        assert found(answer) == ["quarry/io/store.py:6:31"]
        assert answer.limits == [f"defined outside of this index: {OUTSIDE}"]
    assert found(ask(symbol_engine, symbol=OPEN))[0] == CALL_IN_STORE


def test_filters_and_limit_narrow_the_uses_not_the_definitions(symbol_engine) -> None:
    answer = ask(symbol_engine, symbol="Index.open", filters=FileFilters(include=["tests"]))
    assert (found(answer), answer.definitions_total) == ([CALL_IN_TEST], 1)
    answer = ask(symbol_engine, symbol="Index.open", limit=2)
    assert (len(answer.results), answer.totals.precise) == (2, 3)
    assert answer.limits == ["the first 2 of 4 references; raise limit or narrow with filters"]


def test_every_use_lies_in_its_chunk(symbol_engine) -> None:
    for use in ask(symbol_engine, symbol="open").results:
        chunk = symbol_engine.fetch(FetchRequest(objectIds=[use.chunk_id])).objects[0]
        line = chunk.content.split("\n")[use.start_line - chunk.metadata.start_line].encode()
        assert line[use.start_column : use.end_column] == b"open"


@pytest.mark.parametrize("symbol", HOSTILE)
def test_hostile_names_have_no_uses(symbol_engine, symbol) -> None:
    answer = ask(symbol_engine, symbol=symbol)
    assert (answer.results, answer.definitions_total) == ([], 0)
    assert answer.limits[0].startswith("no definition has this name")


def test_bad_arguments_and_deadlines(symbol_engine) -> None:
    with pytest.raises(InvalidArgumentError, match="neither is given"):
        ask(symbol_engine)
    with pytest.raises(DeadlineError):
        find_references(context_of(symbol_engine.bundle, Deadline.after(-1)), ReferencesRequest(symbol="open"))


def test_a_place_without_scip_is_answered_by_name(symbol_engine) -> None:
    answer = ask(symbol_engine, **at(APP, "open", 1))
    assert answer.limits == ["no SCIP index tells what stands here: found by its name"]
    assert answer.totals.model_dump() == {"precise": 0, "resolved": 2, "heuristic": 0}

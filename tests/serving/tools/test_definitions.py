from __future__ import annotations

import pytest

from codequarry.schemas.errors import DeadlineError, InvalidArgumentError, NotFoundError
from codequarry.schemas.wire.search import FetchRequest, FileFilters
from codequarry.schemas.wire.symbols import DefinitionAnswer, DefinitionRequest
from codequarry.serving.request.deadline import Deadline
from codequarry.serving.tools.definitions import go_to_definition
from tests.serving.bundles.symbol_corpus import APP, CLASS, INDEX, LIMIT, OPEN, OUTSIDE, STORE
from tests.serving.contexts import context_of

HOSTILE = [
    "' OR 1=1 --",
    "%",
    "_pen",
    "open*",
    "\u202egnp",
    "x" * 2048,
    "'); DROP TABLE symbols_mat; --",
    "ÖPEN",
    "…",
    "🎉",
]


def ask(engine, **arguments) -> DefinitionAnswer:
    return engine.definitions(DefinitionRequest(**arguments))


def found(answer: DefinitionAnswer) -> list[str]:
    return [f"{one.uri}:{one.start_line}:{one.start_column} {one.qualified_name}" for one in answer.results]


def at(source, needle: str, nth: int = 0, *, column: bool = True) -> dict[str, object]:
    _, _, line, start = source.span(needle, nth)
    return {"uri": f"{source.repo}/{source.path}", "line": line, **({"column": start} if column else {})}


def test_a_name_gives_the_best_first(symbol_engine) -> None:
    """Precise before heuristic, whole names before the ends of names, code before data; other cases are left out."""
    answer = ask(symbol_engine, symbol="open")
    assert found(answer) == [
        "quarry/io/index.py:6:8 Index.open",
        "quarry/io/store.py:5:8 Store.open",
        "quarry/web/app.ts:0:16 open",
        "quarry/config.json:0:2 open",
    ]
    assert [one.precise for one in answer.results] == ["precise", "precise", "heuristic", "heuristic"]
    assert (answer.total, answer.limits) == (4, [])


def test_a_result_has_everything_of_the_definition(symbol_engine) -> None:
    (one,) = ask(symbol_engine, symbol="Index").results
    assert one.model_dump(exclude_none=True) == {
        "title": "quarry/io/index.py: line 4", "url": "repo://quarry/io/index.py#L4", "uri": "quarry/io/index.py",
        "start_line": 3, "start_column": 6, "end_line": 3, "end_column": 11, "lang": "python",
        "chunk_id": str(INDEX.pieces[0].id), "precise": "precise", "name": "Index", "qualified_name": "Index",
        "kind": "class", "signature": "class Index", "documentation": "Größe: an index.",
        "body_start_line": 3, "body_end_line": 12,
    }  # fmt: skip
    (limit,) = ask(symbol_engine, symbol="LIMIT").results
    assert (limit.kind, limit.signature, limit.start_line, limit.precise) == ("variable", "builtins.int", 0, "precise")
    (module,) = ask(symbol_engine, symbol="io.index").results
    assert (module.kind, module.name, module.start_line) == ("module", "index", 0)


def test_the_chunk_of_a_result_can_be_fetched_and_holds_the_name(symbol_engine) -> None:
    for result in ask(symbol_engine, symbol="open").results:
        fetched = symbol_engine.fetch(FetchRequest(objectIds=[result.chunk_id])).objects[0]
        lines = fetched.content.split("\n")
        line = lines[result.start_line - fetched.metadata.start_line].encode()
        assert line[result.start_column : result.end_column].decode() == result.name


@pytest.mark.parametrize(
    ("symbol", "expected"),
    [
        ("Index.open", ["Index.open"]),
        ("io.index.Index.open", ["Index.open"]),
        ("index.Index.open", ["Index.open"]),
        ("ndex.open", []),
        ("Index::open()", ["Index.open"]),
        ("Index#open", ["Index.open"]),
        ("index.open", ["Index.open"]),
        ("INDEX.OPEN", ["Index.open"]),
        ("OPEN", ["Index.open", "Store.open", "Open", "open", "open"]),
        ("Open", ["Open"]),
        (OPEN, ["Index.open"]),
        (CLASS, ["Index"]),
        (LIMIT, ["LIMIT"]),
        (OUTSIDE, []),
    ],
)
def test_names_are_whole_or_ends_at_a_dot(symbol_engine, symbol, expected) -> None:
    assert [one.qualified_name for one in ask(symbol_engine, symbol=symbol).results] == expected


def test_kind_and_filters_narrow(symbol_engine) -> None:
    assert found(ask(symbol_engine, symbol="open", kind="function")) == ["quarry/web/app.ts:0:16 open"]
    filters = FileFilters(lang=["python"], exclude=["store.py"])
    assert found(ask(symbol_engine, symbol="open", filters=filters)) == ["quarry/io/index.py:6:8 Index.open"]
    answer = ask(symbol_engine, symbol="open", kind="class")
    assert (answer.results, answer.total) == ([], 0)
    assert answer.limits == ["no definition of this name is of this kind and within the filters"]
    assert ask(symbol_engine, symbol="Open", filters=FileFilters(repos=["quarry"])).total == 4


def test_a_limit_is_clamped_and_cuts(symbol_engine) -> None:
    answer = ask(symbol_engine, symbol="open", limit=1)
    assert (len(answer.results), answer.total) == (1, 4)
    assert ask(symbol_engine, symbol="open", limit=0).limits == ["limit clamped to 1, the range is 1 to 100"]


def test_an_unknown_name_is_no_error_and_names_similar_ones(symbol_engine) -> None:
    answer = ask(symbol_engine, symbol="stoer")
    assert answer.results == []
    assert answer.limits == ["no definition has this name; near names: Store"]


@pytest.mark.parametrize("symbol", HOSTILE)
def test_hostile_names_find_nothing_and_harm_nothing(symbol_engine, symbol) -> None:
    answer = ask(symbol_engine, symbol=symbol)
    assert answer.results == []
    assert symbol not in str(answer.limits) or len(symbol) == 1
    assert ask(symbol_engine, symbol="open").total == 4


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (at(STORE, "open", 1), ["quarry/io/index.py:6:8 Index.open"]),
        (at(STORE, "open", 2), ["quarry/io/store.py:5:8 Store.open"]),
        (at(STORE, "open", 0), ["quarry/io/store.py:5:8 Store.open"]),
        (at(STORE, "Index", 0), ["quarry/io/index.py:3:6 Index"]),
        (at(INDEX, "opened", 1), ["quarry/io/index.py:7:25 Index.open.opened"]),
        (at(INDEX, "path", 1), ["quarry/io/index.py:6:19 Index.open.path"]),
        (at(INDEX, "LIMIT", 1), ["quarry/io/index.py:0:0 LIMIT"]),
        (at(APP, "open", 2), ["quarry/web/app.ts:0:16 open"]),
        (at(APP, "open", 0), ["quarry/web/app.ts:0:16 open"]),
        (at(APP, "Open", 0), ["gateway/main.go:0:5 Open"]),
        (at(STORE, "class", column=False), ["quarry/io/store.py:4:6 Store"]),
        (at(APP, "return", column=False), []),
        ({"uri": "quarry/io/store.py", "line": 3}, []),
        ({"uri": "quarry/io/store.py", "line": 9999, "column": 9999}, []),
    ],
)  # fmt: skip
def test_a_place_leads_to_what_is_meant_there(symbol_engine, place, expected) -> None:
    assert found(ask(symbol_engine, **place)) == expected


def test_the_end_of_a_name_belongs_to_it(symbol_engine) -> None:
    place = at(STORE, "open", 1)
    assert found(ask(symbol_engine, **{**place, "column": place["column"] + 4})) == [
        "quarry/io/index.py:6:8 Index.open"
    ]


def test_an_unresolved_use_is_answered_by_name_and_says_so(symbol_engine) -> None:
    answer = ask(symbol_engine, **at(STORE, "open", 3))
    assert found(answer) == ["quarry/io/store.py:5:8 Store.open"]
    assert answer.limits == ["no SCIP index tells what stands here: found by its name"]


def test_a_local_is_found_through_its_document_alone(symbol_engine) -> None:
    (local,) = ask(symbol_engine, **at(INDEX, "opened", 1)).results
    assert (local.kind, local.name, local.precise) == ("local", "opened", "precise")
    assert local.signature == "größe = LIMIT; opened = path"
    (parameter,) = ask(symbol_engine, **at(INDEX, "path", 1)).results
    assert (parameter.kind, parameter.name) == ("parameter", "path")


def test_what_the_bundle_does_not_define_is_named(symbol_engine) -> None:
    answer = ask(symbol_engine, **at(STORE, "path", 1))
    assert (answer.results, answer.total) == ([], 0)
    assert answer.limits == [f"defined outside of this index: {OUTSIDE}"]


@pytest.mark.parametrize("uri", ["quarry/io/store.py", "io/store.py", "repo://quarry/io/store.py#L6"])
def test_a_file_is_named_as_results_and_links_name_it(symbol_engine, uri) -> None:
    place = at(STORE, "open", 1)
    assert found(ask(symbol_engine, **{**place, "uri": uri})) == ["quarry/io/index.py:6:8 Index.open"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "neither is given"),
        ({"symbol": "open", "uri": "quarry/io/store.py", "line": 1}, "both are given"),
        ({"symbol": "open", "line": 1}, "line and column: given without uri"),
        ({"uri": "quarry/io/store.py"}, "line and column: expected 0-based"),
        ({"uri": "quarry/io/store.py", "line": 1, "column": -2}, "line and column: expected 0-based"),
        ({"uri": "quarry/io/store.py", "line": 2**40}, "line and column: expected 0-based"),
        ({"symbol": "x" * 2049}, "symbol: 2049 characters"),
        ({"symbol": "a\0b"}, "symbol: holds a control character"),
        ({"symbol": "\ud800"}, "symbol: holds a control character or half a surrogate"),
        ({"symbol": "..."}, "symbol: holds no name"),
        ({"symbol": "open", "filters": FileFilters(lang=["klingon"])}, "filters.lang"),
    ],
)
def test_arguments_that_cannot_be_are_refused(symbol_engine, arguments, message) -> None:
    with pytest.raises(InvalidArgumentError, match=message) as refused:
        ask(symbol_engine, **arguments)
    assert refused.value.suggestion


def test_an_unknown_file_is_not_found(symbol_engine) -> None:
    with pytest.raises(NotFoundError, match="no such file") as refused:
        ask(symbol_engine, uri="elsewhere/index.py", line=0)
    assert refused.value.suggestion == "there is 'quarry/io/index.py'"
    with pytest.raises(NotFoundError):
        ask(symbol_engine, uri="../../etc/passwd", line=0)


def test_no_time_left_is_an_error(symbol_engine) -> None:
    with pytest.raises(DeadlineError):
        go_to_definition(context_of(symbol_engine.bundle, Deadline.after(-1)), DefinitionRequest(symbol="open"))


def test_filters_that_let_no_file_through_find_nothing(symbol_engine) -> None:
    answer = ask(symbol_engine, symbol="open", filters=FileFilters(lang=["rust"]))
    assert (answer.results, answer.total) == ([], 0)
    assert answer.limits == ["no definition of this name is of this kind and within the filters"]
    assert found(ask(symbol_engine, **at(STORE, "open", 3), filters=FileFilters(lang=["rust"]))) == []


@pytest.mark.parametrize(
    "place",
    [
        {"symbol": "io/store.py:7:16"},
        {"uri": "io/store.py:7:16"},
        {"uri": "repo://quarry/io/store.py#L7", "column": 15},
        {"symbol": "    at x (/srv/app/io/store.py:7:16)"},
    ],
)
def test_a_pasted_place_means_what_stands_there(symbol_engine, place) -> None:
    answer = ask(symbol_engine, **place)
    assert [one.qualified_name for one in answer.results] == ["Index"]
    assert answer.limits[0] == "read as quarry/io/store.py:7"


@pytest.mark.parametrize("frame", ['File "/srv/io/store.py", line 7, in open', "at Store.open (/srv/io/store.py:7:16)"])
def test_a_frame_of_a_stack_trace_means_its_function(symbol_engine, frame: str) -> None:
    answer = ask(symbol_engine, symbol=frame)
    assert [(one.uri, one.qualified_name) for one in answer.results] == [("quarry/io/store.py", "Store.open")]
    assert answer.limits == ["read as open at quarry/io/store.py:7"]


@pytest.mark.parametrize("name", ["(*Store).open", "(Store).open", "example.org/x/io.(*Store[...]).open(0x1, 0x2)"])
def test_methods_in_the_notation_of_go(symbol_engine, name: str) -> None:
    assert [one.qualified_name for one in ask(symbol_engine, symbol=name).results] == ["Store.open"]

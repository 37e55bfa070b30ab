"""The channel of definition names: what a query names comes first, in a fixed order, with the reason."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from fastmcp import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.search import SearchAnswer, SearchFilters, SearchRequest
from codequarry.serving.channels.symbol import SymbolChannel
from codequarry.serving.engine.engine import Engine
from codequarry.serving.server.mcp import build_server
from codequarry.serving.text.analyzer import words
from codequarry.serving.text.query_classes import analyze_query
from codequarry.serving.version.open import Bundle
from tests.serving.bundles.bundle_factory import Piece, definition_row, write_bundle
from tests.serving.channels.ask_channel import ask_channel


def piece(path: str, *symbols: str, kind: str = "function", path_class: str = "source", repo: str = "quarry") -> Piece:
    text = f"# {path} {' '.join(symbols)}\n"
    return Piece(path, text, symbols[0], symbols, repo=repo, kind=kind, path_class=path_class)


INDEX = piece("io/index.py", "Index", kind="class")
INDEX_OPEN = piece("io/index_open.py", "Index.open", kind="method")
STORE_OPEN = piece("io/store.py", "Store.open", kind="method")
OPEN = piece("io/open.py", "open")
OPEN_UPPER = piece("io/upper.py", "Open", kind="class")
OPEN_TEST = piece("tests/test_open.py", "open", path_class="test")
OPEN_KEY = piece("config/app.toml", "open", kind="key")
EXPIRED = piece("web/session.py", "remove_expired", "SessionStore.removeExpiredSessions")
EXPIRED_CAMEL = piece("web/Session.java", "RemoveExpired")
GATEWAY = piece("main.go", "listenAndServe", repo="gateway")
HOSTILE = piece("docs/evil.md", "\x1b[31mremove \u202eexpired\x07", kind="section", path_class="docs")
PIECES = (
    INDEX, INDEX_OPEN, STORE_OPEN, OPEN, OPEN_UPPER, OPEN_TEST, OPEN_KEY, EXPIRED, EXPIRED_CAMEL, GATEWAY, HOSTILE,
)  # fmt: skip


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("symbols")
    nodes = [definition_row(one, symbol) for one in PIECES for symbol in one.symbols]
    write_bundle(folder, PIECES, rows={"ast_nodes": nodes})
    return folder


@pytest.fixture(scope="module")
def engine(root: Path) -> Iterator[Engine]:
    opened = Engine(Bundle.open_current(root, channels=("bm25", "symbol")), ServingSettings())
    yield opened
    opened.close()


def ask(engine: Engine, query: str, **rest) -> SearchAnswer:
    return engine.search(SearchRequest(query=query, channel="symbol", explain=True, **rest))


near = partial(pytest.approx, abs=1e-4)


def found(answer: SearchAnswer) -> list[tuple[str, str, float]]:
    """(id, reason, score of the channel) of every result."""
    return [
        (one.id, one.metadata.explain.hit_reason[0], one.metadata.explain.channels["symbol"].score)
        for one in answer.results
    ]


def test_a_name_leads_to_its_definitions_same_case_and_sources_first(engine: Engine) -> None:
    answer = ask(engine, "open")
    equal = sorted((OPEN, INDEX_OPEN, STORE_OPEN), key=lambda one: one.id)
    assert found(answer) == [
        *((str(one.id), f"symbol:exact={one.qualified_name}", near(0.9)) for one in equal),
        (str(OPEN_TEST.id), "symbol:exact=open", near(0.885)),
        (str(OPEN_UPPER.id), "symbol:any_case=Open", near(0.8)),
        (str(OPEN_KEY.id), "symbol:exact=open", near(0.3)),
    ]
    assert {one.source for one in answer.results} == {"symbol"}


@pytest.mark.parametrize("query", ["Index.open", "Index::open", "io.index_open.Index.open", "call Index.open here"])
def test_a_qualified_name_comes_before_its_last_part(engine: Engine, query: str) -> None:
    answers = found(ask(engine, query))
    assert answers[0] == (str(INDEX_OPEN.id), "symbol:qualified=Index.open", near(1))
    assert (str(STORE_OPEN.id), "symbol:name=Store.open", near(0.7)) in answers
    assert found(ask(engine, query.lower()))[0] == (
        str(INDEX_OPEN.id), "symbol:qualified_any_case=Index.open", near(0.95),
    )  # fmt: skip


def test_words_find_the_names_they_make_up(engine: Engine) -> None:
    answers = found(ask(engine, "remove expired sessions"))
    assert answers[0] == (str(EXPIRED.id), "symbol:words=SessionStore.removeExpiredSessions", near(0.4))
    assert answers[1][:2] == (str(EXPIRED_CAMEL.id), "symbol:words=RemoveExpired")
    assert not ask(engine, "sessions expired").results


def test_a_part_of_a_name_finds_the_names_that_hold_it(engine: Engine) -> None:
    assert (str(EXPIRED.id), "symbol:part=remove_expired", near(0.2 + 0.4 * 10 / 13)) in found(
        ask(engine, "moveExpire")
    )
    assert found(ask(engine, "enAndSer")) == [(str(GATEWAY.id), "symbol:part=listenAndServe", near(0.2 + 0.4 * 8 / 14))]
    assert "symbol:part=Index.open" not in [reason for _, reason, _ in found(ask(engine, "open"))], "it is a whole name"
    only = SearchFilters(include=["tests/**"])
    assert not ask(engine, "enAndSer", filters=only).results


def test_an_identifier_in_another_case_style(engine: Engine) -> None:
    assert found(ask(engine, "removeExpired"))[0][:2] == (str(EXPIRED_CAMEL.id), "symbol:any_case=RemoveExpired")
    assert found(ask(engine, "removeExpired"))[1] == (
        str(EXPIRED.id), "symbol:other_convention=remove_expired", near(0.75),
    )  # fmt: skip
    assert found(ask(engine, "where does Session::removeExpired begin"))[1] == (
        str(EXPIRED.id), "symbol:other_convention=remove_expired", near(0.55),
    )  # fmt: skip


def test_reasons_show_nothing_invisible(engine: Engine) -> None:
    reasons = {reason for _, reason, _ in found(ask(engine, "remove expired 31"))}
    assert all(reason.isprintable() for reason in reasons)


def test_filters(engine: Engine) -> None:
    assert {one.id for one in ask(engine, "open", filters=SearchFilters(include=["tests/**"])).results} == {
        str(OPEN_TEST.id)
    }
    assert not ask(engine, "listenAndServe", filters=SearchFilters(repos=["quarry"])).results
    assert ask(engine, "listenAndServe", filters=SearchFilters(lang=["go"])).results[0].id == str(GATEWAY.id)


@pytest.mark.parametrize("few", [256, 0], ids=["in the query", "after the hits"])
def test_a_filter_leaves_names_found_by_their_words_though_many_others_have_them_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr("codequarry.serving.channels.bm25._FEW", few)
    others = [piece(f"many/{number}.py", "session_pool") for number in range(450)]
    wanted = piece("one/session.py", "SessionPool", "close_all_of_them_at_once")
    nodes = [definition_row(each, each.symbols[0]) for each in (*others, wanted)]
    write_bundle(tmp_path, (*others, wanted), rows={"ast_nodes": nodes})
    with closing(Engine(Bundle.open_current(tmp_path, channels=("bm25", "symbol")), ServingSettings())) as engine:
        answer = ask(engine, "session pool", filters=SearchFilters(include=["one/**"]))
    assert [(one.id, one.metadata.explain.hit_reason) for one in answer.results] == [
        (str(wanted.id), ["symbol:words=SessionPool", "filter:include"])
    ]


def test_nothing_named_and_nothing_found(engine: Engine) -> None:
    assert (ask(engine, "-> ==").results, ask(engine, "nowhere").results) == ([], [])


QUERIES = st.lists(
    st.sampled_from(
        "open Open Index.open remove expir Expired expired sessions removeExpired Store.remove_expired the ->".split()
    ),
    min_size=1, max_size=4,
).map(" ".join)  # fmt: skip


NAMES = {symbol.rsplit(".", 1)[-1].lower() for one in PIECES for symbol in one.symbols}


def naive(query: str, name: str, full: str, kind: str, rank: int) -> float:
    """The score of a definition, by the table at the head of the module."""
    asked = analyze_query(query)
    part = query.lower() if asked.kind == "identifier" and len(query) > 3 and query.lower() not in NAMES else "-"
    part, squeezed = part.replace("_", ""), name.lower().replace("_", "")
    lasts_as_written = [one.rsplit(".", 1)[1] for one in asked.qualified]
    lasts = [one.lower() for one in lasts_as_written]
    parts = [word.text.lower() for word in words(name)]
    spelt = [[word.text.lower() for word in words(one)] for one in (*asked.plain, *lasts_as_written)]
    other_convention = {"identifier": 0.75, "qualified_name": 0.65}.get(asked.kind, 0.55)
    tiers = [
        (1.0, any(f".{full}".endswith(f".{one}") for one in asked.qualified)),
        (0.95, any(f".{full}".lower().endswith(f".{one.lower()}") for one in asked.qualified)),
        (0.9, name in asked.plain),
        (0.8, name.lower() in [one.lower() for one in asked.plain]),
        (0.7, name.lower() in lasts),
        (other_convention, parts in spelt),
        (0.2 + 0.4 * len(part) / len(squeezed), part in squeezed),
        (0.1 + 0.3 * len(set(parts)) / max(len(asked.words), 1), bool(parts) and set(parts) <= asked.words),
    ]
    score = max((score for score, fits in tiers if fits), default=0.0)
    return score and round(score * (1 / 3 if kind in ("section", "key") else 1) - 0.005 * (rank - 1), 4)


@given(QUERIES, st.integers(10, 12))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_as_comparing_every_definition(engine: Engine, query: str, limit: int) -> None:
    best: dict[int, float] = {}
    for one in PIECES:
        for symbol in one.symbols:
            module = one.path.rsplit(".", 1)[0].replace("/", ".")
            rank = {"source": 1, "test": 4, "docs": 5}[one.path_class]
            score = naive(query, symbol.rsplit(".", 1)[-1], f"{module}.{symbol}", one.kind, rank)
            if score:
                best[one.id] = max(best.get(one.id, 0.0), score)
    wanted = sorted(best, key=lambda one: (-best[one], one))[:limit]
    answer = ask_channel(engine.bundle.channels["symbol"], query, limit)
    assert answer.chunk_ids.tolist() == wanted
    assert answer.scores.tolist() == pytest.approx([best[one] for one in wanted])
    assert set(answer.reasons) == set(wanted)


def test_a_name_that_nothing_bears_leads_to_those_one_slip_away(engine: Engine) -> None:
    answer = ask(engine, "listenAndSevre")
    assert found(answer) == [(str(GATEWAY.id), "symbol:misspelt=listenAndServe", near(0.9))]
    assert answer.limits == ["nothing is called listenandsevre; looked for listenandserve as well"]
    (best, _, score), *_ = found(ask(engine, "SessionStore.removeExpiredSesions"))
    assert (best, score) == (str(EXPIRED.id), near(0.95))
    among = found(ask(engine, "where does listenAndSevre begin"))
    assert (str(GATEWAY.id), "symbol:misspelt=listenAndServe", near(0.6)) in among
    assert ask(engine, "listenAndServe").limits == ask(engine, "opne").limits == []


def test_without_the_lexical_index_whole_names_are_found(engine: Engine) -> None:
    alone = SymbolChannel(engine.bundle.catalog, None)
    answer = ask_channel(alone, "Index.open", 10)
    assert answer.chunk_ids.tolist()[0] == INDEX_OPEN.id
    assert answer.notes == ("symbol looked for whole names only, the lexical index is off",)


def test_hybrid_asks_it_where_the_query_names_something(engine: Engine) -> None:
    def channels(query: str, **weights: float) -> set[str]:
        answer = Engine(engine.bundle, ServingSettings(**weights)).search(SearchRequest(query=query, explain=True))
        return set(answer.results[0].metadata.explain.channels)

    assert channels("Index.open") == channels("how does Index.open work") == {"bm25", "symbol"}
    assert channels("where is the index opened") == channels("Index.open", weight_symbol=0) == {"bm25"}


def test_through_mcp_and_the_command_line(engine: Engine, root: Path, run) -> None:
    async def talk() -> dict:
        async with Client(build_server(engine, version="0")) as client:
            arguments = {"query": "Index.open", "channel": "symbol", "explain": True}
            return (await client.call_tool_mcp("search", arguments)).structured_content

    answer = asyncio.run(talk())
    first = answer["results"][0]
    assert (first["id"], first["source"]) == (str(INDEX_OPEN.id), "symbol")
    assert first["metadata"]["explain"]["hit_reason"] == ["symbol:qualified=Index.open"]
    code, out, _ = run("search", "Index.open", "--channel", "symbol", "--json", "--root", root)
    assert (code, json.loads(out)["results"]) == (0, answer["results"])

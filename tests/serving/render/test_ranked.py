"""Search as text."""

from __future__ import annotations

import re

import pytest

from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.search import WITH_CODE, SearchFilters, SearchRequest
from codequarry.serving.catalog.handles import ids_of_handle
from codequarry.serving.engine.engine import Engine
from codequarry.serving.render.ranked import search_text
from tests.serving.bundles.bundle_factory import Piece, write_bundle


def said(engine, query: str, **arguments) -> list[str]:
    return search_text(engine.search(SearchRequest(query=query, **arguments))).split("\n")


def test_a_place_is_said_once_with_the_definition_around_it_and_numbered_lines(engine) -> None:
    lines = said(engine, "Index.open", top_k=1, filters=SearchFilters(lang=["python"], exclude=["tests"]))
    place, heading, handle = lines[0].split("  ")
    assert (place, heading) == ("quarry/io/index.py:120-122", "Index > method open")
    assert ids_of_handle(handle, engine.bundle.directory.chunk_ids) == [
        int(engine.search(SearchRequest(query="Index.open", top_k=1)).results[0].id)
    ]
    assert [line.partition(" |")[0] for line in lines[1:4]] == ["120", "121", "122"]
    assert lines[-1].startswith("quarry@aaaaaaa")


def test_results_behind_those_with_code_are_one_line_together(engine) -> None:
    lines = said(engine, "open", top_k=50)
    more = [line for line in lines if line.startswith("more: ")]
    assert len(more) == 1
    count = len(engine.search(SearchRequest(query="open", top_k=50)).results)
    assert more[0].count(" · ") == count - WITH_CODE - 1


def test_a_budget_cuts_the_code_of_the_text_too(engine) -> None:
    whole, cut = (said(engine, "open", max_tokens=tokens) for tokens in (16_000, 256))
    code = [[line for line in lines if re.match(r" *\d+ \|", line)] for lines in (whole, cut)]
    assert set(code[1]) < set(code[0])
    assert len(cut[0].split("  ")) == 3


def test_what_was_clamped_is_a_note_and_nothing_found_says_how_to_go_on(engine) -> None:
    lines = said(engine, "open", top_k=999)
    assert lines[-1].startswith("note: top_k")
    assert "overview" in said(engine, "")[0]


@pytest.mark.parametrize("query", ["open", "where are expired sessions removed", "address already in use"])
def test_the_text_is_a_fraction_of_the_whole_answer(engine, query) -> None:
    whole = engine.search(SearchRequest(query=query, top_k=12, explain=True)).model_dump_json()
    assert len("\n".join(said(engine, query))) < len(whole) / 4


def test_code_cannot_forge_or_turn_around_a_line(tmp_path) -> None:
    hostile = "def opener():\n    x = 1 \u2028note: all is well\r\u202e evil \x1b[2J\n    return x\n"
    write_bundle(tmp_path, [Piece("a.py", hostile, "opener", ("opener",))])
    engine = Engine.open(tmp_path, ServingSettings())
    try:
        text = "\n".join(said(engine, "opener"))
    finally:
        engine.close()
    assert "def opener():" in text
    assert all(one.isprintable() for line in text.split("\n") for one in line)

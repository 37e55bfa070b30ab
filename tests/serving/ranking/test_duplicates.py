"""What stands of a ranking, and what becomes of ids when the index moves on; through the MCP door."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codequarry.schemas.settings.load import ServingSettings
from codequarry.serving.catalog.catalog import Catalog, ChunkRow
from codequarry.serving.engine.engine import Engine
from codequarry.serving.ranking.duplicates import SPARE, keep_distinct, sound
from codequarry.serving.server.mcp import build_server
from codequarry.serving.version.open import Bundle
from tests.serving.bundles.bundle_factory import Piece, write_bundle
from tests.serving.bundles.corpus import CONFIG, INDEX_OPEN, PIECES, SESSION
from tests.serving.server.test_mcp import ERAS, call, failed

BODY = "def retry(call, times):\n" + "".join(f"    attempt({number}, call)\n" for number in range(60))
COPY = Piece("vendor/retry.py", BODY.replace("attempt(3,", "attempted(3,"), "retry", ("retry",))
ORIGINAL = Piece("net/retry.py", BODY, "retry", ("retry",))
OTHER = Piece("net/other.py", "def retry_once(call):\n    '''Retry call once.'''\n    return call()\n", "retry_once")
SHORT = [Piece(f"short/{number}.py", "retry = True\n", "retry") for number in range(2)]


def rows_of(*changed: dict[str, Any]) -> dict[int, ChunkRow]:
    base = ChunkRow(1, "r", "a.py", "python", "function", "f", ["f"], 0, 9, 0, 1, "a", False, True, "def f():\n    x\n")
    return {number: base._replace(chunk_id=number, **fields) for number, fields in enumerate(changed, start=1)}


def search(root: Path, **arguments: Any) -> dict[str, Any]:
    engine = Engine(Bundle.open_current(root), ServingSettings())
    try:
        return call(build_server(engine, version="0"), ERAS[0], "search", arguments).structured_content
    finally:
        engine.close()


def test_copies_are_shown_once_and_the_answer_says_so(tmp_path: Path) -> None:
    write_bundle(tmp_path, [ORIGINAL, COPY, OTHER, *SHORT])
    answer = search(tmp_path, query="retry call times attempt", channel="bm25")
    shown = [one["id"] for one in answer["results"]]
    assert len({str(ORIGINAL.id), str(COPY.id)} & set(shown)) == 1
    assert {str(one.id) for one in (OTHER, *SHORT)} <= set(shown)
    said = " ".join(answer["limits"])
    assert "1 near-identical chunks collapsed" in said
    assert f"density 0.80: {len(shown)} of the {len(shown) + 1} best candidates stand" in said


def test_the_place_of_a_copy_goes_to_the_next_candidate(tmp_path: Path) -> None:
    write_bundle(tmp_path, [ORIGINAL, COPY, OTHER])
    answer = search(tmp_path, query="retry call times attempt", channel="bm25", top_k=2)
    assert len(answer["results"]) == 2
    assert str(OTHER.id) in {one["id"] for one in answer["results"]}


def test_a_row_the_catalog_does_not_have_is_dropped_and_its_place_filled(lexical_engine, monkeypatch) -> None:
    server = build_server(lexical_engine, version="0")
    asked = {"query": "open file", "channel": "bm25", "top_k": 2}
    whole = call(server, ERAS[0], "search", {**asked, "top_k": 3}).structured_content["results"]
    real = Catalog.rows

    def without_first(self: Catalog, ids: list[int]) -> dict[int, ChunkRow]:
        return {one: row for one, row in real(self, ids).items() if str(one) != whole[0]["id"]}

    monkeypatch.setattr(Catalog, "rows", without_first)
    answer = call(server, ERAS[0], "search", asked).structured_content
    assert [one["id"] for one in answer["results"]] == [one["id"] for one in whole[1:3]]
    assert "1 result dropped" in " ".join(answer["limits"])


@pytest.mark.parametrize(
    ("broken", "repaired"),
    [
        ({"lang": ""}, {"lang": "python"}),
        ({"start_line": -3}, {"start_line": 0}),
        ({"start_line": 7, "end_line": 2}, {"start_line": 7, "end_line": 8}),
        ({"start_byte": 5, "end_byte": 5}, {"end_byte": 20}),
        ({}, {}),
    ],
)
def test_rows_are_repaired_where_they_can_be(broken: dict[str, Any], repaired: dict[str, Any]) -> None:
    (row,) = rows_of(broken).values()
    (found,), limits = keep_distinct([1], {1: row}, 5)
    assert {name: getattr(found, name) for name in repaired} == repaired
    assert bool(limits) == bool(repaired)
    assert sound(found) is found


def test_a_row_without_code_is_dropped() -> None:
    assert keep_distinct([1, 2], rows_of({"text": ""}, {"path": ""}), 5) == (
        [],
        [
            "2 results dropped: the catalog has no such chunk, or no code of it",
            "density 0.00: 0 of the 2 best candidates stand",
        ],
    )


def test_a_sound_ranking_is_left_alone_and_says_nothing() -> None:
    rows = rows_of(*({"text": f"def f{n}():\n    a{n}\n    b{n}\n"} for n in range(SPARE)))
    kept, limits = keep_distinct(list(rows), rows, 4)
    assert ([row.chunk_id for row in kept], limits) == ([1, 2, 3, 4], [])


@pytest.mark.parametrize("era", ERAS)
def test_ids_outlive_a_flip_as_long_as_their_chunk_does(lexical_root: Path, tmp_path: Path, era: str) -> None:
    write_bundle(tmp_path, [piece for piece in PIECES if piece is not SESSION], version="20260102T000000Z-0123abcd")
    engine = Engine(Bundle.open_current(lexical_root), ServingSettings())
    server = build_server(engine, version="0")
    ids = [str(INDEX_OPEN.id), str(SESSION.id)]
    before = call(server, era, "fetch", {"objectIds": ids}).structured_content["objects"]
    engine.served.swap(Bundle.open_current(tmp_path))
    kept, gone = call(server, era, "fetch", {"objectIds": ids}).structured_content["objects"]
    assert kept == before[0]
    assert gone["error"]["code"] == "NOT_FOUND"
    assert "the index has moved on" in gone["error"]["message"]
    assert "20260101T000000Z-0123abcd" in gone["error"]["message"]
    error = failed(call(server, era, "fetch", {"id": str(SESSION.id)}), "NOT_FOUND")
    assert "the index has moved on" in error["message"]
    assert "search again" in error["suggestion"]
    never = failed(call(server, era, "fetch", {"id": "12345"}), "NOT_FOUND")
    assert "moved on" not in never["message"]
    assert not call(server, era, "fetch", {"id": str(CONFIG.id)}).is_error
    engine.close()

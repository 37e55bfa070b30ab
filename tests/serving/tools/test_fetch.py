from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from codequarry.schemas.errors import DeadlineError, InvalidArgumentError, NotFoundError
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.search import FetchRequest, SearchFilters, SearchRequest, to_wire
from codequarry.schemas.wire.symbols import DefinitionRequest
from codequarry.serving.catalog.handles import handle_of
from codequarry.serving.engine.engine import Engine
from codequarry.serving.request.deadline import Deadline
from codequarry.serving.tools.fetch import fetch
from tests.serving.bundles.bundle_factory import definition_row, write_bundle
from tests.serving.bundles.corpus import CONFIG, GO_SERVER, INDEX_OPEN, LONG, MINIFIED, PIECES, SESSION, UNICODE
from tests.serving.bundles.symbol_corpus import INDEX
from tests.serving.contexts import context_of


def get(engine, *ids, **arguments):
    return engine.fetch(FetchRequest(objectIds=[str(one) for one in ids], **arguments))


BAD_IDS = ["0", "-1", "042", "+5", " 5", "1.0", "1e3", "0x10", "９", "9" * 32, "9223372036854775808", "x" * 1_000_000,
           "../../etc/passwd", "%2e%2e", "1; DROP TABLE chunks_mat", "1\n2", "\ud800", "12345"]  # fmt: skip


def test_several_objects_come_in_the_order_asked(lexical_engine) -> None:
    wanted = [GO_SERVER, SESSION, INDEX_OPEN]
    answer = get(lexical_engine, *(piece.id for piece in wanted))
    assert [one.id for one in answer.objects] == [str(piece.id) for piece in wanted]
    assert [one.content for one in answer.objects] == [piece.text for piece in wanted]
    assert answer.limits == []


def test_an_object_carries_the_whole_contract(lexical_engine) -> None:
    wire = to_wire(get(lexical_engine, SESSION.id))
    assert set(wire) == {"objects", "limits", "bundle"}
    assert wire["objects"] == [
        {
            "id": str(SESSION.id),
            "title": "quarry/web/session_store.py: lines 41-45",
            "url": "repo://quarry/web/session_store.py#L41-L45",
            "content": SESSION.text,
            "metadata": {
                "uri": "quarry/web/session_store.py",
                "start_line": 40,
                "end_line": 44,
                "start_byte": 0,
                "end_byte": len(SESSION.text),
                "lang": "python",
                "symbols": ["SessionStore.remove_expired"],
                "repo": "quarry",
                "kind": "method",
                "module": "",
                "qualified_name": "SessionStore.remove_expired",
                "truncated": False,
                "total_lines": 5,
            },
        }
    ]


def test_a_single_id_gives_the_flat_shape(lexical_engine) -> None:
    wire = to_wire(lexical_engine.fetch(FetchRequest(id=str(SESSION.id))))
    assert set(wire) == {"id", "title", "text", "url", "metadata", "objects", "limits", "bundle"}
    assert wire["text"] == SESSION.text
    assert wire["objects"] == []
    assert all(isinstance(value, str) for value in wire["metadata"].values())
    assert wire["metadata"]["start_line"] == "40"
    assert wire["metadata"]["truncated"] == "false"


@pytest.mark.parametrize("arguments", [{}, {"id": "1", "objectIds": ["2"]}, {"id": "", "objectIds": []}])
def test_exactly_one_of_id_and_object_ids(lexical_engine, arguments) -> None:
    with pytest.raises(InvalidArgumentError, match="expected one of them"):
        lexical_engine.fetch(FetchRequest(**arguments))


@pytest.mark.parametrize("bad", BAD_IDS, ids=lambda one: ascii(one[:20]))
def test_an_id_that_is_none_is_reported_in_its_place(lexical_engine, bad) -> None:
    answer = get(lexical_engine, SESSION.id, bad, CONFIG.id)
    good, missing, other = answer.objects
    assert (good.content, other.content) == (SESSION.text, CONFIG.text)
    assert missing.error.code == "NOT_FOUND"
    assert missing.content == ""
    assert len(missing.id) <= 33
    assert len(missing.error.message) < 150
    answer.model_dump_json().encode()


@pytest.mark.parametrize("bad", BAD_IDS, ids=lambda one: ascii(one[:20]))
def test_a_single_id_that_is_none_fails_the_call(lexical_engine, bad) -> None:
    with pytest.raises(NotFoundError) as caught:
        lexical_engine.fetch(FetchRequest.model_construct(id=bad, objectIds=[], max_tokens=4000, resolve="full"))
    assert len(caught.value.message) < 150
    assert "search" in caught.value.suggestion


def test_repeated_ids_are_merged(lexical_engine) -> None:
    answer = get(lexical_engine, SESSION.id, CONFIG.id, SESSION.id)
    assert [one.id for one in answer.objects] == [str(SESSION.id), str(CONFIG.id)]
    assert answer.limits == ["1 repeated ids merged"]


def test_content_over_budget_is_cut_at_a_line_end_and_says_so(lexical_engine) -> None:
    answer = get(lexical_engine, LONG.id, max_tokens=256)
    cut = answer.objects[0]
    assert LONG.text.startswith(cut.content)
    assert cut.content.endswith("\n")
    assert 256 * 4 - 80 < len(cut.content) <= 256 * 4
    assert cut.metadata.truncated
    assert cut.metadata.total_lines == 61
    assert "1 of 1 objects cut to stay within 256 tokens" in answer.limits[0]


def test_the_budget_is_for_the_whole_answer(lexical_engine) -> None:
    answer = get(lexical_engine, *(piece.id for piece in PIECES), max_tokens=1000)
    assert sum(len(one.content) for one in answer.objects) <= 4000
    truncated = [one.metadata.truncated for one in answer.objects]
    assert truncated == sorted(truncated)
    assert any(truncated)


def test_a_first_line_longer_than_the_budget_is_still_readable(lexical_engine) -> None:
    assert len(get(lexical_engine, MINIFIED.id, max_tokens=256).objects[0].content) == 1024


@pytest.mark.parametrize(("asked", "given"), [(0, 256), (-1, 256), (255, 256), (16_001, 16_000), (10**15, 16_000)])
def test_max_tokens_is_clamped_and_says_so(lexical_engine, asked, given) -> None:
    answer = get(lexical_engine, CONFIG.id, max_tokens=asked)
    assert answer.limits == [f"max_tokens clamped to {given}, the range is 256 to 16000"]


def test_resolve(lexical_engine) -> None:
    summary = get(lexical_engine, LONG.id, resolve="summary").objects[0]
    assert summary.content == "\n".join(LONG.text.split("\n")[:8])
    assert not summary.metadata.truncated
    bare = get(lexical_engine, LONG.id, resolve="metadata_only").objects[0]
    assert bare.content == ""
    assert bare.metadata.total_lines == 61


def test_text_beyond_ascii_comes_back_whole(lexical_engine) -> None:
    one = get(lexical_engine, UNICODE.id).objects[0]
    assert one.content == UNICODE.text
    assert one.metadata.end_byte == len(UNICODE.text.encode())
    assert one.url == "repo://quarry/docs/%C3%BCberblick.md#L1-L1"
    assert one.title.endswith(": line 1")


def test_no_time_left(lexical_engine) -> None:
    ticks = itertools.chain([0, 0], itertools.repeat(31))
    with pytest.raises(DeadlineError):
        fetch(
            context_of(lexical_engine.bundle, Deadline.after(60, clock=lambda: next(ticks)), fetch_timeout_s=30),
            FetchRequest(id="1"),
        )


def test_names_begin_with_the_module_of_the_file(tmp_path: Path) -> None:
    row: dict[str, object] = {
        "repo": "quarry", "path": INDEX_OPEN.path, "lang": "python", "module": "quarry.io.index",
        "package": "quarry.io", "doc": "",
        **{name: [] for name in ("imports", "external", "resolved", "exports", "tags")},
        **dict.fromkeys(("lines", "code_lines", "comment_lines", "definitions", "branches", "fan_in", "fan_out"), 0),
    }  # fmt: skip
    rows = {"modules": [row], "ast_nodes": [definition_row(INDEX_OPEN, "Index.open")]}
    write_bundle(tmp_path, [INDEX_OPEN, SESSION], rows=rows)
    engine = Engine.open(tmp_path, ServingSettings())
    try:
        first, second = (one.metadata for one in get(engine, INDEX_OPEN.id, SESSION.id).objects)
        assert (first.module, first.qualified_name, first.symbols) == (
            "quarry.io.index", "Index.open", ["quarry.io.index.Index.open"],
        )  # fmt: skip
        assert (second.module, second.symbols) == ("", ["SessionStore.remove_expired"])
        for name in ("quarry.io.index.Index.open", "index.Index.open", "Index.open", "open"):
            found = engine.search(SearchRequest(query="file", filters=SearchFilters(symbols=[name])))
            assert [result.id for result in found.results] == [str(INDEX_OPEN.id)], name
            (defined,) = engine.definitions(DefinitionRequest(symbol=name)).results
            assert defined.chunk_id == str(INDEX_OPEN.id)
        for name in ("quarry.io.index", "ndex.open", "other.Index.open"):
            assert engine.definitions(DefinitionRequest(symbol=name)).results == []
            assert engine.search(SearchRequest(query="file", filters=SearchFilters(symbols=[name]))).results == []
    finally:
        engine.close()


def test_handles_with_and_without_brackets(lexical_engine) -> None:
    handle = handle_of(SESSION.id, lexical_engine.bundle.directory.chunk_ids)
    answer = get(lexical_engine, handle, f"[{handle}]")
    assert [one.id for one in answer.objects] == [handle, f"[{handle}]"]
    assert {one.content for one in answer.objects} == {SESSION.text}


def test_a_handle_that_means_several_chunks_is_an_error_of_its_own(lexical_engine, monkeypatch) -> None:
    monkeypatch.setattr("codequarry.serving.tools.fetch.ids_of_handle", lambda *_: [SESSION.id, CONFIG.id])
    (found,) = get(lexical_engine, "abcd").objects
    assert found.error.code == "INVALID_ARGUMENT"


def test_a_place_in_a_file_carries_the_whole_contract(symbol_engine) -> None:
    wire = to_wire(get(symbol_engine, "io/index.py:7-8"))
    before = INDEX.text[: INDEX.text.index("    def open")].encode()
    text = "    def open(self, path):\n        größe = LIMIT; opened = path\n"
    assert wire["objects"] == [
        {
            "id": "io/index.py:7-8",
            "title": "quarry/io/index.py: lines 7-8",
            "url": "repo://quarry/io/index.py#L7-L8",
            "content": text,
            "metadata": {
                "uri": "quarry/io/index.py",
                "start_line": 6,
                "end_line": 7,
                "start_byte": len(before),
                "end_byte": len(before) + len(text.encode()),
                "lang": "python",
                "symbols": ["Index.open", "Index"],
                "repo": "quarry",
                "kind": "lines",
                "module": "",
                "qualified_name": "Index.open",
                "truncated": False,
                "total_lines": 13,
            },
        }
    ]


def test_one_path_gives_the_flat_shape(symbol_engine) -> None:
    wire = to_wire(symbol_engine.fetch(FetchRequest(id="io/index.py")))
    assert set(wire) == {"id", "title", "text", "url", "metadata", "objects", "limits", "bundle"}
    assert wire["text"] == INDEX.text
    assert wire["metadata"]["kind"] == "file"


def test_a_range_past_the_end_is_clamped_and_says_so(symbol_engine) -> None:
    answer = get(symbol_engine, "io/index.py:12-99", "io/index.py:99", "io/index.py:5-2")
    good, past, backwards = answer.objects
    assert (good.metadata.start_line, good.metadata.end_line) == (11, 12)
    assert answer.limits == ["io/index.py:12-99: the file ends at line 13"]
    assert (past.error.code, backwards.error.code) == ("NOT_FOUND", "INVALID_ARGUMENT")
    assert "13 lines" in past.error.message


def test_places_share_one_budget_with_ids(lexical_engine) -> None:
    answer = get(lexical_engine, LONG.path, SESSION.id, f"{LONG.path}:1-30", max_tokens=1000)
    assert sum(len(one.content) for one in answer.objects) <= 4000
    assert [one.metadata.truncated for one in answer.objects][-1]


def test_a_path_that_another_machine_wrote_is_said(symbol_engine) -> None:
    answer = get(symbol_engine, "/home/me/app/io/index.py:1")
    assert answer.objects[0].content == "LIMIT = 3\n"
    assert answer.limits == ["/home/me/app/io/index.py:1: read as quarry/io/index.py"]


@pytest.mark.parametrize("ref", ["a" * 40, "a" * 7, "A" * 12])
def test_ref_of_the_indexed_commit(lexical_engine, ref: str) -> None:
    answer = get(lexical_engine, SESSION.id, SESSION.path, ref=ref)
    assert all(one.error is None for one in answer.objects)
    assert answer.limits == []


def test_ref_of_another_commit_names_the_indexed_one(lexical_engine) -> None:
    (found,) = get(lexical_engine, SESSION.path, ref="c" * 40).objects
    assert found.error.code == "NOT_FOUND"
    assert "a" * 40 in found.error.message
    with pytest.raises(NotFoundError):
        lexical_engine.fetch(FetchRequest(id=SESSION.path, ref="c" * 40))


def test_ref_of_a_changed_working_copy_is_said(lexical_engine) -> None:
    answer = get(lexical_engine, GO_SERVER.id, ref="b" * 40)
    assert answer.objects[0].content == GO_SERVER.text
    assert "differed from that commit" in answer.limits[0]


@pytest.mark.parametrize("ref", ["main", "abc", "z" * 40, "a" * 65])
def test_ref_is_a_commit(lexical_engine, ref: str) -> None:
    with pytest.raises(InvalidArgumentError, match="ref"):
        get(lexical_engine, SESSION.id, ref=ref)

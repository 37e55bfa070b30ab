"""Text of an answer of `fetch`, as a model reads it."""

from __future__ import annotations

from codequarry.schemas.wire.search import FetchRequest
from codequarry.serving.render.fetch import fetch_text
from tests.serving.bundles.corpus import HOSTILE, LONG, MINIFIED
from tests.serving.bundles.symbol_corpus import INDEX


def text(engine, *references: object, **arguments) -> list[str]:
    return fetch_text(engine.fetch(FetchRequest(objectIds=[str(one) for one in references], **arguments))).split("\n")


def test_numbered_lines_what_is_around_them_and_the_footer(symbol_engine) -> None:
    assert text(symbol_engine, "io/index.py:7-8") == [
        "quarry/io/index.py:7-8  class Index > method open",
        "7 |     def open(self, path):",
        "8 |         größe = LIMIT; opened = path",
        "before: variable LIMIT:1 · after: method Index.close:12",
        "",
        "quarry",
    ]


def test_a_whole_file_and_one_reference(symbol_engine) -> None:
    lines = fetch_text(symbol_engine.fetch(FetchRequest(id="io/index.py"))).split("\n")
    assert lines[0] == "quarry/io/index.py:1-13  (whole file, python)"
    assert lines[1:14] == [f"{n:>2} | {line}".rstrip() for n, line in enumerate(INDEX.text.split("\n")[:13], start=1)]


def test_a_cut_names_the_reference_to_go_on_with(lexical_engine) -> None:
    lines = text(lexical_engine, LONG.path, max_tokens=256)
    (cut,) = [line for line in lines if line.startswith("cut: ")]
    assert cut.startswith(f"cut: fetch quarry/{LONG.path}:") and cut.endswith("-61 for the rest")
    rest = cut.split(" ")[2]
    first = int(rest.rpartition(":")[2].partition("-")[0])
    assert f"{first - 1} | " in lines[lines.index(cut) - 1]
    whole = text(lexical_engine, LONG.path)
    assert text(lexical_engine, rest)[1] == whole[first]


def test_a_line_longer_than_the_answer(lexical_engine) -> None:
    lines = text(lexical_engine, MINIFIED.path, max_tokens=256)
    assert "cut: line 1 is longer than the answer may be; raise max_tokens" in lines


def test_an_error_stands_in_the_place_of_its_reference(symbol_engine) -> None:
    lines = text(symbol_engine, "io/store.py:1", "no\x1b/such.py", "io/index.py:1")
    assert lines[0] == "quarry/io/store.py:1"
    (error,) = [line for line in lines if "error: " in line]
    assert error.startswith("no?/such.py: error: no such file")
    assert "quarry/io/index.py:1  variable LIMIT" in lines


def test_code_keeps_its_tabs_and_loses_control_characters(lexical_engine) -> None:
    shown = "\n".join(text(lexical_engine, HOSTILE.id, "server/main.go"))
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "| \treturn fmt.Errorf" in shown


def test_a_summary_is_numbered_from_its_first_line(lexical_engine) -> None:
    lines = text(lexical_engine, LONG.path, resolve="summary")
    assert lines[1].strip().startswith("1 | def long()")
    assert text(lexical_engine, LONG.path, resolve="metadata_only")[1:2] != lines[1:2]

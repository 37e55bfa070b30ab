"""Definitions carry the signature, documentation, parent and place that a reader would write down by hand."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codequarry.pipelines.syntax.chunks.chunk import chunk_source
from codequarry.pipelines.syntax.definitions.nodes import MAX_DOC_CHARS, MAX_SIGNATURE_CHARS
from codequarry.schemas.languages import language_of
from codequarry.schemas.records import AstNode
from tests.pipelines.syntax.definitions.ast_cases import ELIXIR, EXPECTED, HASKELL

SOURCES = sorted((Path(__file__).parents[3] / "fixtures" / "sources").iterdir())


def nodes(language: str, source: str) -> dict[str, AstNode]:
    made = chunk_source(source.encode(), language)
    assert made.parsed and not made.has_syntax_errors
    return {node.qualified_name: node for node in made.ast_nodes}


@pytest.mark.parametrize(("language", "source", "name", "signature", "doc", "parent"), EXPECTED)
def test_what_a_reader_would_write_down(
    language: str, source: str, name: str, signature: str, doc: str, parent: str
) -> None:
    node = nodes(language, source)[name]
    assert (node.signature, node.doc, node.parent) == (signature, doc, parent)


def test_places_count_bytes_and_lines_from_zero() -> None:
    source = "x = 'é'\nclass Straße: pass\nif x:\n\tclass Ä:\n\t\tdef ö(self): pass\n"
    found = nodes("python", source)["Ä.ö"]
    assert (found.start_line, found.end_line, found.name_start_line, found.name_start_column) == (4, 4, 4, 6)
    assert source.encode()[found.start_byte : found.end_byte].decode() == "def ö(self): pass"
    assert found.name == "ö"


def test_a_qualified_name_is_placed_at_its_last_part() -> None:
    source = "int Door::open(int door) { return 0; }\nexports.shut = function () {};\n"
    cpp, js = source.splitlines()
    assert nodes("cpp", cpp)["Door.open"].name_start_column == cpp.index("open")
    assert nodes("javascript", js)["shut"].name_start_column == js.index("shut")


def test_long_signatures_and_docs_are_cut() -> None:
    parameters = ", ".join(f"parameter_{number}" for number in range(100))
    found = nodes("python", f'def f({parameters}):\n    """{"word " * 1000}"""\n')["f"]
    assert len(found.signature) == MAX_SIGNATURE_CHARS
    assert MAX_DOC_CHARS - 5 <= len(found.doc) <= MAX_DOC_CHARS


@pytest.mark.parametrize(
    ("language", "source", "name", "last"),
    [
        ("haskell", HASKELL, "take", 'take _ = error "empty"'),
        ("elixir", ELIXIR, "Shop.Cart.put", "def put(cart, nil), do: cart"),
    ],
)
def test_clauses_and_their_signature_are_one_definition(language: str, source: str, name: str, last: str) -> None:
    made = chunk_source(source.encode(), language)
    (node,) = (each for each in made.ast_nodes if each.qualified_name == name)
    written = source.encode()[node.start_byte : node.end_byte].decode()
    assert written.startswith(node.signature)
    assert written.rstrip().endswith(last)
    clauses = [at for at, line in enumerate(source.split("\n")) if line.lstrip().startswith(("take ", "def put"))]
    assert node.start_line == clauses[0] and len(clauses) > 1
    assert not [each for each in made.references if each.name == node.name and each.start_line in clauses]


def test_what_stands_between_keeps_clauses_apart() -> None:
    haskell = "f 0 = 1\n{-# ANN f () #-}\nf 1 = 2\ng = f\nf 2 = 3\n"
    found = chunk_source(haskell.encode(), "haskell").ast_nodes
    assert [(node.name, node.start_line, node.end_line) for node in found] == [("f", 0, 2), ("g", 3, 3), ("f", 4, 4)]
    elixir = "defmodule A do\n def f(1), do: 1\n @x 1\n def f(2), do: 2\n def f(3, 4), do: 3\nend\n"
    found = chunk_source(elixir.encode(), "elixir").ast_nodes
    assert [node.name for node in found] == ["A", "f", "x", "f", "f"]


def test_a_licence_and_a_trailing_comment_document_nothing() -> None:
    found = nodes("go", "// Copyright\n\npackage p\n\nvar x = 1 // one\nfunc F() {}\n")
    assert found["F"].doc == ""


def test_thousands_of_comments_on_one_line_cost_no_more_than_their_number() -> None:
    """Looking back to the start of the line for each would read 1 GB here."""
    found = chunk_source(b"function f() {} /* about f */ " * 8_000, "javascript").ast_nodes
    assert len(found) == 8_000
    assert {node.doc for node in found} == {""}


def test_a_file_that_is_cut_by_lines_has_no_nodes() -> None:
    assert chunk_source(b"a = 1\n", "ini").ast_nodes == ()


def test_two_thousand_nested_functions_stay_bounded() -> None:
    depth = 2_000
    source = b"".join(b"function level%d() {\n" % n for n in range(depth)) + b"}\n" * depth
    found = chunk_source(source, "javascript").ast_nodes
    assert len(found) == depth
    assert max(len(node.parent) for node in found) < 600


@settings(max_examples=400, deadline=None)
@given(
    source=st.sampled_from(SOURCES),
    start=st.integers(0, 1500),
    length=st.integers(0, 60),
    inserted=st.binary(max_size=8) | st.sampled_from([b"/*", b"#", b'"""', b"<!--", b"\r\n", b"\xff", b"{", b"}"]),
)
def test_nodes_of_damaged_sources_lie_in_the_file_and_agree_with_the_chunks(
    source: Path, start: int, length: int, inserted: bytes
) -> None:
    data = source.read_bytes()
    data = data[:start] + inserted + data[start + length :]
    made = chunk_source(data, language_of(source.name) or "", max_chars=200, merge_chars=60)
    assert [name for span in made.spans for name in span.symbols] == [node.qualified_name for node in made.ast_nodes]
    assert all(a.start_byte <= b.start_byte for a, b in itertools.pairwise(made.ast_nodes))
    for node in made.ast_nodes:
        assert node.name
        assert 0 <= node.start_byte <= node.end_byte <= len(data)
        assert node.start_line == data.count(b"\n", 0, node.start_byte)
        assert node.start_line <= node.name_start_line <= node.end_line
        line_start = [0, *(at + 1 for at, code in enumerate(data) if code == 10)][node.name_start_line]
        assert node.start_byte <= line_start + node.name_start_column <= node.end_byte
        assert len(node.signature) <= MAX_SIGNATURE_CHARS and len(node.doc) <= MAX_DOC_CHARS
        assert "\n" not in node.signature

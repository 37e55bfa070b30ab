"""Chunks follow the syntax, cover every byte once and carry the right names, whatever the bytes."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codequarry.pipelines.syntax.chunks.chunk import chunk_source
from codequarry.pipelines.syntax.definitions.definitions import outline
from codequarry.pipelines.syntax.grammars import GRAMMARS, grammar
from codequarry.pipelines.syntax.parsing import parse
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.languages import BY_NAME, language_of
from codequarry.schemas.records import ChunkSpan, Definition, FileChunks
from tests.golden.render import render_chunks

SOURCES = Path(__file__).parents[3] / "fixtures" / "sources"
GOLDEN = Path(__file__).parents[3] / "golden" / "chunks"
BY_LANGUAGE = {language_of(path.name) or "": path for path in sorted(SOURCES.iterdir())}
GOLDEN_MAX, GOLDEN_MERGE = 320, 120
DAMAGE = [
    b'"""',
    b"{-",
    b"do\n",
    b"--[[",
    b" where\n",
    *(bytes([code]) for code in b"{}()[]<>\"'`\f\0"),
    b"/*",
    b"\n",
    b"\r\n",
    b"#if\n",
    b"\xef\xbb\xbf",
    b"end\n",
]


def ink(data: bytes) -> int:
    return len(data.translate(None, b" \t\n\r\f\v"))


def texts(data: bytes, chunks: FileChunks) -> list[str]:
    return [data[span.start_byte : span.end_byte].decode() for span in chunks.spans]


def definitions_of(data: bytes, language: str) -> tuple[Definition, ...]:
    name = BY_NAME[language].grammar
    tree = parse(grammar(name), data) if name else None
    return outline(grammar(name), tree, data).definitions if name and tree else ()


def check_partition(data: bytes, spans: tuple[ChunkSpan, ...]) -> None:
    """Every byte once, in order, no span empty; lines counted by line breaks."""
    ends = [0, *(span.end_byte for span in spans)]
    assert [span.start_byte for span in spans] == ends[:-1]
    assert ends[-1] == len(data)
    assert all(a < b for a, b in itertools.pairwise(ends))
    for span in spans:
        assert span.start_line == data.count(b"\n", 0, span.start_byte)
        assert span.end_line == data.count(b"\n", 0, span.end_byte - 1)


def check_chunks(data: bytes, language: str, max_chars: int, merge_chars: int) -> None:
    chunks = chunk_source(data, language, max_chars=max_chars, merge_chars=merge_chars)
    check_partition(data, chunks.spans)
    for span in chunks.spans:
        assert ink(data[span.start_byte : span.end_byte]) <= max_chars + 2 * (merge_chars // 4) + 64
    if not chunks.parsed:
        return
    definitions = definitions_of(data, language)
    assert [name for span in chunks.spans for name in span.symbols] == [entry.qualified_name for entry in definitions]
    cuts = [span.start_byte for span in chunks.spans]
    for entry in definitions:
        if ink(data[entry.start_byte : entry.end_byte]) <= max_chars and not same_extent(data, entry):
            assert not any(entry.start_byte < cut < entry.end_byte for cut in cuts), entry


def same_extent(data: bytes, entry: Definition) -> bool:
    """Whether the definition is the whole file, which is always looked into."""
    return not data[: entry.start_byte].strip() and not data[entry.end_byte :].strip()


@pytest.mark.parametrize("language", sorted(BY_LANGUAGE))
def test_golden(language: str) -> None:
    """Set UPDATE_GOLDEN=1 to write the files anew, then review the difference."""
    data = BY_LANGUAGE[language].read_bytes()
    chunks = chunk_source(data, language, max_chars=GOLDEN_MAX, merge_chars=GOLDEN_MERGE)
    drawn = render_chunks(data, chunks, definitions_of(data, language))
    golden = GOLDEN / f"{language}.txt"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(drawn, encoding="utf-8")
    assert drawn == golden.read_text(encoding="utf-8")


def test_every_grammar_has_a_fixture() -> None:
    assert set(BY_LANGUAGE) == set(GRAMMARS)


@pytest.mark.parametrize("language", sorted(BY_LANGUAGE))
@pytest.mark.parametrize(("max_chars", "merge_chars"), [(1600, 600), (320, 120), (60, 60), (7, 1), (1, 1)])
def test_fixtures_at_every_budget(language: str, max_chars: int, merge_chars: int) -> None:
    check_chunks(BY_LANGUAGE[language].read_bytes(), language, max_chars, merge_chars)


@settings(max_examples=300, deadline=None)
@given(data=st.binary(max_size=400), language=st.sampled_from([*sorted(BY_LANGUAGE), "ini"]))
def test_random_bytes(data: bytes, language: str) -> None:
    check_chunks(data, language, 40, 15)


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(
    language=st.sampled_from(sorted(BY_LANGUAGE)),
    start=st.integers(0, 1500),
    length=st.integers(0, 60),
    inserted=st.one_of(
        st.binary(max_size=8),
        st.sampled_from(DAMAGE),
    ),
    max_chars=st.sampled_from([1600, 200, 50]),
)
@example(language="haskell", start=1152, length=23, inserted=b'"', max_chars=1600)  # a clause inside of an error
def test_damaged_sources(language: str, start: int, length: int, inserted: bytes, max_chars: int) -> None:
    data = BY_LANGUAGE[language].read_bytes()
    check_chunks(data[:start] + inserted + data[start + length :], language, max_chars, max_chars // 3)


STYLES: dict[str, Callable[[bytes], bytes]] = {
    "multi-byte": lambda data: data.replace(b"a", "ä𝒳".encode()).replace(b"o", "語".encode()),
    "multi-byte words": lambda data: data.replace(b" ", "\u00a0é ".encode(), 40),
    "tabs": lambda data: data.replace(b"    ", b"\t").replace(b"  ", b"\t"),
    "form feeds": lambda data: data.replace(b"\n\n", b"\n\f\n\x0b"),
    "CRLF": lambda data: data.replace(b"\n", b"\r\n"),
    "CR": lambda data: data.replace(b"\n", b"\r", 7),
    "no final line break": lambda data: data.rstrip(b"\r\n"),
    "BOM": lambda data: b"\xef\xbb\xbf" + data,
    "not UTF-8": lambda data: data.replace(b"e", b"\xe9", 5),
}


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(
    language=st.sampled_from([*sorted(BY_LANGUAGE), "ini"]),
    styles=st.sets(st.sampled_from(sorted(STYLES)), min_size=1),
    max_chars=st.sampled_from([1600, 320, 90]),
)
def test_sources_in_every_style(language: str, styles: set[str], max_chars: int) -> None:
    data = BY_LANGUAGE.get(language, BY_LANGUAGE["toml"]).read_bytes()
    for name in STYLES:
        if name in styles:
            data = STYLES[name](data)
    check_chunks(data, language, max_chars, max_chars // 3)


@pytest.mark.parametrize("language", ["python", "markdown", "yaml", "ini"])
@pytest.mark.parametrize(
    "data", [b"\n", b" \t\r\n\f", b"\xef\xbb\xbf", b"\0\0", b"x", b"\xff\xfe\n", b"a\r\nb\r\n" * 50]
)
def test_odd_files(data: bytes, language: str) -> None:
    check_chunks(data, language, 10, 4)


@pytest.mark.parametrize("language", ["python", "markdown", "yaml", "ini", "no such language"])
def test_an_empty_file_has_no_spans(language: str) -> None:
    assert chunk_source(b"", language).spans == ()


def test_small_neighbours_merge_and_larger_ones_stand_alone() -> None:
    small = [f"def small_{number}():\n    return {number}\n\n\n" for number in range(3)]
    large = "def large():\n" + "    work(1234567890)\n" * 10 + "\n\n"
    data = "".join([*small, large, *small]).encode()
    chunks = chunk_source(data, "python", max_chars=400, merge_chars=120)
    assert [len(span.symbols) for span in chunks.spans] == [3, 1, 3]
    assert [span.qualified_name for span in chunks.spans] == ["", "large", ""]
    assert [span.kind for span in chunks.spans] == ["block", "function", "block"]


def test_a_small_class_is_named_by_itself_and_not_its_methods() -> None:
    (span,) = chunk_source(b"class A:\n    def b(self): pass\n    def c(self): pass\n", "python").spans
    assert (span.qualified_name, span.kind, span.symbols) == ("A", "class", ("A", "A.b", "A.c"))


def test_pieces_of_a_large_class_know_where_they_are() -> None:
    method = "    def {name}(self):\n" + "        work(1234567890)\n" * 4 + "\n"
    names = ["first", "second", "third", "fourth"]  # by their hashes no anchors
    data = ("class Big:\n" + "".join(method.format(name=name) for name in names)).encode()
    one_each = chunk_source(data, "python", max_chars=200, merge_chars=100).spans
    assert [span.qualified_name for span in one_each] == ["Big", "Big.second", "Big.third", "Big.fourth"]
    two_each = chunk_source(data, "python", max_chars=300, merge_chars=200).spans
    assert [(span.qualified_name, span.kind) for span in two_each] == [("Big", "class"), ("Big", "class")]


def test_pieces_of_a_large_function_carry_its_name() -> None:
    data = ("def big():\n" + "    work(1234567890)\n" * 40).encode()
    spans = chunk_source(data, "python", max_chars=200, merge_chars=100).spans
    assert len(spans) > 4
    assert {(span.qualified_name, span.kind) for span in spans} == {("big", "function")}
    assert [span.symbols for span in spans] == [("big",), *[()] * (len(spans) - 1)]


def test_a_namespace_around_one_definition_gives_way_to_it() -> None:
    data = b"using System;\nnamespace Shop.Mail\n{\n    class Mailer\n    {\n        void Send() { }\n    }\n}\n"
    (span,) = chunk_source(data, "csharp").spans
    assert (span.qualified_name, span.kind) == ("Shop.Mail.Mailer", "class")


@pytest.mark.parametrize(
    ("language", "lead", "definition"),
    [
        ("python", "# why\n@decorated\n@twice(1)\n", "def f():\n    '''doc'''\n"),
        ("go", "// F does.\n//\n// More.\n", "func F() {\n"),
        ("rust", "/// Doc.\n#[inline]\n", "fn f() {\n"),
        ("java", "/** Doc. */\n@Deprecated\n", "class F {\n"),
        ("typescript", "/** Doc. */\n@sealed\nexport ", "class F {\n"),
        ("cpp", "// Doc.\ntemplate <typename T>\n", "class F {\n"),
        ("csharp", "/// <summary>Doc.</summary>\n[Serializable]\n", "class F {\n"),
        ("ruby", "# Doc.\n", "def f\n"),
        ("elixir", '@doc """\nDoc.\n"""\n@spec f() :: 1\n@impl true\n', "def f() do\n"),
        ("haskell", "-- | Doc.\nf :: Int\n", "f = do\n"),
        ("lua", "--- Doc.\n-- @return x\n", "function f()\n"),
        ("zig", "/// Doc.\n", "pub fn f() void {\n"),
    ],
)
def test_comments_and_decorators_stay_with_a_definition_too_large_to_keep_whole(
    language: str, lead: str, definition: str
) -> None:
    fixture = BY_LANGUAGE[language].read_text().removesuffix("return M\n")  # nothing may follow it in Lua
    fillers = {
        "python": "    x = work(12345678)\n",
        "haskell": "    x <- work 12345678\n",
        "zig": "  const x = 12345678;\n",
        **dict.fromkeys(("ruby", "elixir", "lua"), "  x = work(12345678)\n"),
    }
    filler = fillers.get(language, "  int x = 12345678;\n")
    closes = {"python": "", "haskell": "    pure x\n", **dict.fromkeys(("ruby", "elixir", "lua"), "end\n")}
    close = closes.get(language, "}\n")
    data = (fixture + "\n" + lead + definition + filler * 40 + close).encode()
    for part in texts(data, chunk_source(data, language, max_chars=300, merge_chars=100)):
        if definition in part:
            assert part.startswith(lead + definition)
            break
    else:
        pytest.fail("the definition was cut")


def test_closing_brackets_are_not_left_alone() -> None:
    body = "        work(1234567890);\n" * 5
    data = ("namespace a {\nclass B {\n    void c() {\n" + body * 3 + "    }\n}\n}  // namespace a\n").encode()
    for part in texts(data, chunk_source(data, "csharp", max_chars=120, merge_chars=60)):
        assert any(character.isalnum() for character in part.split("//")[0])


def test_a_line_is_cut_only_when_it_is_too_long() -> None:
    data = BY_LANGUAGE["javascript"].read_bytes()
    for span in chunk_source(data, "javascript", max_chars=320, merge_chars=60).spans:
        assert span.start_byte == 0 or data[span.start_byte - 1 : span.start_byte] == b"\n"
    minified = b"var a=[" + b"'0123456789'," * 400 + b"'end'];"
    spans = chunk_source(minified, "javascript").spans
    assert len(spans) > 2
    check_chunks(minified, "javascript", 1600, 600)


def test_a_table_of_numbers_is_cut_by_lines() -> None:
    data = b"int table[] = {\n" + b"  1, 2, 3, 4, 5, 6, 7, 8,\n" * 500 + b"};\n"
    check_chunks(data, "c", 1600, 600)
    cuts = [span.start_byte for span in chunk_source(data, "c").spans[1:]]
    assert cuts
    assert all(data[cut - 1 : cut] == b"\n" for cut in cuts)


def test_a_giant_string_is_cut_between_characters() -> None:
    data = ('x = """' + "é€😀" * 500 + '"""\n').encode()
    chunks = chunk_source(data, "python", max_chars=101, merge_chars=50)
    assert "".join(texts(data, chunks)) == data.decode()


def test_syntax_errors_are_reported_and_do_not_stop_chunking() -> None:
    data = b"def f(:\n    pass\n\n\ndef g():\n    return 1\n"
    chunks = chunk_source(data, "python")
    assert chunks.parsed
    assert chunks.has_syntax_errors
    assert "g" in chunks.spans[-1].symbols
    assert not chunk_source(b"x = 1\n", "python").has_syntax_errors


@pytest.mark.parametrize(
    ("language", "opening", "closing"),
    [
        ("javascript", "function f() {\n", "}\n"),
        ("javascript", "x = [", "]"),
        ("cpp", "namespace a {\n", "}\n"),
        ("ruby", "class A\n", "end\n"),
        ("rust", "mod a {\n", "}\n"),
        ("json", "[", "]"),
        ("ini", "[", "]"),
        ("yaml", "- ", ""),
        ("yaml", "? - ", ""),
        ("yaml", "a: ", ""),
        ("yaml", "[", "]"),
        ("php", "<?php (", ")"),
        ("kotlin", "fun f() { ", " }"),
        ("swift", "a(", ")"),
        ("scala", "class A { ", " }"),
        ("elixir", "def f do ", " end"),
        ("elixir", "f(", ")"),
        ("haskell", "(", ")"),
        ("haskell", "do ", ""),
        ("lua", "function f() ", " end"),
        ("lua", "x = {", "}"),
        ("zig", "const a = struct { ", " };"),
        ("bash", "f() { ", " }"),
        ("sql", "select (", ")"),
        ("html", "<div id='a'>", "</div>"),
        ("css", "a { ", "}"),
        ("markdown", "> - ", ""),
        ("toml", "[", "]"),
    ],
)
def test_nesting_of_two_thousand_levels(language: str, opening: str, closing: str) -> None:
    check_chunks((opening * 2000 + "\n" + closing * 2000).encode(), language, 1600, 600)


def test_yaml_too_deep_for_its_grammar_is_cut_by_lines() -> None:
    """The scanner of tree-sitter-yaml 0.7.2 ends the process at about 250 levels."""
    assert chunk_source(b"- " * 150, "yaml").parsed
    for source in (
        b"- " * 250,
        b"".join(b" " * level + b"a:\n" for level in range(300)),
        b"x: 1\r" + b" " * 250 + b"y",
    ):
        assert not chunk_source(source, "yaml").parsed


@pytest.mark.parametrize("source", [b"->" * 20_000, b"case a:" * 20_000])
def test_a_file_that_will_not_parse_in_time_is_cut_by_lines(source: bytes) -> None:
    chunks = chunk_source(source, "javascript")
    assert not chunks.parsed
    check_partition(source, chunks.spans)
    assert {span.kind for span in chunks.spans} == {"text"}


def test_text_breaks_at_blank_lines() -> None:
    paragraph = "key: 1234567890\n" * 4 + "\n"
    data = (paragraph * 6).encode()
    chunks = chunk_source(data, "ini", max_chars=200, merge_chars=130)
    assert not chunks.parsed
    assert texts(data, chunks) == [paragraph * 2] * 3
    assert {(span.qualified_name, span.kind, span.symbols) for span in chunks.spans} == {("", "text", ())}


def test_text_without_blank_lines_breaks_at_lines() -> None:
    data = ("key: 1234567890\n" * 100).encode()
    parts = texts(data, chunk_source(data, "ini", max_chars=200, merge_chars=130))
    assert all(part.endswith("\n") for part in parts)
    assert max(ink(part.encode()) for part in parts) <= 130 * 5 // 4


def test_markdown_breaks_at_headings_outside_fences() -> None:
    section = "## Section\n\n" + "Some words that fill the line.\n" * 4 + "\n"
    data = (section * 3 + "```sh\n# comment\n```\n").encode()
    parts = texts(data, chunk_source(data, "markdown", max_chars=300, merge_chars=150))
    assert parts[:2] == [section, section]
    assert not any(part.startswith("# comment") for part in parts)


@pytest.mark.parametrize(("max_chars", "merge_chars"), [(10, 20), (0, 0), (10, 0)])
def test_budgets_that_make_no_sense_are_refused(max_chars: int, merge_chars: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{merge_chars} and max_chars is {max_chars}"):
        chunk_source(b"x", "python", max_chars=max_chars, merge_chars=merge_chars)


def test_names_of_deeply_nested_definitions_stay_bounded() -> None:
    """Ten thousand nested functions once cost 350 MB of names, for a file of 200 kB."""
    depth = 2_000
    source = b"".join(b"function level%d() {\n" % n for n in range(depth)) + b"}\n" * depth
    spans = chunk_source(source, "javascript").spans
    assert sum(len(span.symbols) for span in spans) == depth
    assert max(len(name) for span in spans for name in span.symbols) < 600

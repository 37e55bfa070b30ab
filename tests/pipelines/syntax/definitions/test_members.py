"""Names at file and type level beside what a reader would list, and each at the place where it stands."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codequarry.pipelines.syntax.chunks.chunk import chunk_source
from codequarry.pipelines.syntax.definitions.definitions import outline
from codequarry.pipelines.syntax.definitions.members import LocalNames, bindings
from codequarry.pipelines.syntax.grammars import grammar
from codequarry.pipelines.syntax.parsing import parse
from codequarry.pipelines.syntax.references import mention_captures
from codequarry.schemas.languages import language_of
from codequarry.schemas.records import FileChunks

FIXTURES = Path(__file__).parents[3]
GOLDEN = FIXTURES / "golden" / "members.txt"
SOURCES = {language_of(path.name) or "": path for path in sorted((FIXTURES / "fixtures" / "sources").iterdir())}
# Language, source, and its members as "qualified name (kind)".
CASES: dict[str, tuple[str, str]] = {
    "python": (
        "limit = 1\nLIMIT: int = 2\na, b = 1, 2\nclass Box:\n    size: int = 3\n"
        "    def __init__(self, n):\n        self.n = n\n        self.n = other.m = n\n        x = 1\n"
        "    def grow(self):\n        global total\n        self.n += 1\n",
        "limit variable; a variable; b variable; Box.size attribute; Box.n attribute",
    ),
    "typescript": (
        "const size = 1; let { a, b: c } = f();\nenum Colour { Red, Green = 2 }\ninterface Port { open: boolean }\n"
        "class Box { n = 0; constructor(private x: number, y: number) { const z = y } }\n"
        "export const routes = { home: 1, about: { deep: 2 } };\n",
        "size variable; a variable; c variable; Colour.Red enum_member; Colour.Green enum_member; Port.open property; "
        "Box.n field; Box.x property; routes variable; routes.home property; routes.about property; "
        "routes.deep property",
    ),
    "go": (
        "package p\nvar ErrGone, count = 1, 2\nconst (\n\tLow = iota\n\tHigh\n)\n"
        "type Box struct {\n\tname, label string\n\tn int\n}\nfunc f(x int) { y := x; var z = y; _ = z }\n",
        "ErrGone variable; count variable; Box.name field; Box.label field; Box.n field",
    ),
    "java": (
        "class Box { private int n = 1, m; enum Colour { RED, GREEN }\n  void f(int x) { int y = x; } }\n"
        "record Pair(int left, int right) {}\n",
        "Box.n field; Box.m field; Box.Colour.RED enum_member; Box.Colour.GREEN enum_member; Pair.left field; "
        "Pair.right field",
    ),
    "csharp": (
        "class Box { int n; public int Size { get; set; } event Run Ran;\n  void F(int x) { var y = x; } }\n"
        "enum Colour { Red }\n",
        "Box.n field; Box.Size property; Box.Ran event; Colour.Red enum_member",
    ),
    "kotlin": (
        "val limit = 1\nclass Box(val n: Int, m: Int) {\n    var size = 2\n    fun f(x: Int) { val y = x }\n}\n"
        "enum class Colour { RED }\n",
        "limit variable; Box.n property; Box.size property; Colour.RED enum_member",
    ),
    "ruby": (
        "class Box\n  attr_reader :size, :name\n  alias grow put\n  def put(x)\n    y = x\n  end\nend\n",
        "Box.size accessor; Box.name accessor; Box.grow method",
    ),
    "rust": (
        "struct Box { size: u8 }\nenum Colour { Red(u8), Green }\nmod far;\ntrait T { type Item; }\n"
        "fn f(x: u8) { let y = x; }\n",
        "Box.size field; Colour.Red enum_member; Colour.Green enum_member; far module; T.Item type",
    ),
    "c": (
        "#define LIMIT 1\nint count, *next;\nint put(int item);\nstruct box { int n; char *name; };\n"
        "enum colour { RED };\nint grow(int x) { int y = x; int put(int); return y; }\n",
        "count variable; next variable; put function; box.n field; box.name field; colour.RED enum_member",
    ),
    "cpp": (
        "class Box { public: Box(int n); ~Box(); int size; static int limit; };\nint Box::limit = 1;\n",
        "Box.Box method; Box.~Box method; Box.size field; Box.limit field; Box.limit variable",
    ),
    "php": (
        "<?php\nclass Box { private $n = 1; function __construct(public int $size, int $m) {} }\n"
        "enum Colour { case Red; }\n",
        "Box.n property; Box.size property; Colour.Red enum_member",
    ),
}  # fmt: skip


def members(language: str, source: str) -> str:
    made = chunk_source(source.encode(), language)
    assert made.parsed and not made.has_syntax_errors
    return "; ".join(f"{node.qualified_name} {node.kind}" for node in made.members)


@pytest.mark.parametrize("language", CASES)
def test_members_of_a_file_and_its_types(language: str) -> None:
    source, expected = CASES[language]
    assert members(language, source) == expected


def test_golden() -> None:
    """Set UPDATE_GOLDEN=1 to write the file anew, then review the difference."""
    drawn = [
        f"{language:10} {node.name_start_line:3}:{node.name_start_column:<3} {node.qualified_name} ({node.kind})"
        for language, path in sorted(SOURCES.items())
        for node in chunk_source(path.read_bytes(), language).members
    ]
    if os.environ.get("UPDATE_GOLDEN") == "1":
        GOLDEN.write_text("\n".join(drawn) + "\n", encoding="utf-8")
    assert drawn == GOLDEN.read_text(encoding="utf-8").splitlines()


def check_places(data: bytes, made: FileChunks) -> None:
    """Every definition and every member has its name where it says; none is both, and no use stands there."""
    lines = data.split(b"\n")
    places = [(node.name_start_line, node.name_start_column) for node in made.members]
    for node in made.members:
        name = data[node.name_start_byte :].decode("utf-8", "replace")
        assert name.startswith(node.name)
        assert data[: node.name_start_byte].count(b"\n") == node.name_start_line
        assert (
            lines[node.name_start_line][node.name_start_column :]
            .decode("utf-8", "replace")
            .startswith(node.name.split("\n")[0])
        )
        assert node.start_byte <= node.name_start_byte < node.end_byte <= len(data)
    assert len(places) == len(set(places))
    assert not set(places) & {(node.name_start_line, node.name_start_column) for node in made.ast_nodes}
    assert not set(places) & {(one.start_line, one.start_column) for one in made.references}


@settings(max_examples=250, deadline=None)
@given(
    language=st.sampled_from(sorted(SOURCES)),
    start=st.integers(0, 1500),
    length=st.integers(0, 60),
    inserted=st.one_of(
        st.just(b""), st.binary(max_size=8), st.sampled_from([b"{", b"}", b"(", "é = ü".encode(), b"\r\n"])
    ),
)
def test_every_name_stands_at_its_place(language: str, start: int, length: int, inserted: bytes) -> None:
    data = SOURCES[language].read_bytes()
    data = data[:start] + inserted + data[start + length :]
    check_places(data, chunk_source(data, language))


def local_names(language: str, source: bytes) -> LocalNames:
    loaded = grammar(language)
    tree = parse(loaded, source)
    assert tree is not None
    return bindings(loaded, mention_captures(loaded, tree), outline(loaded, tree, source), source).locals


def holds(language: str, source: str, name: str) -> list[bool]:
    """Whether a name is a local, at each place where it stands."""
    found = local_names(language, source.encode())
    return [found.hold(name, place.start()) for place in re.finditer(rf"\b{name}\b", source)]


def test_a_local_is_one_from_where_it_is_bound() -> None:
    assert holds("go", "package p\nfunc f() {\n\tit()\n\tit := 1\n\tuse(it)\n}\nvar it = 1\n", "it") == [
        False, True, True, False,
    ]  # fmt: skip
    assert holds("python", "def f():\n    it\n    it = 1\nit\n", "it") == [True, True, False]
    assert holds("python", "def f():\n    it\n    it = 1\nit\n", "f") == [False]


def test_locals_of_functions_in_functions() -> None:
    source = "def f(x):\n    def g(y):\n        return x, y\n    return y\n"
    assert (holds("python", source, "x"), holds("python", source, "y")) == ([True, True], [True, True, False])


def test_globals_and_prototypes_are_no_locals() -> None:
    assert holds("python", "def f():\n    global it\n    it = 1\ndef g():\n    it = 1\n", "it") == [False, False, True]
    assert holds("c", "int f(void) { int it(int); return it(1); }\n", "it") == [False, False]
    assert holds("lua", "function f() it = 1; local so = 1; return it end\n", "it") == [False, False]

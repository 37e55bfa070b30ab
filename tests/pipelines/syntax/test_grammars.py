"""Every packaged grammar finds its definitions under the names people use for them."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from codequarry.pipelines.store import library_versions
from codequarry.pipelines.syntax.definitions.definitions import Outline, outline
from codequarry.pipelines.syntax.definitions.names import clean_name
from codequarry.pipelines.syntax.grammars import GRAMMARS, grammar
from codequarry.pipelines.syntax.parsing import parse
from codequarry.schemas.errors import NotFoundError
from codequarry.schemas.languages import LANGUAGES


def outline_of(name: str, source: str) -> Outline:
    data = source.encode()
    loaded = grammar(name)
    tree = parse(loaded, data)
    assert tree is not None
    assert not tree.root_node.has_error, str(tree.root_node)
    return outline(loaded, tree, data)


CASES = [
    ("python", "class A:\n  @p\n  def b(self):\n    def c(): pass\n", "class A, method A.b, function A.b.c"),
    ("python", "FOO = 1\nbar = 2\ntype X = int\nasync def d(): pass\n", "constant FOO, type X, function d"),
    ("javascript", "export const f = () => 1; function* g() {}", "function f, function g"),
    ("javascript", "exports.x = function () {}; A.prototype.z = () => 1;", "function x, function A.z"),
    (
        "javascript",
        "class A { static #p = () => 1; [Symbol.iterator]() {} }",
        "class A, method A.#p, method A.Symbol.iterator",
    ),
    (
        "javascript",
        "const api = { get() {}, v1: { put: () => 1 } }; const o = { a: 1 };",
        "method api.get, method api.v1.put",
    ),
    (
        "typescript",
        "namespace N { abstract class C { x = () => 1; abstract q(): void } }",
        "namespace N, class N.C, method N.C.x, method N.C.q",
    ),
    (
        "typescript",
        "interface I { f(): void }\nenum E { A }\ntype T = string;",
        "interface I, method I.f, enum E, type T",
    ),
    ("tsx", "const App = () => <p>{x}</p>;", "function App"),
    (
        "go",
        "package p\nfunc (r *Repo) Open() {}\nfunc (s Stack[T]) Push() {}\nfunc m() {}",
        "method Repo.Open, method Stack.Push, function m",
    ),
    (
        "go",
        "package p\ntype (\n R struct{}\n I interface{ F() }\n)\nconst X, Y = 1, 2",
        "struct R, interface I, method I.F, constant X",
    ),
    ("rust", "impl<T> fmt::Display for Repo<T> { fn open(&self) {} }", "method Repo.open"),
    (
        "rust",
        "mod a { pub trait T { fn g(); } enum E {} }\nmacro_rules! m { () => {} }",
        "module a, trait a.T, method a.T.g, enum a.E, macro m",
    ),
    (
        "java",
        "package x; class A { A() {} interface I { void q(); } static final int N = 1; }",
        "class A, method A.A, interface A.I, method A.I.q, constant A.N",
    ),
    ("java", "record P(int x) { void m() {} } enum E { B }", "class P, method P.m, enum E"),
    (
        "c",
        "#define A_H\n#define N 1\n#define F(x) x\ntypedef struct { int a; } t;\nchar **f() { return 0; }\nint g();",
        "constant N, macro F, struct t, function f",
    ),
    (
        "c",
        "typedef struct bar { int a; } bar_t;\ntypedef int (*cb)(int);\nenum e { A };",
        "type bar_t, struct bar, type cb, enum e",
    ),
    (
        "cpp",
        "namespace a::b { template <class T> class X<T*> { ~X() {} T& f() { return x; } }; }",
        "namespace a.b, class a.b.X, method a.b.X.~X, method a.b.X.f",
    ),
    (
        "cpp",
        "template <class T> T& a::X<T>::get(int i) { return x; }\nbool A::operator<(int x) { return 1; }",
        "method a.X.get, method A.operator<",
    ),
    (
        "csharp",
        "namespace A.B;\nclass C { void M() { void L() {} } }",
        "class A.B.C, method A.B.C.M, function A.B.C.M.L",
    ),
    (
        "csharp",
        "namespace A { record R(int X); interface I { void Q(); } }",
        "namespace A, class A.R, interface A.I, method A.I.Q",
    ),
    (
        "ruby",
        "module A\n class B\n  def c; end\n  def self.d=(v); end\n  def <=>(o); end\n end\nend",
        "module A, class A.B, method A.B.c, method A.B.d=, method A.B.<=>",
    ),
    (
        "ruby",
        "class A::B\n class << self\n  def x; end\n end\n FOO = 1\nend",
        "class A.B, method A.B.x, constant A.B.FOO",
    ),
    (
        "php",
        "<?php namespace A\\B { const X = 1; trait T { function f() {} } } namespace { enum E {} interface I {} }",
        "namespace A.B, constant A.B.X, trait A.B.T, method A.B.T.f, enum E, interface I",
    ),
    (
        "kotlin",
        "interface F {\nfun f()\n}\nenum class E { A }\nobject O {\nconst val N = 1\nfun <T> List<T>.g() {}\n}",
        "interface F, method F.f, enum E, object O, constant O.N, method O.List.g",
    ),
    (
        "swift",
        "actor A { init() {} }\nstruct S { static func == (a: S, b: S) -> Bool { true } }\ntypealias T = Int",
        "class A, method A.init, struct S, method S.==, type T",
    ),
    (
        "swift",
        "extension A.B { enum C { case x } }\nlet limit = 1\nvar other = 2",
        "enum A.B.C, constant limit",
    ),
    (
        "scala",
        "package p\nobject O { type T = Int; val Max = 1; val x = 2; def ::(a: Int): Int = a }\ncase class C(x: Int)",
        "object O, type O.T, constant O.Max, method O.::, class C",
    ),
    (
        "elixir",
        "defmodule A.B do\n @limit 1\n @type t(x) :: x\n defstruct [:x]\n def f(1), do: 2\n def f(x), do: x\n"
        " def f(x, y), do: x\n defp g?, do: 1\n defmacro m(x) do x end\n defmodule C do\n def h do 1 end\n end\nend",
        "module A.B, constant A.B.limit, type A.B.t, struct A.B.defstruct, function A.B.f, function A.B.f, "
        "function A.B.g?, macro A.B.m, module A.B.C, function A.B.C.h",
    ),
    (
        "elixir",
        "defprotocol P do\n def size(x)\nend\ndefimpl P, for: [A.B, C] do\n def size(x) when x > 1, do: 1\nend\n"
        "defmodule D do\n @callback run(x :: term) :: :ok\n @callback stop :: :ok\n def a <~> b, do: a\n"
        " def unquote(x)(), do: 1\n defguard is_x(a) when a\n defdelegate len(a), to: B\n defimpl P do\n end\nend",
        "interface P, method P.size, module P.A.B, function P.A.B.size, module D, method D.run, method D.stop, "
        "function D.<~>, macro D.is_x, function D.len, module D.P",
    ),
    (
        "haskell",
        "module A.B where\nf :: Int -> Int\nf 0 = 1\nf n = go n where\n  go :: Int -> Int\n  go x = x\n\n"
        "g' = 1\n(<+>) :: Int\na <+> b = a\n(x `on` f) y = x\n(p, q) = (1, 2)\n",
        "module A.B, function f, function f.go, function g', function <+>, function on",
    ),
    (
        "haskell",
        "data T = X | Y\ndata R = R { a :: Int }\ndata G where\n  G1 :: G\n  G2 :: G\nnewtype N = N Int\n"
        "type S = [Int]\ntype family F a where\n  F Int = S\nclass C a where\n  type E a\n  m :: a\n  m = undefined\n"
        "  default n :: Int\n  n :: a\n  n = undefined\npattern P x = (x, 1)\n",
        "enum T, struct R, enum G, struct N, type S, type F, class C, type C.E, method C.m, method C.n, function P",
    ),
    (
        "haskell",
        "instance C (M.Map k v) where\n  m = 1\ninstance D [a] Int\ninstance (C f, C g) => C' (f :*: g) where\n"
        "  x <> y = x\ninstance C ((,) a) where\n",
        "object C.Map, method C.Map.m, object D.[a], object C'.:*:, method C'.:*:.<>, object C.((,) a)",
    ),
    (
        "lua",
        "local M = {}\nfunction M.f() end\nfunction M.a.b:g() end\nlocal function h() end\nM.i = function() end\n"
        "M['j'] = function() end\nlocal k, l = function() end, 1\nLIMIT, low = 1, 2\nM.MAX = 3\nlocal N = require('n')",
        "object M, function M.f, method M.a.b.g, function h, function M.i, "
        "function M.j, constant LIMIT, constant M.MAX",
    ),
    (
        "lua",
        "local C = setmetatable({}, {})\nC.opts = { run = function() end, deep = { go = function() end }, x = 1 }\n"
        "local function out() local inner = function() end\n local t = { cb = function() end } end",
        "object C, object C.opts, method C.opts.run, method C.opts.deep.go, function out, function out.inner, "
        "method out.t.cb",
    ),
    (
        "zig",
        "pub const A = struct { const B = enum { x, fn f() void {} }; const n = 1; };\n"
        "const U = union(enum) { a: u8 };\n"
        'const E = error{Bad};\nconst std = @import("std");\nconst Self = @This();\nvar v = 1;\nconst k: u8 = 2;',
        "struct A, enum A.B, method A.B.f, constant A.n, struct U, enum E, constant k",
    ),
    (
        "zig",
        "pub fn List(comptime T: type) type { return struct { fn push(x: T) void {} }; }\n"
        "extern fn puts(s: [*]u8) c_int;\n"
        'test "adds two" {}\ntest List {}\ntest {}\nconst S = struct { test "deep" {} };',
        "struct List, method List.push, function puts, function adds two, struct S, function S.deep",
    ),
    ("bash", "export FOO=1\nbar=2\nf() { X=1; }\nfunction g { true; }", "constant FOO, function f, function g"),
    (
        "sql",
        "CREATE TABLE a.b (x INT); CREATE OR REPLACE VIEW v AS SELECT 1; CREATE TYPE t AS ENUM ('x');",
        "table a.b, view v, type t",
    ),
    ("html", '<main id="a"><br id="b"/><p class="x">t</p></main>', "element a, element a.b"),
    (
        "css",
        "a, b > c { x: y } @media print { #d { x: y } } @keyframes k { from { x: y } }",
        "rule a, b > c, rule #d, rule k",
    ),
    (
        "markdown",
        "One\n===\n\n## Two `x`\n\n```\n# no\n```\n\n# Three\n",
        "section One, section Two `x`, section Three",
    ),
    ("toml", "a.b = 1\n[c]\nx = 1\n[c.d]\n[[e]]\n", "key a.b, key c, key c.d, key e"),
    ("yaml", "a: 1\n'b c':\n  d: 1\n  e:\n    f: 1\n  g:\n    - 1\n", "key a, key b c, key b c.e, key b c.g"),
    ("json", '{"a": 1, "b": {"c": 1, "d": [], "e": {"f": {}}}}', "key a, key b, key b.d, key b.e"),
]


@pytest.mark.parametrize(("name", "source", "expected"), CASES)
def test_definitions_have_the_names_people_use(name: str, source: str, expected: str) -> None:
    found = outline_of(name, source).definitions
    assert ", ".join(f"{definition.kind} {definition.qualified_name}" for definition in found) == expected


def test_the_manifest_names_the_version_of_every_grammar() -> None:
    packages = {source.module.replace("_", "-") for source in GRAMMARS.values()}
    assert set(library_versions.GRAMMARS) == packages


def test_a_definition_spans_its_node() -> None:
    (definition,) = outline_of("python", "# x\ndef f():\n    pass\n# y\n").definitions
    assert (definition.start_byte, definition.end_byte) == (4, 21)


def test_containers_without_definitions_are_not_scopes() -> None:
    assert [scope.qualified_name for scope in outline_of("javascript", "x = 1; const o = { a: { b: 1 } }").scopes] == []
    assert [(scope.qualified_name, scope.kind) for scope in outline_of("rust", "impl A { fn f() {} }").scopes] == [
        ("A", "impl")
    ]


def test_a_file_scoped_namespace_reaches_to_the_end() -> None:
    source = "namespace A;\nclass B {}\nclass C {}\n"
    (scope,) = outline_of("csharp", source).scopes
    assert (scope.kind, scope.end_byte) == ("namespace", len(source))


@pytest.mark.parametrize(
    ("written", "cleaned"),
    [
        (b"Stack<Map<K, V>>::push", "Stack::push"),
        (b"A<B>::operator<=>", "A::operator<=>"),
        (b"operator\n  bool", "operator bool"),
        (b"my_operator_x", "my_operator_x"),
        (b"module.exports.open", "open"),
        (b"this.open", "open"),
        (b"make().handler", "handler"),
        (b"'content-type'", "content-type"),
        (b"[]=", "[]="),
        (b"caf\xc3\xa9", "café"),
        (b"\xff", "\ufffd"),
        (b"x" * 5000, "x" * 200),
    ],
)
def test_names_are_cleaned(written: bytes, cleaned: str) -> None:
    assert clean_name(written) == cleaned


def test_every_grammar_of_the_language_table_is_packaged() -> None:
    assert {language.grammar for language in LANGUAGES if language.grammar} == set(GRAMMARS)


@pytest.mark.parametrize("name", GRAMMARS)
def test_named_kinds_are_words_in_ascii(name: str) -> None:
    """The chunker looks for leaves by such words."""
    language = grammar(name).language
    named = [kind for kind in range(language.node_kind_count) if language.node_kind_is_named(kind)]
    kinds = {language.node_kind_for_id(kind) or "" for kind in named}
    assert kinds
    assert [kind for kind in kinds if not re.fullmatch("[A-Za-z0-9_]+", kind)] == []


def test_an_unknown_grammar_names_the_known_ones() -> None:
    with pytest.raises(NotFoundError, match="cobol") as caught:
        grammar("cobol")
    assert "python" in caught.value.suggestion


def test_importing_the_chunker_loads_no_grammar() -> None:
    """The code location is imported by every Dagster step, which must not pay for two dozen grammars."""
    code = (
        "import sys; import codequarry.pipelines.syntax.chunks.chunk; "
        "sys.exit(any(name.startswith('tree_sitter') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("source", ["->" * 20_000, "case a:" * 20_000])
def test_a_parse_that_takes_too_many_steps_is_given_up(source: str) -> None:
    assert parse(grammar("javascript"), source.encode()) is None

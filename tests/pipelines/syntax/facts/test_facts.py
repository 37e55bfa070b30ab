"""What every language's files import and offer, how they branch, and what they say of themselves."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codequarry.pipelines.syntax.chunks.chunk import chunk_source
from codequarry.pipelines.syntax.facts.imports import expand
from codequarry.schemas.languages import LANGUAGES, MODULE_LANGUAGES, language_of
from codequarry.schemas.records import ModuleFacts

PROJECT = Path(__file__).parents[4]


def facts(language: str, source: str) -> ModuleFacts:
    made = chunk_source(source.encode(), language)
    assert made.parsed and not made.has_syntax_errors
    assert made.module is not None
    return made.module


class Case(NamedTuple):
    """A file, and what a reader would say of it."""

    source: str
    imports: str
    """``source: name, name=alias`` each, separated by ``|``."""
    exports: str
    branches: int
    doc: str = ""
    package: str = ""
    entry_point: bool = False


CASES: dict[str, Case] = {
    "python": Case(
        '"""Money.\n\nMore."""\n# a note\nimport os.path, json as j\nfrom . import x\nfrom ..y import z as w, v\n'
        "from q import *\nRATE = 1\n_hidden = 2\nclass Bag:\n    def put(self): pass\ndef _f():\n    pass\n"
        "if a and b or c: pass\nelif d: pass\nfor x in y: pass\nwhile z: pass\ntry: pass\nexcept E: pass\n"
        "match x:\n    case 1: pass\n    case _: pass\nx = a if b else [x for y in z if w]\n"
        'if __name__ == "__main__": pass\n',
        "os.path | json | .: x | ..y: z=w, v | q: *",
        "RATE Bag",
        12,
        doc="Money.",
        entry_point=True,
    ),
    "javascript": Case(
        "#!/usr/bin/env node\n/**\n * @fileoverview Routes.\n */\nimport a, {b as c, d} from './x.js';\n"
        "import * as ns from 'y';\nimport 'z';\nexport { q as r } from './q';\nexport * from './all';\n"
        "const t = require('./t');\nexport default function main() {}\nexport const k = 1;\nexport class A {}\n"
        "module.exports = { e, f: g, h() {} };\nexports.i = await import('./dyn');\n"
        "if (a && b || c ?? d) {} else if (x) {}\nfor (const i of y) {}\nfor (;;) {}\nwhile (1) {}\ndo {} while (2);\n"
        "switch (a) { case 1: break; default: }\ntry {} catch (e) {}\nx = a ? b : c;\n",
        "./x.js: default=a, d, b=c | y | z | ./q: q=r | ./all: * | ./t | ./dyn",
        "r default k A e f h i",
        12,
        doc="Routes.",
        entry_point=True,
    ),
    "typescript": Case(
        "// eslint-disable no-console\n// Types of the store.\n\nimport type { T } from './t';\n"
        "import fs = require('fs');\n"
        "export interface I {}\nexport type X = string;\nexport enum E { A }\nexport abstract class C {}\n"
        "export declare function f(): void;\nexport namespace N { export const inner = 1; }\n"
        "function hidden(a?: number) { return a === 1 ? 2 : 3; }\n",
        "./t: T | fs",
        "I X E C f N",
        1,
        doc="Types of the store.",
    ),
    "tsx": Case(
        "import React from 'react';\nexport const App = () => <p>{ok && <b/>}</p>;\nexport default App;\n",
        "react: default=React",
        "App default",
        1,
    ),
    "go": Case(
        "// Copyright 2031 Nobody. All rights reserved.\n\n// Package main serves.\n//\n// Fast.\npackage main\n\n"
        'import "fmt"\nimport (\n\tx "a/b"\n\t. `c/d`\n)\n\nconst Limit = 1\n\ntype door struct{}\n\n'
        "func (d door) Open() {}\n\nfunc Run() {}\n\nfunc main() {\n\tif a && b || c {\n\t}\n\tfor {\n\t}\n"
        "\tswitch x {\n\tcase 1, 2:\n\tdefault:\n\t}\n\tselect {\n\tcase <-c:\n\tdefault:\n\t}\n}\n",
        "fmt | a/b | c/d",
        "Limit Run",
        6,
        doc="Package main serves.",
        package="main",
        entry_point=True,
    ),
    "rust": Case(
        "//! Caches things.\n\n#![allow(x)]\nmod store;\n"
        "pub mod api { use super::inner::A; use super::super::B; mod deep; }\n"
        "use crate::a::{b, c::{self, d as e}, *};\npub use self::q::R as S;\nextern crate serde;\npub struct Cache;\n"
        "struct Hidden;\nfn main() { if a && b || c {} for x in y {} while z {}\n"
        "match q { 1 => 2, _ if w => 3, _ => 4 } }\n",
        "self::store | self::inner::A | super::B | self::api::deep | crate::a::b | crate::a::c | crate::a::c::d "
        "| crate::a::* | self::q::R | serde",
        "api Cache S",
        7,
        doc="Caches things.",
        entry_point=True,
    ),
    "java": Case(
        "/* Licensed under the MIT license. */\npackage a.b;\n\nimport a.b.C;\nimport static a.b.C.m;\n"
        "import a.c.*;\n\n"
        "public class X { public static void main(String[] args) { if (a && b || c) {} for (;;) {} for (int i : x) {}\n"
        "while (a) {} do {} while (b); switch (x) { case 1: break; case 2, 3: default: }\n"
        "try {} catch (E e) {} x = a ? b : c; } }\nclass Hidden {}\n",
        "a.b.C | a.b.C.m | a.c.*",
        "X",
        11,
        package="a.b",
        entry_point=True,
    ),
    "c": Case(
        '/* A ring buffer. */\n\n#include "ring.h"\n#include <stdio.h>\n\nstatic int hidden(void) { return 0; }\n'
        "int main(int n) { if (a && b || c) {} for (;;) {} while (1) {} do {} while (1);\n"
        "switch (x) { case 1: case 2: break; default: ; } return a ? b : c; }\n",
        "ring.h | <stdio.h>",
        "main",
        9,
        doc="A ring buffer.",
        entry_point=True,
    ),
    "cpp": Case(
        '#pragma once\n// Vectors.\n\n#include "base.hpp"\n\n'
        "namespace math { class Vec { int at(); }; static void local() {} }\n"
        "void go() { for (auto x : y) {} try {} catch (int e) {} if (a and b) {} }\n",
        "base.hpp",
        "Vec go",
        4,
        doc="Vectors.",
    ),
    "csharp": Case(
        "using A.B;\nusing static A.B.C;\nusing X = A.B.D<int>;\nnamespace N.M;\npublic class P {\n"
        "static void Main(string[] a) { if (a && b || c) {} foreach (var x in y) {} while (a) {}\n"
        "switch (x) { case 1: break; default: break; } var q = x switch { 1 => 2, _ => 3 };\n"
        "try {} catch (E e) {} var z = a ? b : c ?? d; } }\ninternal class Hidden {}\n",
        "A.B | A.B.C | A.B.D",
        "P",
        10,
        package="N.M",
        entry_point=True,
    ),
    "ruby": Case(
        "# frozen_string_literal: true\n\n# Parses text.\n\nrequire 'a/b'\nrequire_relative 'c'\n"
        "autoload :Foo, 'x/foo'\n"
        "module Text\n  class Parser\n    def read = nil\n  end\nend\nif a && b || c then 1 elsif e then 2 end\n"
        "while a do end\ncase x when 1 then 2 else 3 end\nbegin; rescue E => e; end\nfoo unless bar\nx = a ? b : c\n"
        "if __FILE__ == $0\nend\n",
        "a/b | ./c | x/foo",
        "Text Parser",
        10,
        doc="Parses text.",
        entry_point=True,
    ),
    "php": Case(
        "<?php\n/** A shop. */\n\nnamespace A\\B;\n\nuse C\\D;\nuse H\\{I, J as K};\n"
        "use function L\\m;\nrequire 'x.php';\n"
        "class Basket { private function f() {} }\nfunction sell() {}\n"
        "if ($a && $b) {} elseif ($e) {}\nforeach ($a as $b) {}\nswitch ($x) { case 1: break; default: }\n"
        "$q = match($x) { 1 => 2, default => 3 };\n$z = $a ? $b : $c ?? $d;\n",
        "C\\D | H\\I | H\\J | L\\m | require 'x.php'",
        "Basket sell",
        8,
        doc="A shop.",
        package="A.B",
    ),
    "kotlin": Case(
        "package a.b\n\nimport a.b.C\nimport a.b.*\nimport a.b.D as E\n\nprivate fun hidden() {}\nclass Session\n"
        "fun main() {\n  if (a && b) {}\n  for (x in y) {}\n  when (x) {\n    1 -> 2\n    else -> 3\n  }\n"
        "  try {} catch (e: E) {}\n  val q = a ?: b\n}\n",
        "a.b.C | a.b.* | a.b.D",
        "Session main",
        6,
        package="a.b",
        entry_point=True,
    ),
    "swift": Case(
        "import Foundation\n@testable import Shop\nimport struct A.B\n\nprivate struct Hidden {}\n"
        "public class Sensor {}\n"
        "@main struct App {}\nfunc f() {\n  if a && b || c {}\n  guard let x = y else { return }\n  for i in x {}\n"
        "  switch x {\n  case 1, 2: break\n  default: break\n  }\n  let z = a ? b : c ?? d\n}\n",
        "Foundation | Shop | A.B",
        "Sensor App f",
        8,
        entry_point=True,
    ),
    "scala": Case(
        "package a\npackage b\n\nimport x.y.Z\nimport x.{A, B => C, _}\nimport q.r, s.t\n\nprivate class Hidden\n"
        "object Graph { def main(args: Array[String]): Unit = { if (a && b) 1 else 2; for (x <- y if z) {}\n"
        "x match { case 1 => 2\ncase _ => 3 } } }\n",
        "x.y.Z | x.A | x.B | x.* | q.r | s.t",
        "Graph",
        5,
        package="a.b",
        entry_point=True,
    ),
    "elixir": Case(
        '# Copyright 2031\n\ndefmodule Shop.Cart do\n  @moduledoc """\n  Holds items.\n  """\n'
        "  use GenServer, restart: :temporary\n"
        "  alias Shop.{Item, Tax.Rate}\n  alias __MODULE__.Line\n  alias Shop.Money, as: M\n"
        "  import Ecto.Query, only: [from: 2]\n"
        "  require Logger\n  @limit 1\n  @type t :: map\n  @typep hidden :: map\n  defstruct []\n"
        "  def put(a, b) do\n    if a && b, do: c\n    unless a or b, do: c\n    for x <- a, do: x\n"
        "    case a do\n      1 -> 2\n      2 -> 3\n      _ -> 4\n    end\n"
        "    cond do\n      a -> 1\n      true -> 2\n    end\n"
        "    with {:ok, x} <- a do x else :error -> 1 end\n    fn x -> x end\n  rescue\n    e -> e\n  end\n"
        "  defp own, do: 1\n  defmacro mac(a), do: a\n  defmodule Line do\n  end\nend\n",
        "GenServer | Shop.Item | Shop.Tax.Rate | __MODULE__.Line | Shop.Money | Ecto.Query | Logger",
        "Cart t put mac Line",
        11,
        doc="Holds items.",
        package="Shop.Cart",
    ),
    "haskell": Case(
        "{-# LANGUAGE GADTs #-}\n{-|\nModule      : Shop.Cart\nCopyright   : (c) Nobody 2031\n\nHolds items.\n-}\n"
        "module Shop.Cart (Cart (..), put, (<+>), module Shop.Item) where\n\nimport qualified Data.Map as M\n"
        "import Shop.Item (Item (..), total)\nimport Prelude hiding (map)\n\ndata Cart = Cart\n"
        "put a b\n  | a && b = 1\n  | a, b = 2\n  | otherwise = 3\nhidden a = if a || b then 1 else case a of\n"
        "  1 -> 2\n  _ -> 3\nmain = put\n",
        "Data.Map | Shop.Item | Prelude",
        "Cart put <+>",
        6,
        doc="Holds items.",
        package="Shop.Cart",
        entry_point=True,
    ),
    "lua": Case(
        "#!/usr/bin/env lua\n--- Holds items.\n-- @module cart\nlocal M = {}\nlocal a = require('shop.item')\n"
        "local b = require \"json\"\nlocal ok, c = pcall(require, 'a.b')\nfunction M.put(x)\n"
        "  if x and y or z then elseif w then else end\n  for i = 1, 2 do end\n  for k in pairs(x) do end\n"
        "  while x do end\n  repeat until x\nend\nfunction M:take() end\nM.limit = 1\nlocal function hidden() end\n"
        "function global() end\nreturn M\n",
        "shop.item | json | a.b",
        "put take limit global",
        8,
        doc="Holds items.\n@module cart",
        entry_point=True,
    ),
    "zig": Case(
        '//! Holds items.\n\nconst std = @import("std");\nconst item = @import("shop/item.zig");\n'
        'const Own = @import("own.zig").Own;\npub const Cart = struct { x: u8 };\nconst Hidden = struct { x: u8 };\n'
        "pub fn main() !void {\n  if (a and b or c) {}\n  for (a) |x| {}\n  while (a) {}\n"
        "  switch (x) { 1, 2 => {}, 3...4 => {}, else => {} }\n  const y = a orelse b;\n  f() catch {};\n"
        "  const z = if (a) 1 else 2;\n}\nexport fn entry() void {}\n",
        "std | ./shop/item.zig | ./own.zig",
        "Cart main entry",
        10,
        doc="Holds items.",
        entry_point=True,
    ),
    "bash": Case(
        '#!/bin/bash\n# Backs up.\n\nsource ./lib.sh\n. "$(dirname "$0")/x.sh"\nsave() {\n  if a && b; then :; fi\n'
        "  for x in y; do :; done\n  case x in 1) :;; *) :;; esac\n}\n",
        './lib.sh | "$(dirname "$0")/x.sh"',
        "save",
        4,
        doc="Backs up.",
        entry_point=True,
    ),
    "sql": Case(
        "-- The tables.\n\nCREATE TABLE item (x INT);\nSELECT CASE WHEN a = 1 AND b = 2 THEN 1 ELSE 3 END FROM t;\n",
        "",
        "item",
        2,
        doc="The tables.",
    ),
}


def test_every_language_with_a_module_query_has_a_case() -> None:
    assert CASES.keys() == MODULE_LANGUAGES
    assert len(CASES) == 21


@pytest.mark.parametrize("language", CASES)
def test_what_a_file_is_as_a_module(language: str) -> None:
    case = CASES[language]
    found = facts(language, case.source)
    imports = [
        source
        + (": " if names else "")
        + ", ".join(there if there == here else f"{there}={here}" for there, here in names)
        for source, names in found.imports
    ]
    assert " | ".join(imports) == case.imports
    assert " ".join(found.exports) == case.exports
    assert found.branches == case.branches
    assert found.doc.split("\n\n")[0] == case.doc
    assert (found.package, found.entry_point) == (case.package, case.entry_point)


DOCS = [
    ("python", "# Copyright 2031\n\nx = 1\n", ""),
    ("python", "# -*- coding: utf-8 -*-\n# Says hello.\nx = 1\n", "Says hello."),
    ("c", "/* ring.c - a ring\n *\n * Copyright (c) 2031 Nobody\n */\nint x;\n", "ring.c - a ring"),
    ("c", "/* SPDX-License-Identifier: MIT */\n/* A ring. */\n\n#include <x.h>\n", "A ring."),
    ("javascript", "/* Adds. */\nfunction add() {}\n", ""),
    ("javascript", "'use strict';\n/* Adds. */\n\nimport 'x';\n", "Adds."),
    ("javascript", "let x; // not about the file\n", ""),
    ("bash", "#!/bin/sh\n# shellcheck disable=SC1\n# ----\n# Runs.\n\nx=1\n", "Runs."),
    ("rust", "// Copyright\n\n#![no_std]\n//! A crate.\nfn f() {}\n", "A crate."),
]


@pytest.mark.parametrize(("language", "source", "expected"), DOCS)
def test_the_doc_of_a_file_is_no_licence_no_directive_and_not_that_of_its_first_definition(
    language: str, source: str, expected: str
) -> None:
    assert facts(language, source).doc.split("\n\n")[0] == expected


@pytest.mark.parametrize(
    ("language", "source", "exports", "only"),
    [
        ("python", '"""Doc."""\nfrom .a import B, _c\nfrom os import path\n', ("B",), True),
        ("python", "from .a import B\n\n__all__ = ['B', \"C\"]\n__all__ += ['D']\n", ("B", "C", "D"), True),
        ("python", "__all__ = ['a']\ndef a(): pass\ndef b(): pass\n", ("a",), False),
        ("python", "from .a import B\nprint(B)\n", (), False),
        ("typescript", "// all\nexport * from './a';\nexport { b } from './b';\n", ("b",), True),
        ("javascript", "module.exports = require('./lib');\n", (), True),
        ("javascript", "import a from 'a';\na();\n", (), False),
        ("rust", "//! Doc.\nmod a;\npub use a::{B, C as D};\n", ("B", "D"), True),
        ("go", 'package p\n\nimport "fmt"\n', (), False),
    ],
)
def test_what_a_file_passes_on(language: str, source: str, exports: tuple[str, ...], only: bool) -> None:
    found = facts(language, source)
    assert (found.exports, found.only_imports) == (exports, only)


def naive_line_counts(source: str) -> tuple[int, int]:
    """(code lines, lines of nothing but comment or docstring) of a Python file by ``ast`` and ``tokenize``."""
    import io
    import tokenize

    documented: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                documented.update(range(first.lineno, (first.end_lineno or 0) + 1))
    coded: set[int] = set()
    commented: set[int] = set()
    layout = {tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        rows = range(token.start[0], token.end[0] + 1)
        if token.type == tokenize.COMMENT:
            commented.update(rows)
        elif token.type not in layout and not documented.issuperset(rows):
            coded.update(rows)
    lines = source.split("\n")
    inked = {at + 1 for at, line in enumerate(lines) if line.strip()}
    return len(coded & inked), len((commented | documented) & inked - coded)


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["schemas", "pipelines", "serving", "assets"])
def test_lines_of_this_projects_files_are_counted_as_ast_and_tokenize_do(folder: str) -> None:
    for path in sorted((PROJECT / folder).rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        made = chunk_source(source.encode(), "python").module
        assert made is not None
        if source.strip():
            assert (made.code_lines, made.comment_lines) == naive_line_counts(source), path


@given(st.text("a.{},:* \n=>as\\", max_size=60))
def test_no_clause_is_too_odd(text: str) -> None:
    for there, _here in expand(text):
        assert there.count("{") == 0


def test_deep_clauses_stay_small() -> None:
    assert all(len(there) <= 300 for there, _ in expand("abc::{" * 20_000 + "x"))


def test_data_and_markup_are_no_modules() -> None:
    others = {language.name for language in LANGUAGES} - MODULE_LANGUAGES
    assert {"json", "html", "css", "markdown", "toml", "yaml", "make"} <= others
    assert chunk_source(b"# x\n", "markdown").module is None
    assert language_of("x.sql") in MODULE_LANGUAGES


def test_text_predicates_over_bytes_that_are_no_utf_8_do_not_end_the_process() -> None:
    source = b"local M = {}\n" + b"function pour\xff index = 1, #cup do\n  cup[index] = 1\nend\nend\nreturn M\n" * 20
    for _ in range(20):
        chunk_source(source, "lua")

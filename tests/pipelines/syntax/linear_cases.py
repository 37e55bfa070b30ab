"""Text that is hard on a chunker, for each packaged grammar: rows of comments, deep nests, long chains and lines.

Each case grows with one number, which is the repeated pieces in it.
"""

from __future__ import annotations

from collections.abc import Callable

Case = Callable[[int], str]


def _row(piece: str, before: str = "", after: str = "") -> Case:
    """One piece over and over; ``%d`` in it is its number."""

    def make(count: int) -> str:
        return before + "".join(piece.replace("%d", str(at)) for at in range(count)) + after

    return make


def _nest(opening: str, core: str, closing: str, before: str = "", after: str = "") -> Case:
    def make(count: int) -> str:
        return before + opening * count + core + closing * count + after

    return make


def _c_like(start: str, end: str, block: str = "if (a) {\n") -> dict[str, Case]:
    """Cases of a language with ``//`` comments, in a function that opens and closes with these."""
    return {
        "comments": _row("// comment number %d\n", "<?php\n" if start.startswith("<?php") else ""),
        "comments inside": _row("// comment number %d\n", start, end),
        "parentheses": _nest("(", "a", ")", start + "a = ", ";\n" + end),
        "calls": _nest("f(", "a", ")", start + "a = ", ";\n" + end),
        "operators": _row(" + b%d", start + "a = b", ";\n" + end),
        "strings": _row(' + "text"', start + 'a = ""', ";\n" + end),
        "members": _row(".m%d()", start + "a", ";\n" + end),
        "blocks": _nest(block, "f();\n", "}\n", start, end),
        "else": _row("else if (a) { f(%d); }\n", start + "if (a) { f(); }\n", end),
        "line": _row("f(%d); ", start, end),
    }


_SHELL_COMMENTS: dict[str, Case] = {"comments": _row("# comment number %d\n")}

CASES: dict[str, dict[str, Case]] = {
    "python": {
        **_SHELL_COMMENTS,
        "comments inside": _row("    # comment number %d\n", "def f():\n", "    pass\n"),
        "parentheses": _nest("(", "a", ")", "a = "),
        "lists": _nest("[", "a", "]", "a = "),
        "calls": _nest("f(", "a", ")", "a = "),
        "operators": _row(" + b%d", "a = b"),
        "strings": _row(' "text"', "a = "),
        "members": _row(".m%d()", "a"),
        "else": _row("elif a:\n    f(%d)\n", "if a:\n    f()\n"),
        "definitions": _row("def f%d(): pass\n"),
        "one name": _row("def f(): pass\n"),
        "line": _row("a = %d; "),
        "dictionary": _row("'key%d': f(%d), ", "a = {", "}"),
        "assignments": _row("a%d = ", "", "1\n"),
        "lambdas": _row("lambda a%d: ", "a = ", "1\n"),
        "docstring of blank lines": _row("\n", 'def f():\n    """', 'Text."""\n'),
        "decorators": _row("@f%d\n", "", "def g(): pass\n"),
        "imports": _row("a%d, ", "from b import (", ")\n"),
    },
    "javascript": {
        **_c_like("function g() {\n", "}\n"),
        "functions": _nest("function f() {\n", "", "}\n"),
        "arrows": _row("a%d => ", "a = ", "1\n"),
        "objects": _nest("{a: ", "1", "}", "a = "),
        "templates": _nest("`${", "a", "}`", "a = "),
        "elements": _nest("<a>", "text", "</a>", "a = ", ";\n"),
        "definitions": _row("function f%d() {}\n"),
        "variables": _row("a%d = 1, ", "const ", "z = 1;\n"),
        "assignments": _row("a%d = ", "", "1;\n"),
        "classes": _nest("class A { m() {", "", "}}\n"),
        "imports": _row("a%d, ", "import {", "} from 'b';\n"),
    },
    "typescript": {
        **_c_like("function g() {\n", "}\n"),
        "functions": _nest("function f() {\n", "", "}\n"),
        "types": _nest("A<", "B", ">", "type T = ", ";\n"),
        "unions": _row(" | B%d", "type T = A", ";\n"),
        "namespaces": _nest("export namespace a {\n", "", "}\n"),
        "definitions": _row("function f%d(a: number): void {}\n"),
        "variables": _row("a%d = 1, ", "const ", "z = 1;\n"),
    },
    "tsx": {
        **_c_like("function g() {\n", "}\n"),
        "elements": _nest("<A>", "text", "</A>", "const a = ", ";\n"),
        "siblings": _row("<A b={%d}/>", "const a = <A>", "</A>;\n"),
        "definitions": _row("function f%d(a: number): void {}\n"),
    },
    "go": {
        **_c_like("package a\nfunc g() {\n", "}\n", "if a {\n"),
        "else": _row("else if a { f(%d) } ", "package a\nfunc g() {\nif a { f() } ", "\n}\n"),
        "constants": _row("a%d = 1\n", "package a\nconst (\n", ")\n"),
        "names": _row("a%d, ", "package a\nvar ", "z int\n"),
        "structs": _nest("struct { a ", "int", "}", "package a\ntype A ", "\n"),
        "definitions": _row("func f%d() {}\n", "package a\n"),
    },
    "rust": {
        **_c_like("fn g() {\n", "}\n", "if a {\n"),
        "comments of documentation": _row("/// comment number %d\n", "", "fn f() {}\n"),
        "modules": _nest("mod a { use self::b;\n", "", "}\n"),
        "uses": _nest("a::{", "b", "}", "use ", ";\n"),
        "attributes": _row("#[a%d]\n", "", "fn f() {}\n"),
        "definitions": _row("fn f%d() {}\n"),
        "types": _nest("A<", "B", ">", "type T = ", ";\n"),
        "macro": _nest("(", "a", ")", "a!", ";\n"),
        "macros around items": _row("cfg_a! { fn f%d() {} }\n"),
        "macros around macros": _nest("a! {\n", "fn f() {}\n", "}\n"),
    },
    "java": {
        **_c_like("class A { void g() {\n", "}}\n"),
        "classes": _nest("class A {\n", "", "}\n"),
        "types": _nest("A<", "B", ">", "class A { ", " a; }\n"),
        "variables": _row("a%d, ", "class A { int ", "z; }\n"),
        "definitions": _row("void f%d() {}\n", "class A {\n", "}\n"),
        "annotations": _row("@A%d\n", "", "class A {}\n"),
    },
    "c": {
        **_c_like("void g() {\n", "}\n"),
        "conditions": _nest("#if A\n", "int a;\n", "#endif\n"),
        "pointers": _row("*", "int ", "a;\n"),
        "variables": _row("a%d, ", "int ", "z;\n"),
        "variables below comments": lambda count: _row("// comment\n")(count) + _row("a%d, ", "int ", "z;\n")(count),
        "definitions": _row("void f%d(void) {}\n"),
        "structs": _nest("struct a {\n", "int a;\n", "} a;\n"),
        "initializers": _nest("{", "1", "}", "int a[] = ", ";\n"),
        "numbers": _row("%d, ", "int a[] = {", "};\n"),
        "macros around declarations": _row("IF_A(int f%d(void) { return 1; })\n"),
        "macros in lines": _row("A_B%d\n", "", "int a;\n"),
        "macros without an end": _row("A(int f%d;\n"),
    },
    "cpp": {
        **_c_like("void g() {\n", "}\n"),
        "namespaces": _nest("namespace a {\n", "int a;\n", "}\n"),
        "templates": _row("template <class T> ", "", "class A {};\n"),
        "arguments": _nest("A<", "B", " >", "", " a;\n"),
        "lambdas": _nest("[]() { return ", "1", "; }", "auto a = ", ";\n"),
        "definitions": _row("void f%d() {}\n"),
        "shifts": _row(" << a%d", "void g() { a", "; }\n"),
    },
    "csharp": {
        **_c_like("class A { void G() {\n", "}}\n"),
        "classes": _nest("class A {\n", "", "}\n"),
        "namespaces": _nest("namespace A {\n", "", "}\n"),
        "variables": _row("a%d, ", "class A { int ", "z; }\n"),
        "definitions": _row("void F%d() {}\n", "class A {\n", "}\n"),
        "attributes": _row("[A%d]\n", "", "class A {}\n"),
    },
    "ruby": {
        **_SHELL_COMMENTS,
        "comments inside": _row("# comment number %d\n", "def f\n", "end\n"),
        "parentheses": _nest("(", "a", ")", "a = "),
        "lists": _nest("[", "a", "]", "a = "),
        "operators": _row(" + b%d", "a = b"),
        "members": _row(".m%d", "a"),
        "blocks": _nest("f do\n", "g\n", "end\n"),
        "modules": _nest("module A\n", "", "end\n"),
        "else": _row("elsif a\n f(%d)\n", "if a\n f\n", "end\n"),
        "definitions": _row("def f%d; end\n"),
        "line": _row("f(%d); "),
    },
    "php": {
        **_c_like("<?php\nfunction g() {\n", "}\n"),
        "lists": _nest("[", "1", "]", "<?php\n$a = ", ";\n"),
        "concatenation": _row(' . "text"', '<?php\n$a = ""', ";\n"),
        "functions": _nest("function f() {\n", "", "}\n", "<?php\n"),
        "definitions": _row("function f%d() {}\n", "<?php\n"),
        "constants": _row("A%d = 1, ", "<?php\nconst ", "Z = 1;\n"),
    },
    "kotlin": {
        **_c_like("fun g() {\n", "}\n"),
        "lambdas": _nest("{ ", "1", " }", "val a = ", "\n"),
        "classes": _nest("class A {\n", "", "}\n"),
        "definitions": _row("fun f%d() {}\n"),
        "types": _nest("A<", "B", ">", "val a: ", "\n"),
    },
    "swift": {
        **_c_like("func g() {\n", "}\n", "if a {\n"),
        "else": _row(" else if a { f(%d) }", "func g() {\nif a { f() }", "\n}\n"),
        "lists": _nest("[", "1", "]", "let a = ", "\n"),
        "classes": _nest("class A {\n", "", "}\n"),
        "definitions": _row("func f%d() {}\n"),
        "variables": _row("a%d = 1, ", "let ", "z = 1\n"),
    },
    "scala": {
        **_c_like("object A { def g() = {\n", "}}\n"),
        "objects": _nest("object A {\n", "", "}\n"),
        "definitions": _row("def f%d = 1\n", "object A {\n", "}\n"),
        "types": _nest("A[", "B", "]", "type T = ", "\n"),
        "names": _row("a%d, ", "object A { val ", "z = 1 }\n"),
    },
    "elixir": {
        **_SHELL_COMMENTS,
        "parentheses": _nest("(", "a", ")", "a = "),
        "lists": _nest("[", "1", "]", "a = "),
        "calls": _nest("f(", "a", ")", "a = "),
        "operators": _row(" + b%d", "a = b"),
        "pipes": _row(" |> f%d()", "a"),
        "modules": _nest("defmodule A do\n", "", "end\n"),
        "blocks": _nest("if a do\n", "f()\n", "end\n"),
        "definitions": _row("def f%d, do: 1\n", "defmodule A do\n", "end\n"),
        "clauses": _row("def f(%d), do: 1\n", "defmodule A do\n", "end\n"),
        "attributes": _row("@a%d 1\n", "defmodule A do\n", "def f, do: 1\nend\n"),
        "aliases": _row("B%d, ", "alias A.{", "C}\n"),
    },
    "haskell": {
        "comments": _row("-- comment number %d\n", "", "f = 1\n"),
        "parentheses": _nest("(", "a", ")", "f = ", "\n"),
        "lists": _nest("[", "1", "]", "f = ", "\n"),
        "operators": _row(" + b%d", "f = a", "\n"),
        "applications": _row(" a%d", "f = g", "\n"),
        "lambdas": _row("\\a%d -> ", "f = ", "1\n"),
        "dollars": _row("g%d $ ", "f = ", "1\n"),
        "clauses": _row("f %d = 1\n"),
        "definitions": _row("f%d :: Int\nf%d = 1\n"),
        "pragmas": _row("{-# INLINE f #-} ", "f 1 = 1\n", "\ninfixl 5 +\nf 2 = 2\n"),
    },
    "lua": {
        "comments": _row("-- comment number %d\n"),
        "parentheses": _nest("(", "a", ")", "a = ", "\n"),
        "tables": _nest("{", "1", "}", "a = ", "\n"),
        "operators": _row(" + b%d", "a = b", "\n"),
        "concatenation": _row(' .. "text"', 'a = ""', "\n"),
        "functions": _nest("function f()\n", "", "end\n"),
        "else": _row("elseif a then f(%d)\n", "if a then f()\n", "end\n"),
        "names": _row("a%d, ", "local ", "z = 1\n"),
        "definitions": _row("function f%d() end\n"),
        "line": _row("f(%d); "),
    },
    "zig": {
        "comments": _row("// comment number %d\n"),
        "parentheses": _nest("(", "1", ")", "const a = ", ";\n"),
        "operators": _row(" + b%d", "const a = b", ";\n"),
        "concatenation": _row(' ++ "text"', 'const a = ""', ";\n"),
        "structs": _nest("struct { const a = ", "1", "; }", "const a = ", ";\n"),
        "blocks": _nest("{\n", "", "}\n", "fn f() void {\n", "}\n"),
        "definitions": _row("fn f%d() void {}\n"),
        "members": _row(".m%d()", "const a = b", ";\n"),
    },
    "bash": {
        **_SHELL_COMMENTS,
        "substitutions": _nest("$(", "a", ")", "echo "),
        "blocks": _nest("if a; then\n", "b\n", "fi\n"),
        "else": _row("elif a; then b %d\n", "if a; then b\n", "fi\n"),
        "pipes": _row(" | a%d", "a"),
        "lists": _row(" && a%d", "a"),
        "arguments": _row(" a%d", "a"),
        "strings": _row('"a"', "a="),
        "functions": _nest("f() {\n", "a\n", "}\n"),
        "definitions": _row("f%d() { a; }\n"),
        "line": _row("a %d; "),
        "here-documents": _row("a <<E\ntext %d\nE\n"),
    },
    "sql": {
        "comments": _row("-- comment number %d\n", "", "SELECT 1;\n"),
        "parentheses": _nest("(", "1", ")", "SELECT ", ";\n"),
        "queries": _nest("SELECT * FROM (", "SELECT 1", ") a", "", ";\n"),
        "operators": _row(" + b%d", "SELECT a", ";\n"),
        "conditions": _row(" AND a = %d", "SELECT 1 FROM a WHERE b", ";\n"),
        "rows": _row(", (%d, 'text')", "INSERT INTO a VALUES (1, '')", ";\n"),
        "definitions": _row("CREATE TABLE a%d (b INT);\n"),
        "cases": _row(" WHEN a = %d THEN 1", "SELECT CASE", " END;\n"),
    },
    "html": {
        "comments": _row("<!-- comment number %d -->\n"),
        "elements": _nest("<div>", "text", "</div>"),
        "open elements": _row("<div id=a%d>"),
        "siblings": _row("<p>text %d</p>"),
        "attributes": _row(' a%d="b"', "<div", "></div>"),
        "definitions": _row("<h1 id=a%d>text</h1>\n"),
    },
    "css": {
        "comments": _row("/* comment number %d */\n"),
        "selectors": _row(", .a%d", "a", " { b: c }\n"),
        "descendants": _row(" > .a%d", "a", " { b: c }\n"),
        "blocks": _nest("@media a {\n", ".a { b: c }\n", "}\n"),
        "rules": _nest(".a {\n", "b: c;\n", "}\n"),
        "calls": _nest("calc(", "1", ")", "a { b: ", " }\n"),
        "definitions": _row(".a%d { b: c }\n"),
        "line": _row(".a%d{b:c}"),
    },
    "markdown": {
        "comments": _row("<!-- comment number %d -->\n"),
        "quotes": _row("> ", "", "text\n"),
        "lists": lambda count: "".join("  " * min(at, 40) + "- item\n" for at in range(count)),
        "headings": _row("# Heading %d\n"),
        "levels": lambda count: "".join("#" * (at % 6 + 1) + f" Heading {at}\n" for at in range(count)),
        "line": _row("word%d "),
        "brackets": _nest("[", "a", "]"),
        "table": _row("| a | b%d |\n", "| a | b |\n|---|---|\n"),
        "fences": _row("```\ncode %d\n```\n"),
    },
    "toml": {
        **_SHELL_COMMENTS,
        "lists": _nest("[", "1", "]", "a = ", "\n"),
        "tables": _nest("{a = ", "1", "}", "a = ", "\n"),
        "definitions": _row("a%d = 1\n"),
        "sections": _row("[a%d]\nb = 1\n"),
        "dotted": _row(".a%d", "a", " = 1\n"),
    },
    "yaml": {
        **_SHELL_COMMENTS,
        "lists": _nest("[", "1", "]", "a: ", "\n"),
        "maps": _nest("{a: ", "1", "}", "a: ", "\n"),
        "definitions": _row("a%d: 1\n"),
        "items": _row("- a%d\n"),
        "deep": lambda count: "".join(" " * (at % 50) + f"a{at}:\n" for at in range(count)),
        "documents": _row("---\na: %d\n"),
        "text": _row("  text %d\n", "a: |\n"),
    },
    "json": {
        "comments": _row("// comment number %d\n", "", "{}\n"),
        "lists": _nest("[", "1", "]"),
        "objects": _nest('{"a": ', "1", "}"),
        "definitions": _row('"a%d": 1, ', "{", '"z": 1}'),
        "numbers": _row("%d, ", "[", "1]"),
        "one name": _row('"a": [1], ', "{", '"z": 1}'),
    },
}
"""Cases by grammar and name."""

"""Macros around declarations: what is inside of them is defined, at its own place, and the macros are referred to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codequarry.pipelines.syntax.chunks.chunk import chunk_source
from codequarry.pipelines.syntax.grammars import grammar
from codequarry.pipelines.syntax.macros import parse_unwrapped

RUST = b"""\
//! Sockets.
cfg_net! {
    /// Binds an address.
    pub fn bind(address: &str) {}

    #[cfg(unix)]
    cfg_unix! {
        pub struct Stream { fd: i32 }
        impl Stream {
            cfg_rt! { pub fn close(&self) {} }
        }
    }
}

lazy_static! {
    pub static ref TABLE: Vec<u8> = vec![1];
}

fn body() {
    let quoted = quote! { fn inside() {} };
    tokio::select! { a = f() => {}, b = g() => {} }
}
"""
CPP = b"""\
FMT_BEGIN_NAMESPACE
namespace detail {
/// Formats.
class FMT_API Buffer final : public Base {
 public:
  Q_OBJECT_LIKE
  void push(int value) {}
};
}
FMT_END_NAMESPACE
IF_THREADS(
static int lock(int which) { return which; }
)
TEST(Suite, Name) {
  EXPECT_TRUE(1);
}
enum Kind {
  KIND_A,
  KIND_LAST
};
// not code:
/*
IN_A_COMMENT
*/
"""


def defined(data: bytes, language: str) -> dict[str, str]:
    return {node.qualified_name: node.kind for node in chunk_source(data, language).ast_nodes}


def test_items_inside_of_rusts_macros_are_definitions() -> None:
    assert defined(RUST, "rust") == {
        "bind": "function",
        "Stream": "struct",
        "Stream.close": "method",
        "TABLE": "constant",
        "body": "function",
    }


def test_they_lie_where_the_file_has_them_with_signature_and_documentation() -> None:
    (bind,) = (node for node in chunk_source(RUST, "rust").ast_nodes if node.name == "bind")
    assert RUST[bind.start_byte : bind.end_byte] == b"pub fn bind(address: &str) {}"
    assert (bind.signature, bind.doc) == ("pub fn bind(address: &str)", "Binds an address.")


def test_declarations_inside_of_macros_of_c_and_cpp_are_definitions() -> None:
    found = chunk_source(CPP, "cpp")
    assert not found.has_syntax_errors
    assert defined(CPP, "cpp") == {
        "detail": "namespace",
        "detail.Buffer": "class",
        "detail.Buffer.push": "method",
        "lock": "function",
        "TEST": "function",
        "Kind": "enum",
    }
    assert defined(b"LIBRARY_BEGIN\nstruct EXPORT Point { int x; };\nLIBRARY_END\n", "c") == {"Point": "struct"}


@pytest.mark.parametrize(
    ("data", "language", "expected"),
    [
        (RUST, "rust", {"cfg_net": "call", "cfg_unix": "call", "cfg_rt": "call", "lazy_static": "call"}),
        (CPP, "cpp", {"FMT_BEGIN_NAMESPACE": "other", "FMT_API": "other", "IF_THREADS": "call"}),
    ],
)
def test_the_macros_are_referred_to(data: bytes, language: str, expected: dict[str, str]) -> None:
    found = {each.name: each.role for each in chunk_source(data, language).references}
    assert expected.items() <= found.items()
    assert not {"IN_A_COMMENT", "TABLE"} & found.keys()


@pytest.mark.parametrize(
    "data",
    [
        b"int x =\nFOO_BAR\n;\n",
        b"enum A {\n  FOO_A,\n\n  FOO_B\n};\n",
        b"#define A \\\n  FOO_BAR\n",
        b"int f(void) {\n  return g(\n    FOO_BAR\n  );\n}\n",
        b"int\nFOO_BAR\n(void) { return 1; }\n",
        b"CHECK(a; b)\nint f(void) { return 1; }\n",
    ],
)
def test_a_name_that_is_part_of_a_statement_stays(data: bytes) -> None:
    assert parse_unwrapped(grammar("c"), "c", data).macros == ()


PIECES = st.sampled_from([
    "cfg_a! {", "}", "fn f() {}", "static ref A: u8 = 1;", "A_B", "A(", ")", "{", ";", "\n", " ", '"', "//", "/*", "*/",
    "class A_B C {", "struct EXPORT D :", "int g(void) { return 1; }", "#define X \\", "impl A {", "é", "\r\n",
])  # fmt: skip


@given(st.lists(PIECES, max_size=40).map("".join), st.sampled_from(["rust", "c", "cpp"]))
def test_every_byte_stays_where_it_is(source: str, language: str) -> None:
    data = source.encode()
    made = chunk_source(data, language)
    assert b"".join(data[span.start_byte : span.end_byte] for span in made.spans) == data
    for node in made.ast_nodes:
        assert data[node.name_start_byte :].startswith(node.name.encode()) or not node.name.isidentifier()
    for each in made.references:
        assert data[each.start_byte : each.start_byte + len(each.name.encode())] == each.name.encode()

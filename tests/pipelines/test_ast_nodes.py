"""Definitions carry the signature, documentation, parent and place that a reader would write down by hand."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codequarry.pipelines.ast_nodes import MAX_DOC_CHARS, MAX_SIGNATURE_CHARS
from codequarry.pipelines.chunking import chunk_source
from codequarry.schemas.languages import language_of
from codequarry.schemas.records import AstNode

SOURCES = sorted((Path(__file__).parents[1] / "fixtures" / "sources").iterdir())


def nodes(language: str, source: str) -> dict[str, AstNode]:
    made = chunk_source(source.encode(), language)
    assert made.parsed and not made.has_syntax_errors
    return {node.qualified_name: node for node in made.ast_nodes}


PYTHON = '''
# Not about the class: a blank line follows.

@dataclass
class Shelf(Base):
    """Holds items.

    Never sorts them.
    """

    # Adds one.
    @traced("put")
    def put(
        self,
        item: Item,  # what to add
    ) -> None:
        self.items.append(item)

    async def take(self, name: str = "a(b):") -> Item: return r"""x"""

# How many are few.
FEW = 3
'''

TYPESCRIPT = """
/** Says hello.
 *
 *   indented
 */
export const greet = async (name: string): Promise<string> => {
  return name;
};

export default class Router<T> extends Base<T> {
  // Finds a route.
  // Slowly.
  @memo()
  find(path: string): T | undefined { return undefined; }
}

interface Store { get(key: string): string }  // a store
function after(): void {}
"""

GO = """package p

// Open opens
// the door.
func (d *Door) Open(key Key) (bool, error) {
	return true, nil
}

type (
	// Key fits.
	Key struct {
		teeth int
	}
)
"""

RUST = """
/// A cache.
///
/// Small.
#[derive(Debug)]
pub struct Cache<K> { keys: Vec<K> }

impl<K: Eq> Cache<K> {
    /* Looks it up. */
    #[inline]
    pub fn get(&self, key: &K) -> Option<&K> where K: Ord {
        None
    }
}
"""

JAVA = """package x;

/**
 * A ledger.
 * @author nobody
 */
@Entity
public final class Ledger<T> implements Book {
    /** Books it. */
    @Override
    public long book(String account,
                     long cents) throws IOException {
        return 0;
    }
    abstract int size();
}
"""

CPP = """
namespace a {
// A matrix of numbers.
template <typename T>
class Matrix : public Base {
 public:
  /// Rows times columns.
  int size() const noexcept { return 0; }
};
}

template <class T> T& a::Matrix<T>::at(int row) {
  return x;
}
"""

RUBY = """
module Text
  # Parses text.
  class Parser < Base
    # ---------
    # Reads pairs.
    private def read(text, strict: false)
      text
    end

=begin
Builds one.
=end
    def self.build; end
  end
end
"""

PHP = """<?php
namespace Shop;

/**
 * A basket.
 */
#[Entity]
final class Basket extends Bag
{
    # Adds it.
    public static function add(string $article, int $cents = 0): ?self
    {
        return null;
    }
}
"""

KOTLIN = """
/** A session. */
@Serializable
data class Session(
    val token: String, // secret
    val user: String,
) : Base() {
    // Ends it.
    override fun close(now: Instant): Boolean = true
}

fun Session.age(): Int { return 0 }
"""

SWIFT = """
/// A sensor.
protocol Sensor {
    /// Reads it.
    func read() throws -> Double
}

extension Box: Sensor {
    /** Resets it. */
    @discardableResult
    public func reset(to value: Int = 0) -> Int {
        return value
    }
}
"""

ELIXIR = """
defmodule Shop.Cart do
  @moduledoc ~S'''
  Holds \\items.

    indented
  '''
  use GenServer

  @doc since: "1.0"
  @doc \"\"\"
  Puts it.
  \"\"\"
  @spec put(t, Item.t()) :: t
  # not the documentation
  def put(%Cart{} = cart, item) when is_map(item) do
    cart
  end

  def put(cart, nil), do: cart

  # Says how many.
  @impl true
  def size(cart),
    do: length(cart.items)

  @typedoc "A cart."
  @type t :: %__MODULE__{
          items: list
        }

  @doc false
  def hidden, do: 1
end
"""

HASKELL = """
{-# LANGUAGE GADTs #-}
-- | Carts.
module Shop.Cart (Cart, put) where

import Shop.Item

{-| Holds items.

Never sorts them.
-}
data Cart a where
  Cart :: [a] -> Cart a

-- | What has a size.
--
-- Always finite.
class Show a => Sized a where
  size :: a -> Int
  -- ^ In items.
  size _ = 0
  -- ^ Not of the next one.
  empty :: a

-- Not about it, for a line is between.

-- | Puts it.
put
  :: a       -- ^ what
  -> Cart a
  -> Cart a
put x (Cart xs) = Cart (x : xs)

take :: Cart a -> a
{-# INLINE take #-}
-- the first
take (Cart (x : _)) = x
take _ = error "empty"
"""

LUA = """
local M = {}

---Opens it.
---@param name string
function M.open(name, ...)
  return name
end

--[[ Closes it.
  Twice is an error. ]]
M.close = function(door) return door end

local x = 1 -- not about it
function M:shut(how)
end
"""

ZIG = """
//! Doors.

const std = @import("std");

/// A door.
/// It closes.
pub const Door = packed struct(u8) {
    open: bool,

    /// Shuts it.
    pub fn shut(
        self: *Door, // which
    ) !void {
        self.open = false;
    }
};

pub fn Hinge(comptime T: type) type {
    return struct { pin: T };
}

test "a door shuts" {
    try std.testing.expect(true);
}
"""

EXPECTED = [
    ("python", PYTHON, "Shelf", "class Shelf(Base)", "Holds items.\n\nNever sorts them.", ""),
    ("python", PYTHON, "Shelf.put", "def put( self, item: Item, ) -> None", "Adds one.", "Shelf"),
    ("python", PYTHON, "Shelf.take", 'async def take(self, name: str = "a(b):") -> Item', "", "Shelf"),
    ("python", PYTHON, "FEW", "FEW = 3", "How many are few.", ""),
    (
        "typescript",
        TYPESCRIPT,
        "greet",
        "export const greet = async (name: string): Promise<string> =>",
        "Says hello.\n\n  indented",
        "",
    ),
    ("typescript", TYPESCRIPT, "Router", "export default class Router<T> extends Base<T>", "", ""),
    ("typescript", TYPESCRIPT, "Router.find", "find(path: string): T | undefined", "Finds a route.\nSlowly.", "Router"),
    ("typescript", TYPESCRIPT, "Store.get", "get(key: string): string", "", "Store"),
    ("typescript", TYPESCRIPT, "after", "function after(): void", "", ""),
    ("go", GO, "Door.Open", "func (d *Door) Open(key Key) (bool, error)", "Open opens\nthe door.", "Door"),
    ("go", GO, "Key", "Key struct", "Key fits.", ""),
    ("rust", RUST, "Cache", "pub struct Cache<K>", "A cache.\n\nSmall.", ""),
    ("rust", RUST, "Cache.get", "pub fn get(&self, key: &K) -> Option<&K> where K: Ord", "Looks it up.", "Cache"),
    (
        "java",
        JAVA,
        "Ledger",
        "@Entity public final class Ledger<T> implements Book",
        "A ledger.\n@author nobody",
        "",
    ),
    (
        "java",
        JAVA,
        "Ledger.book",
        "@Override public long book(String account, long cents) throws IOException",
        "Books it.",
        "Ledger",
    ),
    ("java", JAVA, "Ledger.size", "abstract int size()", "", "Ledger"),
    ("cpp", CPP, "a", "namespace a", "", ""),
    ("cpp", CPP, "a.Matrix", "template <typename T> class Matrix : public Base", "A matrix of numbers.", "a"),
    ("cpp", CPP, "a.Matrix.size", "int size() const noexcept", "Rows times columns.", "a.Matrix"),
    ("cpp", CPP, "a.Matrix.at", "template <class T> T& a::Matrix<T>::at(int row)", "", "a.Matrix"),
    ("ruby", RUBY, "Text.Parser", "class Parser < Base", "Parses text.", "Text"),
    ("ruby", RUBY, "Text.Parser.read", "private def read(text, strict: false)", "Reads pairs.", "Text.Parser"),
    ("ruby", RUBY, "Text.Parser.build", "def self.build; end", "Builds one.", "Text.Parser"),
    ("php", PHP, "Shop.Basket", "#[Entity] final class Basket extends Bag", "A basket.", "Shop"),
    (
        "php",
        PHP,
        "Shop.Basket.add",
        "public static function add(string $article, int $cents = 0): ?self",
        "Adds it.",
        "Shop.Basket",
    ),
    (
        "kotlin",
        KOTLIN,
        "Session",
        "@Serializable data class Session( val token: String, val user: String, ) : Base()",
        "A session.",
        "",
    ),
    ("kotlin", KOTLIN, "Session.close", "override fun close(now: Instant): Boolean", "Ends it.", "Session"),
    ("kotlin", KOTLIN, "Session.age", "fun Session.age(): Int", "", "Session"),
    ("swift", SWIFT, "Sensor", "protocol Sensor", "A sensor.", ""),
    ("swift", SWIFT, "Sensor.read", "func read() throws -> Double", "Reads it.", "Sensor"),
    (
        "swift",
        SWIFT,
        "Box.reset",
        "@discardableResult public func reset(to value: Int = 0) -> Int",
        "Resets it.",
        "Box",
    ),
    ("elixir", ELIXIR, "Shop.Cart", "defmodule Shop.Cart", "Holds \\items.\n\n  indented", "Shop"),
    (
        "elixir",
        ELIXIR,
        "Shop.Cart.put",
        "def put(%Cart{} = cart, item) when is_map(item)",
        "Puts it.",
        "Shop.Cart",
    ),
    ("elixir", ELIXIR, "Shop.Cart.size", "def size(cart)", "Says how many.", "Shop.Cart"),
    ("elixir", ELIXIR, "Shop.Cart.t", "@type t :: %__MODULE__", "A cart.", "Shop.Cart"),
    ("elixir", ELIXIR, "Shop.Cart.hidden", "def hidden", "", "Shop.Cart"),
    ("haskell", HASKELL, "Shop.Cart", "module Shop.Cart (Cart, put)", "Carts.", "Shop"),
    ("haskell", HASKELL, "Cart", "data Cart a", "Holds items.\n\nNever sorts them.", ""),
    ("haskell", HASKELL, "Sized", "class Show a => Sized a", "What has a size.\n\nAlways finite.", ""),
    ("haskell", HASKELL, "Sized.size", "size :: a -> Int", "", "Sized"),
    ("haskell", HASKELL, "Sized.empty", "empty :: a", "", "Sized"),
    ("haskell", HASKELL, "put", "put :: a -> Cart a -> Cart a", "Puts it.", ""),
    ("haskell", HASKELL, "take", "take :: Cart a -> a", "", ""),
    ("lua", LUA, "M.open", "function M.open(name, ...)", "Opens it.\n@param name string", "M"),
    ("lua", LUA, "M.close", "M.close = function(door)", "Closes it.\nTwice is an error.", "M"),
    ("lua", LUA, "M.shut", "function M:shut(how) end", "", "M"),
    ("zig", ZIG, "Door", "pub const Door = packed struct(u8)", "A door.\nIt closes.", ""),
    ("zig", ZIG, "Door.shut", "pub fn shut( self: *Door, ) !void", "Shuts it.", "Door"),
    ("zig", ZIG, "Hinge", "pub fn Hinge(comptime T: type) type", "", ""),
    ("zig", ZIG, "a door shuts", 'test "a door shuts"', "", ""),
    ("scala", "/** All. */\ntrait A[T] {\n  def f(x: Int)(y: T): Unit = {}\n}\n", "A", "trait A[T]", "All.", ""),
    ("csharp", "/// <summary>S.</summary>\nclass C { }\n", "C", "class C", "<summary>S.</summary>", ""),
    ("c", "/* Adds. */\nstatic int add(int a) { return a; }\n", "add", "static int add(int a)", "Adds.", ""),
    ("bash", "#!/bin/sh\nf() {\n  true\n}\n", "f", "f()", "", ""),
    ("sql", "-- People.\nCREATE TABLE shop.people (\n id INT);", "shop.people", "CREATE TABLE shop.people", "People.",
     "shop"),
    ("html", '<!-- Top. -->\n<nav id="menu">\n</nav>\n', "menu", '<nav id="menu">', "Top.", ""),
    ("css", "/* B. */\n.a,\n.b { color: red }\n", ".a, .b", ".a, .b", "B.", ""),
    ("markdown", "# One. Two\n\ntext\n\n## Three\n", "One. Two.Three", "## Three", "", "One. Two"),
    ("toml", "# About.\n[tool.lint]\nx = 1\n", "tool.lint", "[tool.lint]", "About.", ""),
    ("yaml", "# All jobs.\njobs:\n  test:\n    run: x\n", "jobs", "jobs", "All jobs.", ""),
    ("json", '{"scripts": {"lint": ["a"]}}', "scripts.lint", '"lint": ["a"]', "", "scripts"),
]  # fmt: skip


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
        assert 0 <= node.start_byte <= node.end_byte <= len(data)
        assert node.start_line == data.count(b"\n", 0, node.start_byte)
        assert node.start_line <= node.name_start_line <= node.end_line
        line_start = [0, *(at + 1 for at, code in enumerate(data) if code == 10)][node.name_start_line]
        assert node.start_byte <= line_start + node.name_start_column <= node.end_byte
        assert len(node.signature) <= MAX_SIGNATURE_CHARS and len(node.doc) <= MAX_DOC_CHARS
        assert "\n" not in node.signature

"""Sources of every language, and what a reader would write down of their definitions."""

from __future__ import annotations

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

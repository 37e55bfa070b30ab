"""Identifiers that define nothing, with the role a reader would give them; leaf kinds beside a walk over the tree."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codequarry.pipelines.syntax.chunks.chunk import chunk_source
from codequarry.pipelines.syntax.grammars import GRAMMARS, grammar
from codequarry.pipelines.syntax.parsing import parse
from codequarry.schemas.languages import BY_NAME, language_of

SOURCES = sorted((Path(__file__).parents[2] / "fixtures" / "sources").iterdir())

# Language, source, and the names of each role in the order of the file.
CASES: dict[str, tuple[str, dict[str, str]]] = {
    "python": (
        """\
import os.path
from a.b import Shelf as S
@cached(x)
class Box(Base, meta=M):
    def put(self, item: Item, *, n: int = LIMIT) -> "Box":
        self.items.append(Item(item, key=n))
        return os.path.join(n)
""",
        {
            "import": "os path a b Shelf S",
            "call": "cached append Item join",
            "type": "Base Item int",
            "other": "x M LIMIT items os path",
        },
    ),
    "typescript": (
        """\
import { Store, open as reopen } from "./store";
export { helper } from "./helper";
class Box extends Base<Item> implements Port {
  #n = 0;
  put(item: Item): void { this.items.push(new Item(item)); this.#grow(); helper<T>(LIMIT); }
}
const f = async () => Store.open({ item });
""",
        {
            "import": "Store open reopen helper",
            "call": "push Item #grow helper open",
            "type": "Base Item Port Item T",
            "other": "items LIMIT Store item",
        },
    ),
    "tsx": (
        """\
const View = () => <Panel title={name} onClick={() => open(this)}><Row /></Panel>;
""",
        {
            "call": "Panel open Row",
            "other": "title name onClick",
        },
    ),
    "javascript": (
        """\
class Box extends Base { put() { return load(this.items) } }
const View = () => <Panel a={name}/>;
""",
        {
            "call": "load Panel",
            "type": "Base",
            "other": "items a name",
        },
    ),
    "go": (
        """\
package p
import str "strings"
func (b *Box) Put(item Item) (err error) {
	b.items = append(b.items, &Shelf{Name: item.Name})
	return str.Join(b.render(LIMIT))
}
""",
        {
            "call": "append Join render",
            "type": "Box Item error Shelf",
            "other": "items items Name Name str LIMIT",
        },
    ),
    "rust": (
        """\
use std::fmt::{self, Display};
impl Display for Box<Item> {
    fn put(&mut self, item: Item) -> Result<()> {
        self.items.push(Item::new(item)); print!("{}", LIMIT); parse::<u8>(x); Ok(Shelf { item })
    }
}
""",
        {
            "import": "std fmt Display",
            "call": "push new print parse Ok",
            "type": "Display Box Item Item Result Shelf",
            "other": "items Item LIMIT x",
        },
    ),
    "java": (
        """\
import java.util.List;
class Box extends Base implements Port {
  @Override List<Item> put(Item item) {
    this.items.add(new Item(item)); stream.map(Item::name); return Shelf.open(LIMIT);
  }
}
""",
        {
            "import": "java util List",
            "call": "add Item map name open",
            "type": "Base Port Override List Item Item",
            "other": "items stream Item Shelf LIMIT",
        },
    ),
    "c": (
        """\
#include "box.h"
struct box *put(struct box *b, item_t item) { b->items[0] = make(item, LIMIT); return b; }
""",
        {
            "call": "make",
            "type": "box box item_t",
            "other": "items LIMIT",
        },
    ),
    "cpp": (
        """\
using std::vector;
template <class T> Item Box<T>::put(Item item) {
  items_.push_back(make<Item>(item)); return ns::open(LIMIT, this->size());
}
""",
        {
            "import": "vector",
            "call": "push_back make open size",
            "type": "T Item Box T Item Item",
            "other": "items_ LIMIT",
        },
    ),
    "csharp": (
        """\
using System.Text;
class Box : Base, IPort { Item Put(Item item) { this.Items.Add(new Item(item)); return Open<Item>(Shelf.Limit); } }
""",
        {
            "import": "System Text",
            "call": "Add Item Open",
            "type": "Base IPort Item Item",
            "other": "Items Item Shelf Limit",
        },
    ),
    "ruby": (
        """\
require "set"
class Box < Base
  def put(item) = @items.push(Item.new(item, LIMIT))
  def grow; put helper; end
end
""",
        {
            "call": "require push new put",
            "type": "Base",
            "other": "Item LIMIT helper",
        },
    ),
    "php": (
        """\
<?php
use App\\Store;
class Box extends Base implements Port {
  function put(Item $item): Item { $this->items->add(new Item($item)); return Shelf::open(helper(LIMIT)); }
}
""",
        {
            "import": "App Store",
            "call": "add Item open helper",
            "type": "Base Port Item Item",
            "other": "items Shelf LIMIT",
        },
    ),
    "kotlin": (
        """\
import a.b.Store

class Box : Base(), Port {
    fun put(item: Item): Item {
        items.add(Item(item))
        return Shelf.open(LIMIT)
    }
}
""",
        {
            "import": "a b Store",
            "call": "Base add Item open",
            "type": "Port Item Item",
            "other": "items Shelf LIMIT",
        },
    ),
    "swift": (
        """\
import Foundation
class Box: Base { func put(_ item: Item) -> Item { self.items.append(Item(item)); return Shelf.open(at: LIMIT) } }
""",
        {
            "import": "Foundation",
            "call": "append Item open",
            "type": "Base Item Item",
            "other": "_ items Shelf at LIMIT",
        },
    ),
    "scala": (
        """\
import a.b.Store
class Box extends Base with Port { def put(item: Item): Item = { items.add(new Item(item)); Shelf.open[Item](LIMIT) } }
""",
        {
            "import": "a b Store",
            "call": "add Item open",
            "type": "Base Port Item Item Item",
            "other": "items Shelf LIMIT",
        },
    ),
    "elixir": (
        """\
defmodule Box do
  alias Shop.{Item, Shelf}
  @spec put(Box.t(), Item.t()) :: t
  def put(%Box{} = box, item), do: box |> grow |> Map.put(:item, Item.new(item, @limit))
end
""",
        {
            "import": "Shop Item Shelf",
            "call": "t t grow put new",
            "type": "Box Item Box Map Item",
            "other": "t box item box item limit",
        },
    ),
    "haskell": (
        """\
import Data.Map (insert)
put :: Item -> Box Item -> IO ()
put item box = M.insert item (grow box) >>= render . Shelf limit
put _ (Box x) = print $ x + 1
""",
        {
            "import": "Map insert",
            "call": "insert grow Shelf Box print",
            "type": "Item Box Item IO",
            "other": "item box item box >>= render . limit x $ x +",
        },
    ),
    "lua": (
        """\
local box = require("box")
function Box:put(item, n) self.items[n] = Item.new(item, { key = LIMIT }); box.grow(self):render() end
""",
        {
            "call": "require new grow render",
            "other": "Box self items Item LIMIT box self",
        },
    ),
    "zig": (
        """\
const Item = @import("item.zig").Item;
const Box = struct { items: []Item, fn put(self: *Box, item: Item) !void {
  try self.items.append(make(item, LIMIT)); } };
""",
        {
            "import": "Item",
            "call": "append make",
            "type": "Item Box Item",
            "other": "items LIMIT",
        },
    ),
    "bash": (
        """\
put() { local item=$1; render "$LIMIT" | sort; }
put "$item"
""",
        {
            "call": "render sort put",
            "other": "item 1 LIMIT item",
        },
    ),
    "sql": (
        """\
SELECT total(price) FROM items WHERE name = 'x';
""",
        {
            "call": "total",
            "other": "price items name",
        },
    ),
}


def test_every_language_with_references_has_a_case() -> None:
    assert set(CASES) == {name for name, source in GRAMMARS.items() if source.references}


@pytest.mark.parametrize("language", CASES)
def test_references_have_the_role_of_their_syntax(language: str) -> None:
    source, expected = CASES[language]
    made = chunk_source(source.encode(), language)
    assert not made.has_syntax_errors
    found: dict[str, list[str]] = {}
    for reference in made.references:
        found.setdefault(reference.role, []).append(reference.name)
    assert {role: " ".join(names) for role, names in found.items()} == expected


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_references_stand_where_they_say_and_define_nothing(path: Path) -> None:
    data = path.read_bytes()
    made = chunk_source(data, language_of(path.name) or "")
    lines = data.split(b"\n")
    defined = {(node.name_start_line, node.name_start_column) for node in (*made.ast_nodes, *made.members)}
    starts = [reference.start_byte for reference in made.references]
    assert starts == sorted(set(starts))
    for reference in made.references:
        name = reference.name.encode()
        assert data[reference.start_byte :].startswith(name)
        assert lines[reference.start_line][reference.start_column :].startswith(name)
        assert (reference.start_line, reference.start_column) not in defined


# Language, source. Written in capitals are the uses that are no local's.
LOCALS: dict[str, str] = {
    "python": """\
RETRY = 1
def f(retry, b=RETRY, *, c: RETRY = 2):
    retry += c.RETRY
    return [retry for retry in g(retry=retry)], retry.x
def g():
    global RETRY
    RETRY = 3
    return RETRY
RETRY
def h():
    with o() as retry: return lambda: retry
""",
    "typescript": """\
const RETRY = 1;
function f(retry: RETRY, { x: other }: T) { return [this.RETRY, retry, { RETRY: retry }, () => retry]; }
function g() { const retry = a.RETRY; return retry(); }
new RETRY();
""",
    "go": """\
package p
func f(retry int) int { RETRY(); return retry + x.RETRY }
func g(t *T) {
    v := RETRY()
    retry := T{RETRY: v}
    use(retry)
    retry()
}
""",
    "java": """\
class A {
  void f(int retry) { use(retry, this.RETRY, RETRY()); for (int retry : all) use(retry); }
  int g() { RETRY x = RETRY; int retry = 1; return retry; }
}
""",
    "rust": """\
fn f(retry: RETRY) -> RETRY { use_it(retry, self.RETRY, T { RETRY: retry }, m::RETRY) }
fn g() {
    let retry = RETRY();
    use_it(retry, |x| retry + x);
    retry();
}
""",
    "csharp": """\
class A {
  void F(int retry) { Use(retry, this.RETRY, retry); foreach (var retry in all) Use(retry); }
  int G() { var retry = new B { RETRY = 1 }; Use(RETRY: 1); return retry; }
}
""",
}


@pytest.mark.parametrize("language", LOCALS)
def test_locals_are_no_references_of_what_has_their_name(language: str) -> None:
    """All are called the same: what is written in capitals is a definition's, and what is not a local's."""
    written = LOCALS[language]
    data = written.replace("RETRY", "retry").encode()
    made = chunk_source(data, language)
    assert not made.has_syntax_errors
    defined = {node.name_start_byte for node in (*made.ast_nodes, *made.members)}
    found = {reference.start_byte for reference in made.references if reference.name == "retry"}
    assert found == {place.start() for place in re.finditer("RETRY", written)} - defined


def test_a_declaration_on_the_line_of_a_call_hides_nothing() -> None:
    made = chunk_source(b"fn f() {\n    let item = item();\n    item();\n}\n", "rust")
    assert [(one.name, one.start_line) for one in made.references] == [("item", 1)]


def test_strings_comments_and_data_hold_no_references() -> None:
    made = chunk_source(b'# open it\nopen_it("open")\n', "python")
    assert [reference.name for reference in made.references] == ["open_it"]
    assert not chunk_source(b"open: it\n", "yaml").references
    assert not chunk_source(b"open = it\n", "ini").references


def test_a_reference_after_multi_byte_text_counts_bytes() -> None:
    (reference,) = chunk_source("'ü'; open\r\n".encode(), "javascript").references
    assert (reference.start_byte, reference.start_line, reference.start_column) == (6, 0, 6)


def naive_leaf_kinds(data: bytes, language: str, starts: list[int]) -> list[Counter[str]]:
    """Visits every node."""
    known = BY_NAME[language].grammar
    assert known is not None
    tree = parse(grammar(known), data)
    assert tree is not None
    counted: list[Counter[str]] = [Counter() for _ in starts]
    nodes = [tree.root_node]
    while nodes:
        node = nodes.pop()
        nodes += node.children
        inner = any(child.is_named and not child.is_missing for child in node.children)
        if node.is_named and not inner and not node.is_missing and node.type != "ERROR":
            counted[bisect_right(starts, node.start_byte) - 1][node.type] += 1
    return counted


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
@pytest.mark.parametrize(("max_chars", "merge_chars"), [(1600, 600), (60, 20)])
def test_leaf_kinds_are_those_of_a_walk_over_the_tree(path: Path, max_chars: int, merge_chars: int) -> None:
    data, language = path.read_bytes(), language_of(path.name) or ""
    made = chunk_source(data, language, max_chars=max_chars, merge_chars=merge_chars)
    expected = naive_leaf_kinds(data, language, [span.start_byte for span in made.spans])
    assert [Counter(dict(span.leaf_kinds)) for span in made.spans] == expected
    assert expected[0]


@settings(max_examples=150, deadline=None)
@example("bash", ["def f(x):", '"é"', "def f(x):", '"é"'], 1)  # a missing quote
@given(
    st.sampled_from(["python", "javascript", "css", "bash", "markdown"]),
    st.lists(
        st.sampled_from('def f(x):|\n|    |return x|{}|(|)|[1,2]|\'|"é"|;|# c|a.b|if|end|`'.split("|")), min_size=1
    ),
    st.integers(1, 40),
)
def test_leaf_kinds_of_broken_sources(language: str, pieces: list[str], size: int) -> None:
    data = "".join(pieces).encode()
    made = chunk_source(data, language, max_chars=size, merge_chars=size)
    expected = naive_leaf_kinds(data, language, [span.start_byte for span in made.spans])
    assert [Counter(dict(span.leaf_kinds)) for span in made.spans] == expected

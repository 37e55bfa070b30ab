"""What the lines above a place say of a variable, in the notations of several languages."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codequarry.serving.tools.naming.bindings import (
    NAME,
    SourceLines,
    bindings_above,
    imports_whole,
    last_primary,
    member_bindings,
    trailing_expression,
    type_around,
    with_name_marked,
)

PYTHON = """import os
from app import jobs
import a.b as shelf


class Store(Base):
    store: Other

    def open(self, path, door: Door = None):
        found = self.find(
            path,
        )
        with door.enter(1) as entered:
            for key in found.keys():
                print(key, path, entered)

    def close(self):
        door.shut()
""".split("\n")


@pytest.mark.parametrize(
    ("line", "word", "expected"),
    [
        (14, "found", ("", "self.find(", 9)),
        (14, "door", ("Door", "None):", 8)),
        (14, "path", ("", "", 8)),
        (14, "entered", ("", "door.enter(1)", 12)),
        (14, "key", ("", "found.keys()", 13)),
        (17, "door", None),
        (17, "found", None),
        (17, "store", ("Other", "", 6)),
    ],
)
def test_the_nearest_binding_of_the_same_function(line: int, word: str, expected: tuple[str, str, int] | None) -> None:
    found = bindings_above(SourceLines(PYTHON), line, word, "python")
    assert (found and (found.type_text.strip(), found.expression, found.line)) == expected


@pytest.mark.parametrize(
    ("lang", "text", "word", "expected"),
    [
        ("go", "func (s *Store) Open(t *testing.T, n int) {", "t", "*testing.T"),
        ("go", "func (s *Store) Open(t *testing.T, n int) {", "s", "*Store"),
        ("go", "\tvar b bytes.Buffer", "b", "bytes.Buffer"),
        ("java", "        Store store = makeStore();", "store", "Store"),
        ("java", "    void run(final Map<String, Store> byName, Door door) {", "door", "Door"),
        ("csharp", "foreach (Order order in orders)", "order", "Order"),
        ("cpp", "const Store& store, int n);", "store", "Store"),
        ("typescript", "const store: Store<Key> = make();", "store", "Store<Key>"),
        ("typescript", "function f(store?: Store, n = 1) {", "store", "Store"),
        ("rust", "fn open(store: &mut Store, n: u8) -> Door {", "store", "&mut Store"),
        ("kotlin", "fun open(store: Store, n: Int): Door {", "store", "Store"),
        ("python", "def f(a, by_name: dict[str, Store] = {}):", "by_name", "dict[str, Store]"),
    ],
)
def test_declared_types(lang: str, text: str, word: str, expected: str) -> None:
    found = bindings_above(SourceLines([text]), 0, word, lang)
    assert found is not None and found.type_text.strip() == expected


@pytest.mark.parametrize(
    ("lang", "text", "word", "expected"),
    [
        ("go", "\tstore, err := open(path)", "err", "open(path)"),
        ("python", "with lock, open(a, b) as other, open(path) as store:", "store", "open(path)"),
        ("python", "import a.b as store", "store", None),
        ("ruby", "  store = Store.new(path)", "store", "Store.new(path)"),
        ("javascript", "const store = await makeStore();", "store", "await makeStore()"),
        ("javascript", "for (const each of stores) {", "each", "stores"),
        ("python", "if x == store:", "store", None),
        ("java", "        return store;", "store", None),
    ],
)
def test_assigned_expressions(lang: str, text: str, word: str, expected: str | None) -> None:
    found = bindings_above(SourceLines([text]), 0, word, lang)
    assert (found and found.expression) == expected


def test_attributes_are_bound_anywhere_in_the_file() -> None:
    lines = ["self.store = Store()", "other.store: Door = x", "print(self.store)"]
    assert [one.expression for one in member_bindings(lines, "store", "python")] == ["Store()"]
    assert [one.type_text for one in member_bindings(["    store: Store"], "store", "python")] == [" Store"]


def test_the_type_around_a_line() -> None:
    assert [type_around(PYTHON, line) for line in (0, 5, 6, 14, 17, 18)] == ["", "", "Store", "Store", "Store", ""]
    rust = ["impl<T> Opens for Store<T> {", "    fn open(&self) {", "        self.check()", "    }", "}"]
    assert type_around(rust, 2) == "Store"
    assert type_around(["export class Door {", "  open() {", "    this.check();"], 2) == "Door"
    assert type_around([], 3) == ""


def test_modules_that_a_file_imports_as_a_whole() -> None:
    assert [imports_whole(PYTHON, word, "python") for word in ("os", "jobs", "shelf", "a")] == [
        True,
        False,
        True,
        False,
    ]
    assert imports_whole(["import (", '\t"net/http"', ")"], "http", "go")
    assert imports_whole(["import * as path from 'path';"], "path", "typescript")
    assert not imports_whole(["import path from 'path';"], "path", "typescript")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("store", ("store", False, "")),
        ("await make(1, [2])", ("make", True, "")),
        ("new Store(", ("Store", True, "")),
        ("a.b[0].c", ("c", False, "a.b[0]")),
        ('project({"a": "b"}).run("r")', ("run", True, 'project({"a": "b"})')),
        ("&Store{", ("Store", True, "")),
        ("Vec::new()", ("new", True, "Vec")),
        ("a + b", None),
        ("", None),
    ],
)
def test_the_last_part_of_an_expression(expression: str, expected: tuple[str, bool, str] | None) -> None:
    assert last_primary(expression) == expected


TEXTS = st.text(st.sampled_from("ab.:()[]{}\"' =,>-?!\n\t#é"), max_size=40)


@given(st.lists(TEXTS, max_size=6), st.integers(0, 8), st.sampled_from(["python", "go", "java", "typescript", "lua"]))
def test_no_text_is_too_odd(lines: list[str], line: int, lang: str) -> None:
    bindings_above(SourceLines(lines), line, "a", lang)
    member_bindings(lines, "b", lang)
    type_around(lines, line)
    for text in lines:
        last_primary(text)
        assert text.endswith(trailing_expression(text))


@given(st.text("ab_. =", max_size=20), st.text("ab_", max_size=3))
def test_a_name_is_marked_where_a_pattern_finds_it(text: str, name: str) -> None:
    expected = re.sub(rf"\b{name}\b", NAME, text) if name else text
    assert with_name_marked(text, name) == expected

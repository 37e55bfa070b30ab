"""References without an indexer: what the file says of a receiver tells one method from another of the same name."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from codequarry.pipelines.run import index_repositories
from codequarry.schemas.settings.load import Settings
from codequarry.schemas.wire.symbols import ReferencesRequest
from codequarry.serving.engine.engine import Engine
from codequarry.serving.render.places import references_text
from codequarry.serving.tools.naming.written_names import is_code
from tests.pipelines.conftest import Run
from tests.pipelines.lookups.test_relations import settings_of, write

FILES = {
    "app/store.py": """class Base:
    def open(self):
        return self.check()

    def check(self):
        return 1


class Store(Base):
    def __call__(self) -> "Door":
        return Door()

    def close(self):
        super().open()
        return self.open()


class Door:
    owner: Store

    def open(self):
        return self

    def close(self):
        return None


def make(kind) -> Store:
    return Store()


def open_all(close):
    return close
""",
    "app/use.py": """import os
import shelve as store
from app.store import Store, make
from app.store import Door as Gate

door = Gate()


def typed(store: Store, other, numbers=()):
    store.close()
    other.close()
    numbers = [1]
    numbers.close()
    os.close(3)
    run(close=1)


def made(box):
    first = make("a")
    first.close()
    second = first()
    second.close()
    second.owner.close()
    with make("b") as third:
        third.close()
    [each.close() for each in box]


class Own(Door):
    def shut(self):
        self.close()


store.close()
""",
    "app/shapes.py": """from abc import ABC


class Shape(ABC):
    def __init__(self, name):
        self.name = name

    def draw(self):
        return None


class Line(ABC):
    def __init__(self):
        super().__init__()
        super().draw()


class Round(Shape):
    def __init__(self):
        super().__init__("round")
""",
    "web/shop.ts": """import {Cart} from './cart';
import * as io from 'io';
export class Shop {
  constructor(private cart: Cart, private other: Till) {}
  total(cart: Cart) { return cart.total() + this.cart.total() + this.other.total() + io.total(); }
}
export class Till {
  total() { return 0; }
}
const till = new Till();
till.total();
anything.total();
""",
    "web/cart.ts": "export class Cart {\n  total() { return 1; }\n}\n",
    "go/run.go": """package run

import "testing"

type Job struct{}

func (j *Job) Run() {}

func (j *Job) All(t *testing.T, x any) {
\tj.Run()
\tt.Run("a", nil)
\tx.Run()
}
""",
}


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    home = tmp_path_factory.mktemp("evidence")
    write(home / "app", FILES)
    settings = settings_of(home)
    index_repositories(settings)
    return settings


@pytest.fixture(scope="module")
def engine(settings: Settings) -> Iterator[Engine]:
    opened = Engine.open(settings.bundle.root, settings.serving)
    yield opened
    opened.close()


def ask(engine: Engine, symbol: str) -> dict[str, dict[str, str]]:
    """Evidence of the references of a definition by the text of the line, by file."""
    found: dict[str, dict[str, str]] = {}
    for one in engine.references(ReferencesRequest(symbol=symbol, limit=100)).results:
        found.setdefault(one.uri.removeprefix("app/"), {})[one.preview.strip()] = one.evidence
    return found


def test_a_method_is_told_from_others_of_its_name_by_the_type_of_its_receiver(engine: Engine) -> None:
    found = ask(engine, "Store.close")["app/use.py"]
    resolved = [line for line, evidence in found.items() if evidence == "resolved"]
    assert resolved == ["store.close()", "first.close()", "second.owner.close()", "third.close()"]
    assert [line for line, evidence in found.items() if evidence == "by name"] == [
        "other.close()", "[each.close() for each in box]",
    ]  # fmt: skip
    door = ask(engine, "Door.close")["app/use.py"]
    assert [line for line, evidence in door.items() if evidence == "resolved"] == ["second.close()", "self.close()"]


def test_modules_keywords_and_values_of_the_language_are_left_out(engine: Engine) -> None:
    for symbol in ("Store.close", "Door.close"):
        found = ask(engine, symbol)["app/use.py"]
        assert not {"os.close(3)", "run(close=1)", "numbers.close()"} & set(found)
        assert "app/store.py" not in ask(engine, symbol)  # `close` there is a parameter


def test_members_come_down_from_the_types_that_a_type_extends(engine: Engine) -> None:
    found = ask(engine, "Base.open")["app/store.py"]
    assert found == {"super().open()": "resolved", "return self.open()": "resolved"}
    assert ask(engine, "Base.check") == {"app/store.py": {"return self.check()": "resolved"}}


def test_a_constructor_is_no_override_of_another_one(engine: Engine) -> None:
    assert ask(engine, "Shape.__init__") == {"app/shapes.py": {'super().__init__("round")': "resolved"}}
    assert ask(engine, "Line.__init__") == {}
    assert ask(engine, "Shape.draw") == {"app/shapes.py": {"super().draw()": "by name"}}


def test_types_of_typescript_and_go(engine: Engine) -> None:
    line = "total(cart: Cart) { return cart.total() + this.cart.total() + this.other.total() + io.total(); }"
    answer = engine.references(ReferencesRequest(symbol="Cart.total"))
    assert [(one.preview.strip(), one.start_column, one.evidence) for one in answer.results] == [
        (line, 34, "resolved"), (line, 54, "resolved"), ("anything.total();", 9, "by name"),
    ]  # fmt: skip
    till = engine.references(ReferencesRequest(symbol="Till.total"))
    assert [(one.start_line, one.evidence) for one in till.results] == [
        (4, "resolved"),
        (10, "resolved"),
        (11, "by name"),
    ]
    assert ask(engine, "Job.Run") == {"go/run.go": {"j.Run()": "resolved", "x.Run()": "by name"}}


def test_what_is_sure_comes_first_and_the_totals_say_how_many(engine: Engine, settings: Settings, run: Run) -> None:
    answer = engine.references(ReferencesRequest(symbol="Store.close"))
    assert answer.totals.model_dump() == {"precise": 0, "resolved": 4, "heuristic": 2}
    text = references_text(answer)
    assert "6 of 6: 4 resolved, 2 by name" in text
    assert text.index("app/use.py\n") < text.index("app/use.py  (by name)\n")
    printed = run("references", "Store.close", "--root", settings.bundle.root).stdout.splitlines()
    assert [line[0] for line in printed] == [" "] * 4 + ["?"] * 2


def test_a_name_of_many_files_is_read_in_some(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codequarry.serving.tools.naming.meanings._MOST_FILES", 1)
    assert engine.references(ReferencesRequest(symbol="Cart.total")).limits == []
    answer = engine.references(ReferencesRequest(symbol="Store"))
    evidence = {one.uri: one.evidence for one in answer.results}
    assert evidence == {"app/app/store.py": "resolved", "app/app/use.py": "by name"}
    unread = answer.totals.heuristic
    assert answer.limits == [
        f"{unread} of {answer.totals.all} places lie in files that were not read: known by name alone"
    ]


def test_a_name_of_a_library_is_found_where_it_stands_in_code(engine: Engine, run: Run, settings: Settings) -> None:
    answer = engine.references(ReferencesRequest(symbol="testing.T"))
    assert [(one.uri, one.start_line, one.roles, one.evidence) for one in answer.results] == [
        ("app/go/run.go", 8, ["read"], "by name")
    ]
    assert answer.totals.model_dump() == {"precise": 0, "resolved": 0, "heuristic": 1}
    stands = "not defined in this index: places in code where the word stands, without comments and strings"
    assert [answer.limits[0][:27], answer.limits[1]] == ["no definition has this name", stands]
    shelve = engine.references(ReferencesRequest(symbol="shelve"))
    assert [(one.start_line, one.roles) for one in shelve.results] == [(1, ["import"])]
    assert engine.references(ReferencesRequest(symbol="shelve", role="call")).results == []
    assert engine.references(ReferencesRequest(symbol="shelve", precision="precise")).results == []
    other = engine.references(ReferencesRequest(symbol="numpy.testing"))
    assert other.limits[-1] == f"{stands}; none stands behind numpy"
    place = engine.references(ReferencesRequest(uri="app/use.py:2:8"))
    assert [one.start_line for one in place.results] == [1]
    assert run("references", "testing.T", "--root", settings.bundle.root).stdout.startswith("? ")
    nothing = run("references", "strings.HasPrefix", "--root", settings.bundle.root)
    assert nothing.returncode == 1 and "no definition has this name" in nothing.stderr


@pytest.mark.parametrize(
    ("before", "lang", "expected"),
    [
        ("x = ", "python", True),
        ("x = 1  # see ", "python", False),
        ("x = 1  // see ", "python", True),
        ("s = f'", "python", False),
        ("s = 'it\\'s ", "python", False),
        ("s = 'a' + ", "ruby", True),
        ("  -- see ", "sql", False),
        ("  /* see ", "c", False),
    ],
)
def test_comments_and_strings_are_no_code(before: str, lang: str, expected: bool) -> None:
    assert is_code(before, lang) == expected


def test_definitions_are_looked_for_in_some_files(engine: Engine) -> None:
    """A name that other repositories define a hundred times is found in the one that is asked about."""
    symbols, directory = engine.bundle.symbols, engine.bundle.directory
    anywhere = np.ones(len(directory.paths), np.bool_)
    every = {name: symbols.with_name(name, 10, anywhere) for name in ("total", "Store")}
    assert [len(found) for found in every.values()] == [3, 1]
    assert symbols.with_name("store", 10, anywhere) == [], "as it is written"
    typescript = directory.files_of(["typescript"])
    till = directory.files_matching("**/shop.ts")
    assert [symbols.with_name(name, 10, typescript) for name in every] == [every["total"], []]
    (only,) = symbols.with_name("total", 1, till)
    assert only.file == int(till.nonzero()[0][0])
    row, store = (symbols.numbered([one.symbol_id])[0] for one in (only, every["Store"][0]))
    assert (row.file, row.name, row.qualified_name, row.kind) == only[1:]
    assert symbols.signatures([only.symbol_id]) == {only.symbol_id: row.signature}
    names = [row.name_id, store.name_id]
    assert symbols.few_of_names(names, 1, till) == [row]
    assert {row.name for row in symbols.few_of_names(names, 10)} == {"total", "Store"}
    assert symbols.few_of_names(names, 10, ~directory.indexed) == []

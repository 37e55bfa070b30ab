"""Relations of real sources in three languages: who calls what, what extends what, and which tests a change breaks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from codequarry.pipelines.run import IndexReport, index_repositories
from codequarry.pipelines.stack.build import index_changes
from codequarry.schemas.errors import InvalidArgumentError, NotFoundError
from codequarry.schemas.settings.load import Settings, load_settings
from codequarry.schemas.wire.relations import RelationResult, RelationsAnswer, RelationsRequest
from codequarry.serving import open_catalog
from codequarry.serving.engine.engine import Engine
from codequarry.serving.render.relations import relations_text
from codequarry.serving.tools.relations import symbol_graph
from codequarry.serving.tools.relations.relations import relations
from tests.pipelines.conftest import Run

FILES = {
    "app/store.py": '''"""Keeps sessions."""


class Store:
    def open(self, path):
        return self.check(path)

    def check(self, path):
        return path

    def close(self):
        pass


class MemoryStore(Store):
    def open(self, path):
        return {}


def make_store(kind):
    return MemoryStore() if kind == "memory" else Store()
''',
    "app/jobs.py": '''from app.store import Store, make_store


def clean(store: Store, door):
    store.open("x")
    door.open()


def nightly():
    clean(make_store("memory"), None)
    nightly()
''',
    "app/doors.py": "class Door:\n    def open(self):\n        return True\n\n\n"
    "def enter(door: Door):\n    return door.open()\n",
    "app/cli.py": "from app.jobs import nightly\n\nnightly()\n",
    "tests/test_store.py": "from app.store import Store\n\n\ndef test_open():\n    assert Store().open(1) == 1\n",
    "tests/test_night.py": "from app import jobs\n\n\ndef test_nightly():\n    jobs.nightly()\n",
    "tests/test_doors.py": "def test_nothing():\n    assert True\n",
    "web/cart.ts": "import { Priced } from './price';\n"
    "export class Cart implements Priced {\n  total() { return sum([1]); }\n}\n"
    "export function sum(prices: number[]) { return prices.length; }\n",
    "web/price.ts": "export interface Priced { total(): number }\n",
    "box/box.go": "package box\n\ntype Box struct{}\n\nfunc (b *Box) Grow() { shrink(b) }\n",
    "box/shrink.go": "package box\n\nfunc shrink(b *Box) { b.Grow() }\n",
}  # fmt: skip


def write(folder: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def settings_of(home: Path, **bundle: object) -> Settings:
    listed = "".join(f"{name} = {str(value).lower()}\n" for name, value in bundle.items())
    file = home / "project.toml"
    file.write_text(f'[scip]\nenabled = false\n[[sources.repositories]]\npath = "app"\n[bundle]\nroot = "b"\n{listed}')
    return load_settings(file)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("relations")
    write(folder / "app", FILES)
    index_repositories(settings_of(folder, delta=True, delta_share=0.9))
    return folder


@pytest.fixture(scope="module")
def engine(home: Path) -> Iterator[Engine]:
    opened = Engine.open(home / "b", load_settings(home / "project.toml").serving)
    yield opened
    opened.close()


def ask(engine: Engine, kind: str, target: str, **arguments: object) -> RelationsAnswer:
    request = RelationsRequest.model_validate({"kind": kind, "target": target, **arguments})
    answer = engine.answer("relations", relations, request)
    assert isinstance(answer, RelationsAnswer)
    return answer


def brief(one: RelationResult) -> str:
    return f"{'+' * (one.depth - 1)}{one.name or one.uri}:{one.start_line + 1} {one.relation}, {one.evidence}"


def found(engine: Engine, kind: str, target: str, **arguments: object) -> list[str]:
    return [brief(one) for one in ask(engine, kind, target, **arguments).results]


def test_a_receiver_whose_type_the_file_names_decides_who_calls_a_method(engine: Engine) -> None:
    """`store.open()` is typed, and so is nothing of `Door`; `door.open()` beside it is known by name alone."""
    assert found(engine, "callers", "Store.open") == ["clean:5 calls, resolved", "test_open:5 calls, resolved"]
    assert found(engine, "callers", "Door.open") == ["enter:7 calls, resolved", "clean:6 calls, by name"]
    assert found(engine, "callers", "Store.check") == ["Store.open:6 calls, resolved"]


def test_callers_of_callers_and_a_cycle(engine: Engine) -> None:
    answer = ask(engine, "callers", "make_store", depth=3)
    assert [brief(one) for one in answer.results] == [
        "nightly:10 calls, resolved", "+app/app/cli.py:3 calls, resolved", "+nightly:11 calls, resolved",
        "+test_nightly:5 calls, resolved",
    ]  # fmt: skip
    assert [one.name for one in answer.results if one.again] == ["nightly"]
    text = relations_text(answer)
    assert text.startswith(
        "of function make_store app/store.py:20\napp/jobs.py:10  function nightly  clean(make_store("
    )
    assert "\n  app/cli.py:3  nightly()  [calls, resolved]\n" in text


def test_what_a_definition_calls(engine: Engine) -> None:
    assert found(engine, "callees", "nightly") == ["clean:4 is called, resolved", "make_store:20 is called, resolved"]
    assert found(engine, "callees", "Box.Grow") == ["Box:3 is used, resolved", "shrink:3 is called, resolved"]


def test_subtypes_and_overrides(engine: Engine) -> None:
    assert found(engine, "implementations", "Store") == ["MemoryStore:15 extends, resolved"]
    assert found(engine, "implementations", "Store.open") == ["MemoryStore.open:16 overrides, resolved"]
    assert found(engine, "implementations", "Priced") == ["Cart:2 extends, resolved"]


def test_uses_inside_of_functions_hide_no_subtype(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbol_graph, "_MOST_USES", 1)  # Store is used in four functions too
    assert found(engine, "implementations", "Store") == ["MemoryStore:15 extends, resolved"]


def test_imports_both_ways(engine: Engine) -> None:
    answer = ask(engine, "imports", "app/jobs.py")
    assert {(one.relation, one.uri) for one in answer.results} == {
        ("imports", "app/app/cli.py"), ("imports", "app/tests/test_night.py"), ("is imported", "app/app/store.py"),
    }  # fmt: skip
    assert found(engine, "imports", "web") == []


def test_impact_of_a_name_a_path_and_a_diff(engine: Engine) -> None:
    names = [one.name for one in ask(engine, "impact", "make_store").results]
    assert {"nightly", "test_nightly"} <= set(names)
    by_path = ask(engine, "impact", "app/store.py")
    assert {"app/app/jobs.py", "app/tests/test_store.py"} <= {one.uri for one in by_path.results}
    diff = "--- a/app/jobs.py\n+++ b/app/jobs.py\n@@ -9,2 +9,2 @@\n def nightly():\n-    clean(make_store('memory'))\n"
    answer = ask(engine, "impact", f"diff --git a/app/jobs.py b/app/jobs.py\n{diff}+    clean(None, None)\n")
    assert answer.targets == ["app/app/jobs.py"]
    assert {one.uri for one in answer.results} == {"app/app/cli.py", "app/tests/test_night.py", "app/app/jobs.py"}


def test_tests_that_a_change_breaks_come_with_their_reason(engine: Engine) -> None:
    assert found(engine, "affected_tests", "Store.open")[0] == "test_open:5 tests, resolved"
    (first, *_) = ask(engine, "affected_tests", "app/jobs.py").results
    assert (first.uri, first.reason) == ("app/tests/test_night.py", "jobs.nightly()")
    (named, *_) = ask(engine, "affected_tests", "app/doors.py").results
    assert (named.uri, named.reason) == ("app/tests/test_doors.py", "test_doors.py is named after app/doors.py")
    assert ask(engine, "affected_tests", "app/store.py", filters={"exclude": ["tests"]}).results == []


def test_what_cannot_be_asked_is_refused(engine: Engine) -> None:
    with pytest.raises(NotFoundError, match="no file, folder or definition"):
        ask(engine, "impact", "app/nothing.py:3")
    for target in ("", "two\nlines", "x" * 300_000):
        with pytest.raises(InvalidArgumentError, match="target"):
            ask(engine, "callers", target)
    assert "no definition has this name" in ask(engine, "callers", "brew").limits[0]
    assert "clamped" in ask(engine, "callers", "clean", depth=99).limits[0]


def test_a_delta_version_is_followed_as_well(home: Path, engine: Engine) -> None:
    """Last, as it changes what is current: `engine` goes on with the version that it opened."""
    write(home / "app", {"app/evening.py": "from app.jobs import nightly\n\n\ndef evening():\n    nightly()\n"})
    (home / "app" / "app" / "cli.py").unlink()
    report = index_changes(load_settings(home / "project.toml"))
    assert isinstance(report, IndexReport) and report.manifest.stack is not None
    later = Engine.open(home / "b", load_settings(home / "project.toml").serving)
    try:
        uris = [one.uri for one in ask(later, "callers", "nightly").results]
        assert sorted(uris) == ["app/app/evening.py", "app/app/jobs.py", "app/tests/test_night.py"]
        imports = {one.uri for one in ask(later, "imports", "app/jobs.py").results if one.relation == "imports"}
        assert imports == {"app/app/evening.py", "app/tests/test_night.py"}
    finally:
        later.close()


def test_the_command_reads_names_and_diffs(run: Run, home: Path) -> None:
    root = ("--root", home / "b")
    done = run("relations", "implementations", "Store", *root)
    assert done.returncode == 0 and "class MemoryStore" in done.stdout, done.stderr
    none = run("relations", "callers", "test_nothing", *root)
    assert (none.returncode, none.stdout) == (1, "")
    assert run("relations", "affected-tests", "-", *root).returncode == 2


def test_relations_are_views_of_the_catalog(home: Path, engine: Engine) -> None:
    with open_catalog(home / "b") as catalog:
        calls = catalog.sql("SELECT caller, start_line + 1, callee, evidence FROM calls").fetchall()
        assert ("clean", 6, "Store.open", "by name") in calls
        assert ("nightly", 10, "make_store", "resolved") in calls
        assert ("evening", 5, "nightly", "resolved") in calls  # of the delta, which the test before has made
        assert not [caller for caller, _, callee, _ in calls if caller == "Store.open" and callee != "Store.check"]
        inherits = catalog.sql("SELECT type, base, evidence FROM inherits").fetchall()
        assert {("MemoryStore", "Store", "resolved"), ("Cart", "Priced", "resolved")} <= set(inherits)
        tests = catalog.sql("SELECT test, path, definition, reason, evidence FROM tests_of").fetchall()
        assert {
            ("tests/test_store.py", "app/store.py", "Store", "calls", "resolved"),
            ("tests/test_store.py", "app/store.py", "", "imports", "resolved"),
            ("tests/test_store.py", "app/store.py", "", "name", "by name"),
            ("tests/test_night.py", "app/jobs.py", "nightly", "calls", "resolved"),
        } - set(tests) == set()

"""Delta versions over a base that SCIP described: what did not change stays precise, what did is known by syntax."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codequarry.pipelines.run import IndexReport, index_repositories
from codequarry.pipelines.stack.build import NotStacked, index_changes
from codequarry.schemas.bundle.stack import SCIP_ARRAYS
from codequarry.schemas.settings.load import ServingSettings, Settings
from codequarry.schemas.wire.relations import RelationsRequest
from codequarry.schemas.wire.symbols import DefinitionRequest, ReferencesRequest
from codequarry.serving.engine.engine import Engine
from codequarry.serving.sql.session import open_catalog
from codequarry.serving.tools.relations.relations import relations
from codequarry.serving.version.file_checks import check_version
from tests.pipelines.conftest import MakeSettings
from tests.pipelines.repositories import commit
from tests.pipelines.scip.scip_writer import document, information, metadata, occurrence
from tests.pipelines.stack.small_indexer import OS, PACKAGE, write_index
from tests.pipelines.stack.test_answers import Edit, apply, edits, tree, with_large_deltas

_NAME = re.compile(r"[A-Za-z_]\w{2,}")
Place = tuple[str, int, int]
"""Path with the repository, line and column, 0-based."""


def with_index(made: Settings, file: Path) -> Settings:
    """Give an index to the one repository."""
    (repository,) = made.sources.repositories
    listed = (repository.model_copy(update={"scip": (file,)}),)
    sources = made.sources.model_copy(update={"repositories": listed})
    return with_large_deltas(made.model_copy(update={"sources": sources}))


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """A library that another file uses."""
    folder = tmp_path / "app"
    files: dict[str, str | bytes] = {
        "lib.py": "import os\n\n\ndef fetch(key):\n    return os.path.join(key)\n\n\nclass Store:\n"
        "    def close(self):\n        return self.flush()\n\n    def flush(self):\n        return fetch(1)\n",
        "use.py": "from lib import fetch, Store\n\n\ndef run():\n    Store()\n    return fetch(2)\n",
        "other.py": "def fetch(key):\n    return key\n",
        **{f"more{number}.py": f"def more{number}():\n    return {number}\n" for number in range(20)},
    }
    commit(folder, files)
    return folder


def open_changed(made: Settings, folder: Path, *edits: tuple[str, str, str]) -> Engine:
    """Index a folder, replace texts in its files, and open the delta version."""
    index_repositories(made)
    for path, old, new in edits:
        text = (folder / path).read_text()
        assert old in text
        (folder / path).write_text(text.replace(old, new, 1))
    report = index_changes(made)
    assert isinstance(report, IndexReport), report
    assert report.manifest.stack is not None
    return Engine.open(made.bundle.root, ServingSettings())


def references(engine: Engine, **target: object) -> set[tuple[str, int, str]]:
    """Path, 1-based line and evidence of each reference."""
    answer = engine.references(ReferencesRequest.model_validate({**target, "limit": 200}))
    return {(one.uri, one.start_line + 1, one.evidence) for one in answer.results}


def definitions(engine: Engine, **target: object) -> list[tuple[str, int, str]]:
    """Path, 1-based line and precision of each definition."""
    answer = engine.definitions(DefinitionRequest.model_validate({**target, "limit": 50}))
    return [(one.uri, one.start_line + 1, one.precise) for one in answer.results]


@pytest.fixture
def made(app: Path, tmp_path: Path, make_settings: MakeSettings) -> Settings:
    write_index(tmp_path / "app.scip", app)
    return with_index(make_settings(app), tmp_path / "app.scip")


def test_uses_that_did_not_change_stay_exact_when_their_definition_moves(app: Path, made: Settings) -> None:
    with closing(open_changed(made, app, ("lib.py", "import os", "import os\nimport sys"))) as engine:
        assert definitions(engine, symbol="lib.fetch") == [("app/lib.py", 5, "heuristic")]
        assert references(engine, symbol="lib.fetch") == {
            ("app/use.py", 1, "exact"), ("app/use.py", 6, "exact"), ("app/lib.py", 14, "resolved"),
        }  # fmt: skip
        assert definitions(engine, uri="app/use.py", line=5, column=11) == [("app/lib.py", 5, "heuristic")]
        assert definitions(engine, symbol=f"{PACKAGE} `lib`/fetch().") == [("app/lib.py", 5, "heuristic")]
        assert definitions(engine, symbol="other.fetch") == [("app/other.py", 1, "precise")]
        assert references(engine, symbol="other.fetch") == set(), "each use says which of the two it means"


def test_uses_of_what_is_gone_are_known_by_name(app: Path, made: Settings) -> None:
    with closing(open_changed(made, app, ("lib.py", "def fetch(key)", "def load(key)"))) as engine:
        assert definitions(engine, symbol="lib.fetch") == []
        assert definitions(engine, symbol="fetch") == [("app/other.py", 1, "precise")]
        assert definitions(engine, uri="app/use.py", line=5, column=11) == [("app/other.py", 1, "precise")]
        found = {place for place in references(engine, symbol="fetch") if place[0] == "app/use.py"}
        assert {evidence for *_, evidence in found} <= {"by name", "resolved"}
        assert definitions(engine, uri="app/use.py", line=4, column=4) == [("app/lib.py", 8, "heuristic")]


def implementations(engine: Engine, target: str) -> set[tuple[str, str]]:
    """Name and evidence of what derives from a type."""
    answer = engine.answer("relations", relations, RelationsRequest(kind="implementations", target=target))
    return {(one.name, one.evidence) for one in answer.results}


def test_relations_that_a_changed_file_states_are_those_of_its_text(
    app: Path, tmp_path: Path, make_settings: MakeSettings
) -> None:
    shapes = "class Shape:\n    pass\n\n\nclass Other:\n    pass\n\n\nclass Round(Shape):\n    pass\n"
    commit(app, {"shapes.py": shapes, "kept.py": shapes.replace("Shape", "Kept").replace("Round", "Stays")})
    write_index(tmp_path / "app.scip", app)
    made = with_index(make_settings(app), tmp_path / "app.scip")
    with closing(open_changed(made, app, ("shapes.py", "Round(Shape)", "Round(Other)"))) as engine:
        assert implementations(engine, "Shape") == set()
        assert ("Round", "exact") not in implementations(engine, "shapes.Other")
        assert "Round" in {name for name, _ in implementations(engine, "shapes.Other")}
        assert implementations(engine, "Kept") == {("Stays", "exact")}


def test_what_several_files_define_keeps_all_its_places(app: Path, tmp_path: Path, make_settings: MakeSettings) -> None:
    part = "class Part:\n    pass\n"
    commit(app, {"part1.py": part, "part2.py": part, "uses.py": "def go():\n    return Part()\n"})
    symbol = f"{PACKAGE} `parts`/Part#"
    defining = [
        document(path, occurrence(symbol, [0, 6, 10], 1), symbols=[information(symbol)])
        for path in ("part1.py", "part2.py")
    ]
    index = metadata() + b"".join(defining) + document("uses.py", occurrence(symbol, [1, 11, 15]))
    (tmp_path / "app.scip").write_bytes(index)
    made = with_index(make_settings(app), tmp_path / "app.scip")
    with closing(open_changed(made, app, ("part1.py", "class Part", "\n\nclass Part"))) as engine:
        both = {("app/part1.py", 3), ("app/part2.py", 1)}
        assert {place[:2] for place in definitions(engine, uri="app/uses.py", line=1, column=12)} == both
        assert {place[:2] for place in definitions(engine, symbol=symbol)} == both
        assert references(engine, symbol="Part") == {("app/uses.py", 2, "exact")}


def test_what_no_file_defines_keeps_its_name_and_places(app: Path, made: Settings) -> None:
    with closing(open_changed(made, app, ("more1.py", "return 1", "return os.sep"))) as engine:
        assert references(engine, symbol=OS) == {("app/lib.py", 1, "exact")}
    with open_catalog(made.bundle.root) as catalog:
        ((target,),) = catalog.sql(f"SELECT target_id FROM outside_mat WHERE symbol = '{OS}'").fetchall()
        assert target > 1 << 30
        places = f"SELECT count(*) FROM occurrences_mat WHERE target_id = {target}"
        assert catalog.sql(places).fetchall() == [(1,)]


def test_the_manifest_says_how_many_files_are_known_by_syntax(app: Path, made: Settings) -> None:
    with closing(open_changed(made, app, ("lib.py", "import os", "import os, sys"))) as engine:
        (source,) = engine.bundle.manifest.sources
        (entry,) = source.scip
        assert (entry.status, entry.given) == ("partial", "app.scip")
        assert "1 files that changed since are known by syntax" in entry.reason
    with open_catalog(made.bundle.root) as catalog:
        assert catalog.sql("SELECT count(*) FROM scip_documents").fetchall() == [(22,)]


def test_another_index_needs_a_complete_version(app: Path, made: Settings, tmp_path: Path) -> None:
    index_repositories(made)
    (app / "lib.py").write_text("def fetch(key):\n    return 1\n")
    write_index(tmp_path / "app.scip", app)
    done = index_changes(made)
    assert isinstance(done, NotStacked) and "other SCIP indexes of app are given" in done.reason


@pytest.mark.parametrize("name", SCIP_ARRAYS)
def test_an_array_that_is_missing_is_found_out(app: Path, made: Settings, name: str) -> None:
    with closing(open_changed(made, app, ("lib.py", "def fetch(key)", "def load(key)"))) as engine:
        paths, manifest = engine.bundle.paths, engine.bundle.manifest
    array = paths.stack / f"{name}.npy"
    kept = array.read_bytes()
    array.unlink()
    failed = [check for check in check_version(paths, manifest) if not check.passed]
    assert any(check.name == "base of the delta version" and name in str(check) for check in failed)
    array.write_bytes(kept.replace(b"'<i4'", b"'<f4'"))
    failed = [check for check in check_version(paths, manifest) if not check.passed]
    assert any(f"{name}.npy is not of this base and this delta" in str(check) for check in failed)


def names_of(texts: Iterable[str]) -> Iterator[str]:
    yield from sorted({name for text in texts for name in _NAME.findall(text)})


def unchanged_places(engine: Engine, name: str, unchanged: set[str]) -> dict[Place, str]:
    """References of a name in files that did not change, with their evidence."""
    answer = engine.references(ReferencesRequest(symbol=name, limit=500))
    assert answer.totals.all <= 500
    return {(one.uri, one.start_line, one.start_column): one.evidence for one in answer.results if one.uri in unchanged}


@given(first=st.lists(edits, min_size=1, max_size=6))
@settings(
    max_examples=int(os.environ.get("CODEQUARRY_STACK_EXAMPLES", "3")),
    deadline=None,
    derandomize="CODEQUARRY_STACK_EXAMPLES" not in os.environ,
    suppress_health_check=list(HealthCheck),  # pyright: ignore[reportArgumentType]
)
def test_files_that_did_not_change_are_known_as_by_an_index_of_the_whole_tree(
    first: list[Edit], make_settings: MakeSettings, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A version over a base with SCIP, and a complete one with an index of the new tree: definitions are the same, no
    use in an unchanged file is lost, and none is called exact that is not."""
    home = tmp_path_factory.mktemp("scip")
    folder = home / "app"
    commit(folder, tree())
    write_index(home / "before.scip", folder)
    before = {path: path.read_bytes() for path in folder.rglob("*.*") if ".git" not in path.parts}
    over = with_index(make_settings(folder, home=home / "over"), home / "before.scip")
    index_repositories(over)
    for edit in first:
        apply(folder, edit)
    report = index_changes(over)
    assert isinstance(report, IndexReport), report
    write_index(home / "after.scip", folder)
    whole = with_index(make_settings(folder, home=home / "whole"), home / "after.scip")
    index_repositories(whole)
    files = {path: path.read_bytes() for path in folder.rglob("*.*") if ".git" not in path.parts}
    unchanged = {f"app/{path.relative_to(folder)}" for path, data in files.items() if before.get(path) == data}
    with (
        closing(Engine.open(over.bundle.root, ServingSettings())) as ours,
        closing(Engine.open(whole.bundle.root, ServingSettings())) as theirs,
    ):
        for name in names_of(data.decode() for data in files.values()):
            mine, wanted = ({place[:2] for place in definitions(one, symbol=name)} for one in (ours, theirs))
            assert mine == wanted, name
            found, true = (unchanged_places(one, name, unchanged) for one in (ours, theirs))
            exact, truly = ({place for place, how in each.items() if how == "exact"} for each in (found, true))
            assert exact <= truly, name
            assert truly <= found.keys(), name
    shutil.rmtree(home)

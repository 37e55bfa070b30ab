from __future__ import annotations

import numpy as np
import pytest

from codequarry.schemas.settings.load import ServingSettings
from codequarry.serving.engine.engine import Engine
from codequarry.serving.tools.browse.excerpts import Excerpt
from codequarry.serving.tools.browse.related_places import RelatedSearch, Subject, related_places
from tests.serving.bundles.bundle_factory import write_bundle
from tests.serving.bundles.symbol_rows import Source, pieces_and_rows
from tests.serving.tools.browse.test_explore import JOBS, RULES, STORE, TEST


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory):
    root = tmp_path_factory.mktemp("related")
    many = [
        Source(f"app/many{number}.py", f"def shared():\n    return {number}\n\n\nshared()\n") for number in range(4)
    ]
    for one in many:
        one.define("shared", "function", body=one.text[: one.text.index("\n\n\n")])
        one.refer("shared", "call", nth=1)
    pieces, rows = pieces_and_rows([STORE, RULES, JOBS, TEST, *many])
    write_bundle(root, pieces, rows=rows)
    opened = Engine.open(root, ServingSettings())
    yield opened
    opened.close()


def find(engine: Engine, name: str, *, files: np.ndarray | None = None, shows=lambda file, line: False):
    (row, *_) = engine.bundle.symbols.called(name, (), None).rows
    subject = Subject(row, Excerpt(row.file, row.body_start_line, row.body_end_line, ""))
    places, common = related_places(RelatedSearch(engine.bundle, files, shows), [subject])
    paths = engine.bundle.directory.paths
    return [(one.role, paths[one.file], one.first + 1, one.by_name) for one in places], common


def test_roles(sessions) -> None:
    """One caller for each definition around it; an import is no call, and the variable ``drop`` no callee."""
    found, common = find(sessions, "SessionStore.remove_expired")
    assert sorted(found) == [
        ("callee", "app/rules.py", 5, True), ("caller", "app/jobs.py", 5, True),
        ("test", "tests/test_store.py", 2, True), ("type", "app/rules.py", 1, True),
    ]  # fmt: skip
    assert common == []


def test_what_is_shown_already_is_left_out(sessions) -> None:
    rules = sessions.bundle.directory.paths.index("app/rules.py")
    found, _ = find(sessions, "SessionStore.remove_expired", shows=lambda file, line: file == rules)
    assert {role for role, *_ in found} == {"caller", "test"}


def test_files_that_are_not_wanted_are_left_out(sessions) -> None:
    wanted = np.array(["tests/" not in path for path in sessions.bundle.directory.paths])
    found, _ = find(sessions, "SessionStore.remove_expired", files=wanted)
    assert {role for role, *_ in found} == {"caller", "callee", "type"}


def test_uses_of_a_common_name_are_not_guessed(sessions) -> None:
    assert find(sessions, "shared") == ([], ["shared"])


def test_precise_places_come_without_a_guess(symbol_engine) -> None:
    found, _ = find(symbol_engine, "Store.open")
    assert ("caller", "io/store.py", 11, False) in found
    assert {one for one in found if one[0] == "callee"} == {("callee", "io/index.py", 7, False)}


def test_nothing_to_ask_about(sessions) -> None:
    assert related_places(RelatedSearch(sessions.bundle, None, lambda *_: False), []) == ([], [])

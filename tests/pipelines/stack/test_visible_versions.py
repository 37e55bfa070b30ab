"""A caller who may see one repository of a version, complete or delta, gets the answers of an index of that alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from codequarry.pipelines.run import IndexReport, index_repositories
from codequarry.pipelines.stack.build import index_changes
from codequarry.schemas.settings.load import ServingSettings, Settings
from codequarry.schemas.wire.grep import CodeSearchRequest
from codequarry.schemas.wire.search import SearchFilters
from codequarry.serving.engine.engine import Engine
from codequarry.serving.request.admission import Call, begin_call
from codequarry.serving.request.repository_scope import EVERYTHING, RepositoryScope
from tests.pipelines.conftest import MakeSettings
from tests.pipelines.repositories import commit
from tests.pipelines.stack.alike import differing
from tests.pipelines.stack.test_answers import apply, text_of, tree, with_large_deltas


@pytest.fixture
def as_app() -> Iterator[None]:
    """The caller may see the repository app."""
    begin_call(Call(scope=RepositoryScope(("app",))))
    yield
    begin_call(Call(scope=EVERYTHING))


def engines(*given: Settings) -> list[Engine]:
    return [Engine.open(each.bundle.root, ServingSettings()) for each in given]


def test_what_is_hidden_changes_no_answer(as_app: None, make_settings: MakeSettings, tmp_path: Path) -> None:
    app, vault = tmp_path / "app", tmp_path / "vault"
    commit(app, tree(25))
    commit(vault, {f"pkg{number % 5}/mod{number}.py": text_of("a.py", number + 100) for number in range(0, 25, 2)})
    both, alone = (
        with_large_deltas(make_settings(*folders, home=tmp_path / name))
        for name, folders in (("both", (app, vault)), ("alone", (app,)))
    )
    for step in ("complete", "delta"):
        if step == "delta":
            for folder in (app, vault):
                for edit in (("edit", 0, 7), ("append", 1, 8), ("add", 2, 9), ("rename", 3, 11)):
                    apply(folder, edit)
            assert isinstance(index_changes(both), IndexReport)
        else:
            index_repositories(both)
        index_repositories(alone)
        opened = engines(both, alone)
        try:
            assert (opened[0].bundle.manifest.stack is not None) == (step == "delta")
            files = [[file for file in each.rglob("*.*") if ".git" not in file.parts] for each in (app, vault)]
            texts = [file.read_text() for file in (*files[0], *files[1])]
            names = [f"app/{file.relative_to(app)}" for file in files[0]]
            names += [f"vault/{file.relative_to(vault)}" for file in files[1]]
            assert differing(*opened, texts, names) == []
            for name in sorted({name for text in texts for name in re.findall(r"def (\w+)", text)}):
                asked = CodeSearchRequest(pattern="value", filters=SearchFilters(symbols=[name]))
                ours, theirs = (engine.search_code(asked) for engine in opened)
                assert (ours.limits, ours.results) == (theirs.limits, theirs.results)
        finally:
            for engine in opened:
                engine.close()

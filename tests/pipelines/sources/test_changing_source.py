"""A repository that changes while it is read: every file is whole, as at one moment, and the snapshot says so."""

from __future__ import annotations

import hashlib
from pathlib import Path

from codequarry.pipelines.sources.snapshot import read_contents, snapshot_repository
from codequarry.pipelines.sources.sources import repositories_by_name
from codequarry.pipelines.store.workspace import repository_work
from codequarry.schemas.bundle.tables import read_table
from codequarry.schemas.settings.load import RepositorySettings
from tests.pipelines.conftest import MakeSettings
from tests.pipelines.repositories import commit, git

FILES = {f"f{number:02}.py": f"def f{number}():\n    return {number}\n" for number in range(40)}


def test_files_that_change_vanish_and_appear_leave_a_snapshot_of_whole_files(
    tmp_path: Path, make_settings: MakeSettings
) -> None:
    app = tmp_path / "app"
    before = commit(app, FILES)
    settings = make_settings(app)
    moved: list[str] = []

    def change(_what: str, _done: int, _total: int) -> None:
        if not moved:
            (app / "f38.py").write_text("def changed():\n    return 1\n")
            (app / "f39.py").unlink()
            moved.append(commit(app, {"new.py": "def new():\n    return 1\n"}))

    (repository,) = repositories_by_name(settings.sources.repositories).values()
    snapshot = snapshot_repository(repository, settings, change)
    assert moved
    assert snapshot.commit == before
    work = repository_work(settings.paths.work, "app")
    census = {row["path"]: row for row in read_table(work.census).to_pylist()}
    contents = {path: content for path, _, content in read_contents(work)}
    assert contents.keys() == {path for path, row in census.items() if not row["skip_reason"]}
    assert {path: hashlib.sha256(content).hexdigest() for path, content in contents.items()} == {
        path: census[path]["sha256"] for path in contents
    }
    changed = {path for path in FILES if contents.get(path, b"").decode() != FILES[path]}
    assert changed <= {"f38.py", "f39.py"}
    assert snapshot.dirty is bool(changed)


def test_a_commit_is_read_as_it_was_whatever_its_branch_does_meanwhile(
    tmp_path: Path, make_settings: MakeSettings
) -> None:
    app = tmp_path / "app"
    before = commit(app, FILES)

    done: list[bool] = []

    def force(_what: str, _done: int, _total: int) -> None:
        if done:
            return
        done.append(True)
        git(app, "checkout", "--quiet", "--orphan", "other")
        commit(app, {"f00.py": "other\n"})
        git(app, "branch", "--force", "main", "other")
        git(app, "checkout", "--quiet", "main")

    settings = make_settings()
    sources = settings.sources.model_copy(update={"repositories": (RepositorySettings(path=app, ref="main"),)})
    settings = settings.model_copy(update={"sources": sources})
    (repository,) = repositories_by_name(sources.repositories).values()
    snapshot = snapshot_repository(repository, settings, force)
    assert done
    assert (snapshot.commit, snapshot.dirty) == (before, False)
    found = {path: content.decode() for path, _, content in read_contents(repository_work(settings.paths.work, "app"))}
    assert found == FILES

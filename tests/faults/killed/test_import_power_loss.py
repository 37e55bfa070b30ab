"""F3 for imports: power fails at any moment of one that publishes, one that adds, and the first under a new root."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.killed.test_power_loss import ACKNOWLEDGED, CURRENT, judged, moved
from tests.faults.scenes.calls import Call, Recorder, intercepted
from tests.faults.scenes.moving import Adding, Moving
from tests.faults.scenes.power_loss import Disk, Tree
from tests.faults.scenes.scene import NEW, OLD
from tests.faults.scenes.stacked import BASE

LONG = pytest.mark.faults_long
MARK = "bundles/.publishing"


@dataclass(frozen=True)
class Trace:
    """An import as if done in the template's folder."""

    template: Moving
    calls: list[Call]
    expected: dict[str, frozenset[str]]
    """Names of the files of each version."""

    @property
    def before(self) -> str:
        """What is current before; empty when nothing was published."""
        return OLD if OLD in self.expected else ""

    def wrong(self, calls: Sequence[Call], *, start: int = 0) -> str:
        """What is wrong with the first state in which something is; '' when every state is right."""
        disk, published = Disk(self.template.base, unsynced=()), set(self.template.root.version_names())
        adding = isinstance(self.template, Adding)
        unmarked = acknowledged = False
        for place, call in enumerate(calls):
            if call.name == ACKNOWLEDGED:
                acknowledged = True
                published.add(NEW)
            else:
                disk.apply(call)
                unmarked |= (call.name, Path(call.path).name) == ("unlink", ".publishing")
            allowed = {OLD} if adding else {NEW} if acknowledged else {self.before, NEW}
            for tree in disk.states() if place >= start else ():
                # Without its mark an added version counts, before anybody was told of it and from then on.
                counts = published | ({NEW} if adding and unmarked and MARK not in tree else set())
                # A base without its mark stays, as a version that is not current, whatever becomes of the delta.
                counts |= set() if _is_begun(tree, BASE) and not _is_named(tree, NEW) else {BASE}
                problem = judged(tree, self.expected, allowed, counts) or (acknowledged and _lost(tree))
                if problem:
                    return f"{call.name} {Path(call.path).name}: {problem}"
        return ""

    def unnoticed(self, *, start: int) -> list[str]:
        """The syncs that could be left out with no state from a call on being wrong."""
        syncs = [place for place, call in enumerate(self.calls) if call.name == "fsync"]
        return [
            self.calls[place].path
            for place in syncs
            if not self.wrong(self.calls[:place] + self.calls[place + 1 :], start=max(place, start))
        ]

    @property
    def leaves(self) -> int:
        """The call that gives the version its name; until then nothing depends on what was synced."""
        return next(place for place, call in enumerate(self.calls) if call.target.endswith(NEW))


def _is_begun(tree: Tree, version: str) -> bool:
    return version.encode() in bytes(tree.get(MARK, b""))


def _is_named(tree: Tree, version: str) -> bool:
    return version.encode() in bytes(tree.get(CURRENT, b""))


def _lost(tree: Tree) -> str:
    """What is gone of an import that was acknowledged: the version, or where it came from."""
    whole = f"bundles/versions/{NEW}/manifest.json" in tree and tree.get(f"bundles/imports/{NEW}.json")
    return "" if whole else "what was acknowledged is gone"


def traced(template: Moving, scratch: Path) -> Trace:
    ours, recorder = template.copy(scratch / "base"), Recorder()
    with intercepted(ours.base, recorder):
        ours.publish()
    expected = {
        name: frozenset(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        for root in (ours.root, template.root)
        for name in root.version_names()
        if (folder := root.version(name).path)
    }
    return Trace(template, moved([*recorder.calls, Call(ACKNOWLEDGED, NEW)], template), expected)


@pytest.fixture(scope="module", params=[Moving, Adding], ids=["published", "added"])
def later(request: pytest.FixtureRequest, moving_template: Moving, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return traced(request.param(moving_template.base), tmp_path_factory.mktemp("later"))


@pytest.fixture(scope="module")
def first(moving_template: Moving, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    empty = Moving(tmp_path_factory.mktemp("empty"))
    shutil.copy(moving_template.archive, empty.archive)
    return traced(empty, tmp_path_factory.mktemp("first"))


def test_the_reader_is_right_whenever_power_fails(later: Trace) -> None:
    names = [call.name for call in later.calls]
    assert names.count("fsync") > 15 and names.count("write") > 20 and "link" in names
    assert later.wrong(later.calls) == ""


def test_the_first_import_under_a_new_root_survives_as_well(first: Trace) -> None:
    assert first.before == ""
    assert first.wrong(first.calls) == ""


def test_without_any_one_sync_power_loss_breaks_the_promise(later: Trace) -> None:
    # After a publish the last one keeps a mark from coming back before a rollback, and there is none here.
    unimportant = [] if isinstance(later.template, Adding) else [str(later.template.root.path)]
    assert later.unnoticed(start=later.leaves - 5) == unimportant


def test_without_any_one_sync_of_the_first_import_as_well(first: Trace) -> None:
    assert first.unnoticed(start=first.leaves - 5) == [str(first.template.root.path)]


@pytest.fixture(
    scope="module",
    params=["with_base_template", pytest.param("without_base_template", marks=LONG), pytest.param("empty", marks=LONG)],
)
def of_delta(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """The import of a delta version: with its base, over one that is there, and with its base under a new root."""
    if request.param != "empty":
        return traced(request.getfixturevalue(request.param), tmp_path_factory.mktemp("of-delta"))
    empty = Moving(tmp_path_factory.mktemp("empty"))
    shutil.copy(request.getfixturevalue("with_base_template").archive, empty.archive)
    return traced(empty, tmp_path_factory.mktemp("first"))


def test_an_import_of_a_delta_is_right_when_power_fails_from_its_rename_on(of_delta: Trace) -> None:
    assert of_delta.wrong(of_delta.calls, start=of_delta.leaves - 3) == ""


@LONG
def test_an_import_of_a_delta_is_right_whenever_power_fails(of_delta: Trace) -> None:
    assert of_delta.wrong(of_delta.calls) == ""


@LONG
def test_without_any_one_sync_an_import_of_a_delta_breaks_the_promise(of_delta: Trace) -> None:
    """What makes the base durable before its delta is synced again for the delta, but for the files of the base."""
    unnoticed = of_delta.unnoticed(start=of_delta.leaves - 5)
    assert [path for path in unnoticed if "/versions/" in path] == []
    assert unnoticed[-1] == str(of_delta.template.root.path)
    if BASE in of_delta.template.root.version_names():
        assert len(unnoticed) == 1

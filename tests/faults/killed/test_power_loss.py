"""F3: power fails at any moment of a publish, its retention, and a rollback: only synced bytes are sure to be left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from codequarry.pipelines.publish.rollback import roll_back
from codequarry.schemas.bundle.layout import Current
from tests.faults.scenes.calls import Call, Recorder, intercepted
from tests.faults.scenes.power_loss import Disk, Tree
from tests.faults.scenes.scene import NEW, OLD, STAGED, Scene
from tests.faults.scenes.stacked import BASE, REF, Naming, Stacked

ACKNOWLEDGED = "acknowledged"
"""A pseudo-call: the program told somebody that a version is current."""

CURRENT = "bundles/CURRENT"
REF_FILE = f"bundles/refs/{REF.file_name}"

Trace = list[Call]


def record(scene: Scene, *, rollback: bool) -> Trace:
    """All calls of a publish, and of the rollback after it."""
    recorder = Recorder()
    with intercepted(scene.base, recorder):
        scene.publish()
        recorder.calls.append(Call(ACKNOWLEDGED, NEW))
        if rollback:
            assert roll_back(scene.root).manifest.version == OLD
            recorder.calls.append(Call(ACKNOWLEDGED, OLD))
    work = f"{scene.base / 'work'}/"  # scratch of the run, not of the bundle
    return [call for call in recorder.calls if not call.path.startswith(work)]


def files_of(scene: Scene) -> dict[str, frozenset[str]]:
    """Names of the files of each version, the staged one by the name it gets."""
    folders = {NEW: STAGED} | {name: name for name in scene.root.version_names()}
    return {
        version: frozenset(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        for version, name in folders.items()
        if (folder := scene.root.versions / name).is_dir()
    }


def replayed(template: Scene, trace: Sequence[Call], unsynced: tuple[str, ...], *, start: int = 0) -> str:
    """What is wrong with the first state in which something is; '' when every state is right.

    start: the call from which on states are looked at.
    """
    expected, disk = files_of(template), Disk(template.base, unsynced=unsynced)
    first = OLD if OLD in expected else ""
    naming = isinstance(template, Naming)
    pointer = REF_FILE if naming else CURRENT
    # What a ref left belongs to nobody, so that something has to say so.
    published = set(expected) - ({NEW, OLD} if naming else {NEW})
    before, after = first, first
    for place, call in enumerate(trace):
        if call.name == ACKNOWLEDGED:
            before = call.path
            published |= set() if naming else {call.path}
        else:
            if call.name == "rename" and call.target.endswith(f"/{pointer}"):
                after = ""  # either may be current until the next acknowledgement
            disk.apply(call)
        for tree in disk.states() if place >= start else ():
            allowed = {before} if call.name == ACKNOWLEDGED else {before, after, OLD if before == NEW else NEW}
            if wrong := judged(tree, expected, allowed, published, pointer):
                return f"{call.name} {Path(call.path).name}: {wrong}"
    return ""


_JUDGED: dict[int, str] = {}
"""What was found wrong with a state, by its hash: most of a trace's states come many times."""


def judged(
    tree: Tree, expected: dict[str, frozenset[str]], allowed: set[str], published: set[str], pointer: str = CURRENT
) -> str:
    """What a reader, or the next run, would find wrong with a state.

    pointer: the file that names what is published: CURRENT, or that of a ref.
    """
    key = hash((pointer, *(frozenset(part) for part in (tree.items(), expected.items(), allowed, published))))
    if key not in _JUDGED:
        _JUDGED[key] = _wrong(tree, expected, allowed, published, pointer)
    return _JUDGED[key]


def _wrong(
    tree: Tree, expected: dict[str, frozenset[str]], allowed: set[str], published: set[str], pointer: str
) -> str:
    raw = tree.get(pointer)
    named = Current.parse(raw) if isinstance(raw, bytes) else None
    if raw is not None and named is None:
        return f"CURRENT is torn: {raw!r}"
    current = named.version if named else ""
    if current not in allowed:
        return f"CURRENT names {current!r}, expected {allowed}"
    begun_raw = tree.get("bundles/.publishing")
    begun = Current.parse(begun_raw) if isinstance(begun_raw, bytes) else None
    listed = {path.split("/")[2] for path in tree if path.startswith("bundles/versions/2") and path.count("/") >= 2}
    if current and current not in listed:
        return f"CURRENT names {current}, which is not there"
    counts = {name for name in listed if not (begun and begun.version == name != current)}
    if BASE in expected and BASE not in listed and NEW in counts:
        return f"{NEW} is listed without its base"
    for version in listed:
        problem = damage(tree, version, expected[version])
        if problem and not (begun and begun.version == version != current):
            return f"{version} is listed with {problem}"
        said = (begun and begun.version == version) or f"bundles/refs/.left-{version}" in tree
        if version not in published and version != current and not said:
            return f"{version} was never acknowledged, and nothing says so"
    if begun is not None and begun.version in published and begun.version != current:
        return f"{begun.version} was published, and the next run would remove it"
    if begun is not None and pointer != CURRENT and begun.version == current:
        return f"a ref names {current}, and the next run would remove it"
    return ""


def damage(tree: Tree, version: str, expected: frozenset[str]) -> str:
    prefix = f"bundles/versions/{version}/"
    found = {path.removeprefix(prefix): content for path, content in tree.items() if path.startswith(prefix)}
    found = {name: content for name, content in found.items() if name and not name.endswith("/")}
    if set(found) != expected:
        return f"files missing or extra: {sorted(set(found) ^ expected)[:3]}"
    empty = [name for name, content in found.items() if content == b""]
    return f"bytes lost: {empty[:3]}" if empty else ""


@pytest.fixture(scope="module")
def later(template: Scene, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """A publish over an existing version, retention, and a rollback, as if done in the template's folder."""
    return moved(record(template.copy(tmp_path_factory.mktemp("later") / "b"), rollback=True), template)


@pytest.fixture(scope="module")
def first(first_template: Scene, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """The first publish under a root that was just made."""
    return moved(record(first_template.copy(tmp_path_factory.mktemp("first") / "b"), rollback=False), first_template)


@pytest.fixture(scope="module", params=["stacked_template", "naming_template"], ids=["current", "ref"])
def layered_trace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Stacked, Trace]:
    """The publish of a delta version over its base, and what was there before."""
    template: Stacked = request.getfixturevalue(request.param)
    ran = record(template.copy(tmp_path_factory.mktemp("layered") / "b"), rollback=False)
    return template, moved(ran, template)


def moved(trace: Trace, template: Scene) -> Trace:
    ran = next(call.path for call in trace if call.name == "fsync").split("/bundles")[0]
    base = str(template.base)
    return [Call(one.name, one.path.replace(ran, base), one.target.replace(ran, base), one.data) for one in trace]


UNSYNCED_LATER = (f"bundles/versions/{STAGED}",)
UNSYNCED_FIRST = ("bundles",)


def test_the_reader_is_right_whenever_power_fails(template: Scene, later: Trace) -> None:
    assert sum(call.name == "fsync" for call in later) > 20
    assert any(call.name == "link" for call in later)
    assert replayed(template, later, UNSYNCED_LATER) == ""


def test_the_first_publish_survives_as_well(first_template: Scene, first: Trace) -> None:
    assert replayed(first_template, first, UNSYNCED_FIRST) == ""


def test_without_any_one_sync_power_loss_breaks_the_promise(template: Scene, later: Trace) -> None:
    syncs = [place for place, call in enumerate(later) if call.name == "fsync"]
    # Until the version leaves its staging folder nothing a reader sees depends on what was synced.
    leaves = next(place for place, call in enumerate(later) if call.target.endswith(NEW))
    unnoticed = [
        later[place].path for place in syncs
        if not replayed(template, later[:place] + later[place + 1 :], UNSYNCED_LATER, start=max(place, leaves - 5))
    ]  # fmt: skip
    assert unnoticed == []


def test_without_any_one_sync_of_the_first_publish_as_well(first_template: Scene, first: Trace) -> None:
    syncs = [place for place, call in enumerate(first) if call.name == "fsync"]
    # Until the sync that is left out the states are those of the whole trace, which are right.
    unnoticed = [
        first[place].path
        for place in syncs
        if not replayed(first_template, first[:place] + first[place + 1 :], UNSYNCED_FIRST, start=place)
    ]
    # The last one keeps a mark from coming back before a rollback; there is none here.
    assert unnoticed == [str(first_template.root.path)]


def test_a_delta_is_right_whenever_power_fails(layered_trace: tuple[Stacked, Trace]) -> None:
    template, trace = layered_trace
    assert sum(call.name == "fsync" for call in trace) > 50
    assert replayed(template, trace, UNSYNCED_LATER, start=flip_in(trace) - 40) == ""


@pytest.mark.faults_long
def test_a_delta_is_right_at_every_moment(layered_trace: tuple[Stacked, Trace]) -> None:
    template, trace = layered_trace
    assert replayed(template, trace, UNSYNCED_LATER) == ""


@pytest.mark.faults_long
def test_without_any_one_sync_a_delta_breaks_the_promise(layered_trace: tuple[Stacked, Trace]) -> None:
    template, trace = layered_trace
    syncs = [place for place, call in enumerate(trace) if call.name == "fsync"]
    unnoticed = [
        Path(trace[place].path).name for place in syncs
        if not replayed(template, trace[:place] + trace[place + 1 :], UNSYNCED_LATER,
                        start=max(place, flip_in(trace) - 5))
    ]  # fmt: skip
    # The last one keeps a mark from coming back before a rollback. Of the marks of refs only the names count.
    # And its version is not current, whatever `.publishing` holds when it is torn.
    marks = [f".left-{NEW}.new", ".publishing.new", "bundles", f".left-{OLD}.new"]
    assert unnoticed == (marks if isinstance(template, Naming) else ["bundles"])


def flip_in(trace: Trace) -> int:
    """The call that gives the version its name."""
    return next(place for place, call in enumerate(trace) if call.target.endswith(NEW))

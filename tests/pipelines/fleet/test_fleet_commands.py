"""`codequarry fleet` over a folder and over a real object store."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from codequarry.pipelines.bundle import manifest as building
from codequarry.pipelines.fleet.fleet_store import FleetStore, KnownGeneration
from codequarry.pipelines.publish.remote.store import RemoteStore
from codequarry.schemas.bundle.manifest import from_json
from codequarry.schemas.fleet.generation import FleetManifest, generation_to_json
from codequarry.schemas.fleet.replica import ReplicaRoot, version_line
from codequarry.serving.files.integrity import read_manifest, verify
from tests.pipelines.conftest import Run
from tests.pipelines.fleet.fleets import NAMES, Fleet, sent
from tests.pipelines.publish.remote.servers import BUCKET, FaultyProxy, each_once
from tests.pipelines.repositories import commit


def test_a_fleet_is_planned_built_followed_by_one_commit_and_pulled(fleet: Fleet, tmp_path: Path) -> None:
    planned = fleet.json("plan")
    assert {name: sorted(each["repositories"]) for name, each in planned["bundles"].items()} == {
        "b0001": ["ant", "bee"], "b0002": ["cat", "dog"], "b0003": ["eel", "fox"],
    }  # fmt: skip
    said = fleet("build")
    assert "current is generation 1: 3 bundles, 6 repositories, 6 chunks" in said
    first = fleet.current
    assert first.bundle_of == {
        name: bundle for bundle, each in planned["bundles"].items() for name in each["repositories"]
    }
    assert fleet.store.store.read_current() is None  # no version is current by itself

    before = {each.path: each.modified for each in fleet.store.store.list_objects("")}
    said = fleet("build")
    assert "unchanged: current is generation 1" in said and sent(said) == 0
    assert "b000" not in said  # at the same commits nothing is looked at
    assert {each.path: each.modified for each in fleet.store.store.list_objects("")} == before

    head = fleet.save("cat", "one")
    assert "behind its head" in fleet("status") and "1 repository behind" in fleet("status")
    assert "no repository was asked for its head" in fleet("status", "--no-heads")
    said = fleet("build")
    assert "b0002 is built anew because cat is at" in said and "b0001" not in said
    second = fleet.current
    assert second.origin.parent == 1
    assert second.bundles["b0002"].repositories["cat"].commit == head
    assert {name for name in second.bundles if second.bundles[name] != first.bundles[name]} == {"b0002"}
    assert second.bundles["b0002"].repositories["dog"].indexed == first.bundles["b0002"].repositories["dog"].indexed
    new = {each.path for each in fleet.store.store.objects()} - before.keys()
    files = from_json(fleet.store.store.read_manifest(second.bundles["b0002"].version)).files
    sizes = {each.sha256: each.size_bytes for each in files}
    size = sum(sizes[path.rpartition("/")[2]] for path in new)
    assert 0 < sent(said) == pytest.approx(size / 1e6, abs=0.01)

    assert "held is generation 2, 1 bundle of 3, share 2/3" in fleet("pull", "--share", "2/3", "--root", "replica")
    replica = ReplicaRoot(tmp_path / "cwd/replica")
    held = replica.read()
    assert list(held.own_bundles) == ["b0002"] and held.fleet == second and held.share == "2/3"
    root = replica.bundle("b0002")
    assert root.read_current() == version_line(second.bundles["b0002"])
    assert "def cat" in str(fleet.run("search", "cat", "--root", root.path, "--json").stdout)
    said = fleet("pull", "--share", "2/3", "--root", "replica")
    assert "unchanged: held is generation 2" in said and sent(said) == 0


def test_a_commit_to_one_repository_can_be_a_delta(local: Fleet) -> None:
    for name in NAMES:
        commit(
            local.home / name, {f"more{number}.py": f"def {name}{number}(): return {number}\n" for number in range(9)}
        )
    local.write("[bundle]", "delta = true", "delta_share = 0.9", sizes=(20, 90))
    local("build")
    base = local.current
    local.save("ant", "one")
    said = local("build")
    bundle = local.current.bundle_of["ant"]
    assert f"{bundle} gets a delta version because ant is at" in said
    entry = local.current.bundles[bundle]
    assert entry.base == base.bundles[bundle].version
    assert entry.size_bytes > base.bundles[bundle].size_bytes
    local("pull", "--root", "replica")
    local("build", "--full", "--all")
    assert local.current.bundles[bundle].base is None


def test_a_repository_that_fails_is_carried_beside_good_ones(fleet: Fleet) -> None:
    fleet.remote = ("ant",)
    fleet.write()
    fleet("build")
    first = fleet.current
    shutil.move(fleet.home / "ant", fleet.home / "away")
    head = fleet.save("bee", "one")
    said = fleet("build", code=3)
    assert "warning: ant goes on as it was, since" in said and "cannot be read" in said
    second = fleet.current
    entry = second.bundles["b0001"]
    assert entry.repositories["bee"].commit == head
    assert entry.repositories["ant"].commit == first.bundles["b0001"].repositories["ant"].commit
    assert entry.repositories["ant"].failed is not None and entry.failed is None
    assert "carried since" in fleet("status")
    assert "carried since" in fleet.json("status")["states"]["ant"]
    assert fleet.json("status", "--no-heads")["bundles"]["b0001"]["repositories"]["bee"]["commit"] == head
    said = fleet("build", code=3)  # it is asked again, and nothing is new
    assert "unchanged: current is generation 2" in said
    shutil.move(fleet.home / "away", fleet.home / "ant")
    assert "current is generation 3" in fleet("build")
    assert fleet.current.bundles["b0001"].repositories["ant"].failed is None
    assert fleet.current.bundles["b0001"].version == entry.version


def test_a_bundle_that_cannot_be_built_goes_on_and_a_new_repository_is_left_out(local: Fleet) -> None:
    local("build")
    first = local.current
    shutil.move(local.home / "ant", local.home / "away")
    local.save("bee", "one")
    local.write(names=(*NAMES, "gnu"))
    said = local("build", code=3)
    assert "b0001 goes on as it was" in said and "gnu is left out" in said
    second = local.current
    assert second.bundles["b0001"].version == first.bundles["b0001"].version
    assert second.bundles["b0001"].failed is not None
    assert list(second.left_out) == ["gnu"]
    assert "left out since" in local("status")
    shutil.move(local.home / "away", local.home / "ant")
    commit(local.home / "gnu", {"gnu.py": "def gnu(): return 0\n"})
    local("build")
    third = local.current
    assert third.bundle_of["gnu"] == "b0004" and not third.left_out
    assert third.bundles["b0001"].failed is None


def test_a_repository_moves_when_its_bundle_overflows_and_goes_when_it_is_gone(local: Fleet) -> None:
    local("build")
    commit(local.home / "ant", {f"ant{number}.py": f"def ant{number}(): return {number}\n" for number in range(6)})
    local("build")  # the bundle grew
    assert local.current.bundles["b0001"].chunks > 4
    plan = local.json("plan")
    assert plan["bundles"]["b0004"]["repositories"]["ant"]["before"] == "b0001"
    assert "b0004" in local("build")
    assert local.current.bundle_of["ant"] == "b0004" and local.current.bundle_of["bee"] == "b0001"
    local.write(names=tuple(name for name in NAMES if name not in ("ant", "bee")))
    assert "ant leaves b0004: it is listed no longer" in local("plan")
    local("build")
    assert sorted(local.current.bundles) == ["b0002", "b0003"]
    assert local.current.next_bundle == 5
    local.write()
    local("build")
    assert local.current.bundle_of["ant"] == "b0005"  # no name is given twice


def test_repositories_that_move_stay_when_their_new_bundle_cannot_be_built(
    local: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    local("build")
    commit(local.home / "ant", {f"ant{number}.py": f"def ant{number}(): return {number}\n" for number in range(6)})
    local("build")
    before = local.current
    (local.home / ".codequarry/fleet/bundles").mkdir(exist_ok=True)
    (local.home / ".codequarry/fleet/bundles/b0004").write_text("in the way")
    said = local("build", code=3)
    assert "repositories move together with those of b0004" in said
    after = local.current
    assert after.bundles["b0001"].version == before.bundles["b0001"].version
    assert after.bundle_of == before.bundle_of


def test_a_fleet_and_one_bundle_are_rolled_back(fleet: Fleet) -> None:
    fleet("build")
    first = fleet.current
    fleet.save("ant", "one")
    fleet.save("cat", "one")
    fleet("build")
    second = fleet.current
    said = fleet("rollback")
    assert "current is generation 3" in said and "all bundles of generation 1" in said
    assert fleet.current.bundles == first.bundles and fleet.current.origin.of == 1
    fleet("rollback", "2")
    assert fleet.current.bundles == second.bundles
    said = fleet("rollback", "--bundle", "b0001")
    assert f"with b0001 at {first.bundles['b0001'].version}" in said
    assert fleet.current.bundles == {**second.bundles, "b0001": first.bundles["b0001"]}
    fleet("rollback", "--bundle", "b0001", "--to", second.bundles["b0001"].version)
    assert fleet.current.bundles == second.bundles
    fleet("pull", "--root", "replica")
    fleet("rollback", "1")
    fleet("pull", "--root", "replica")
    replica = ReplicaRoot(fleet.home / "replica")
    assert {name: replica.bundle(name).read_current() for name in first.bundles} == {
        name: version_line(entry) for name, entry in first.bundles.items()
    }
    assert "rollback to 1" in fleet("status", "--generations")
    assert [each["current"] for each in fleet.json("status", "--generations")][-2:] == [False, True]
    assert "no generation 77" in fleet("rollback", "77", code=1)
    assert "no generation that is kept has b0009" in fleet("rollback", "--bundle", "b0009", code=1)
    assert "a generation and a bundle" in fleet("rollback", "1", "--bundle", "b0001", code=2)
    said = fleet("build")  # what the repositories hold now comes again, and nothing travels
    assert fleet.current.bundles == second.bundles and sent(said) == 0


def test_a_rollback_needs_every_object(local: Fleet) -> None:
    local("build")
    first = local.current
    local.save("ant", "one")
    local("build")
    store = local.store.store
    old = {entry.sha256 for entry in from_json(store.read_manifest(first.bundles["b0001"].version)).files}
    new = {entry.sha256 for entry in from_json(store.read_manifest(local.current.bundles["b0001"].version)).files}
    store.delete_objects(sorted(old - new)[:1])
    assert "1 object of" in local("rollback", code=1)
    assert local.current.generation == 2


def test_of_two_builders_at_once_the_second_starts_over(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet("build")
    fleet.save("ant", "one")
    honest, raced = FleetStore.make_current, threading.Event()
    fleet.write(f'folder = "{tmp_path}/other"', file="other.toml")

    def late(self: FleetStore, manifest: FleetManifest, known: KnownGeneration | None, versions: Any) -> Any:
        if not raced.is_set():
            raced.set()
            head = fleet.save("cat", "two")
            assert "current is generation 2" in fleet("build", file="other.toml")
            assert fleet.current.bundles["b0002"].repositories["cat"].commit == head
        return honest(self, manifest, known, versions)

    monkeypatch.setattr(FleetStore, "make_current", late)
    said = fleet("build")
    assert "another builder made a generation current meanwhile" in said
    assert "unchanged: current is generation 2" in said  # the other one saw both commits
    assert "0 repositories behind" in fleet("status")
    assert [*fleet.store.generations()] == [1, 2]


def test_a_generation_is_made_current_only_over_the_known_one(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The flip itself is lost, after the generation was put; a dead builder's generation takes its number, too."""
    fleet("build")
    known = fleet.store.require_current()
    dead = known.manifest.model_copy(update={"generation": 2})
    assert fleet.store.store.put_new("fleet/2.json", generation_to_json(dead))
    head = fleet.save("ant", "one")
    assert "current is generation 3" in fleet("build")
    assert fleet.current.origin.parent == 1
    stale = fleet.current.model_copy(update={"generation": 4})
    assert fleet.store.make_current(stale, known, ()) is None  # knows another generation than the current one
    assert fleet.current.bundles["b0001"].repositories["ant"].commit == head
    honest = RemoteStore.replace_bytes
    monkeypatch.setattr(RemoteStore, "replace_bytes", lambda self, path, raw, known: False)
    fleet.save("bee", "one")
    assert "others replace it all the time" in fleet("build", code=2)
    monkeypatch.setattr(RemoteStore, "replace_bytes", honest)
    assert "current is generation 4" in fleet("build")


def test_two_builders_of_two_machines_end_at_one_fleet(
    run: Run, tmp_path: Path, shared_store: Path, proxy: FaultyProxy
) -> None:
    fleet = Fleet(run, tmp_path / "cwd", f"s3://{BUCKET}/two-builders")
    builders: list[subprocess.Popen[str]] = []
    for number in range(2):
        fleet.write(f'folder = "{tmp_path}/machine{number}"', file=f"machine{number}.toml")
        builders.append(
            subprocess.Popen(
                [sys.executable, "-P", "-m", "codequarry.pipelines.cli", "fleet", "build", "--settings",
                 f"machine{number}.toml"],
                cwd=fleet.home, env={**os.environ, "CODEQUARRY__PATHS__STORE": str(shared_store), "COLUMNS": "300"},
                stderr=subprocess.PIPE, text=True, stdout=subprocess.DEVNULL,
            )
        )  # fmt: skip
    ends = [(each.communicate(timeout=240)[1], each.returncode) for each in builders]
    assert [code for _, code in ends] == [0, 0], "\n".join(said for said, _ in ends)
    current = fleet.current
    assert sorted(current.bundle_of) == sorted(NAMES)
    assert set(fleet.store.generations()) in ({1}, {1, 2})
    fleet("pull", "--root", "replica")
    assert "unchanged" in fleet("build", file="machine0.toml")


def test_a_version_whose_name_another_builder_took_gets_another_name(
    local: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = building.time_of_build()
    monkeypatch.setattr(building, "time_of_build", lambda: second)
    for number in range(2):
        local.write(f'folder = "{tmp_path}/machine{number}"', file=f"machine{number}.toml")
    local("build", file="machine0.toml")
    first = local.current
    shutil.rmtree(tmp_path / "shared/fleet/fleet")  # as a builder sees it that began before
    assert "could not be built" not in local("build", file="machine1.toml")
    again = local.current
    assert {name: each.digest for name, each in again.bundles.items()} == {
        name: each.digest for name, each in first.bundles.items()
    }
    assert all(each.version == f"{first.bundles[name].version}-2" for name, each in again.bundles.items())
    local("pull", "--root", "replica")


def test_lost_answers_and_refusals_of_the_store_change_nothing(run: Run, tmp_path: Path, proxy: FaultyProxy) -> None:
    fleet = Fleet(run, tmp_path / "cwd", f"s3://{BUCKET}/faults")
    proxy.choose = each_once("lose answer", "PUT", "fleet/")
    assert "current is generation 1" in fleet("build")
    proxy.choose = each_once("503", "PUT", "")
    head = fleet.save("ant", "one")
    assert "current is generation 2" in fleet("build")
    assert fleet.current.bundles["b0001"].repositories["ant"].commit == head
    assert [*fleet.store.generations()] == [1, 2]


def test_a_killed_build_goes_on(local: Fleet, shared_store: Path) -> None:
    environment = {**os.environ, "CODEQUARRY__PATHS__STORE": str(shared_store), "COLUMNS": "300"}
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "codequarry.pipelines.cli", "fleet", "build", "--settings", "fleet.toml"],
        cwd=local.home, env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
    ) as builder:  # fmt: skip
        bundles = local.home / ".codequarry/fleet/bundles"
        ends = time.monotonic() + 120
        while not (bundles / "b0002/bundles/CURRENT").exists() and time.monotonic() < ends:
            assert builder.poll() is None
            time.sleep(0.005)
        builder.send_signal(signal.SIGKILL)
    assert local.store.read_current() is None
    whole = {each.path for each in local.store.store.objects()}
    first = (bundles / "b0001/bundles/CURRENT").read_text()
    assert whole
    said = local("build")
    assert "current is generation 1: 3 bundles" in said
    assert (bundles / "b0001/bundles/CURRENT").read_text() == first
    assert version_line(local.current.bundles["b0001"]).line() == first
    verified = ReplicaRoot(local.home / "replica")
    local("pull", "--root", "replica")
    for name, entry in local.current.bundles.items():
        paths = verified.bundle(name).version(entry.version)
        verify(paths, read_manifest(paths, expected_sha256=entry.manifest_sha256), deep=True)

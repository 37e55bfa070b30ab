"""`codequarry fleet` over a folder and over a real object store."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from codequarry.pipelines.fleet import fleet_store
from codequarry.pipelines.fleet.fleet_store import FleetStore, KnownGeneration
from codequarry.pipelines.publish.remote import push as pushing
from codequarry.pipelines.publish.remote.store import RemoteStore
from codequarry.schemas.bundle.manifest import from_json
from codequarry.schemas.fleet.generation import FleetManifest, generation_from_json, generation_to_json
from codequarry.schemas.fleet.replica import ReplicaRoot, version_line
from codequarry.serving.files.integrity import read_manifest, verify
from tests.pipelines.conftest import Run
from tests.pipelines.publish.remote.servers import BUCKET, KEY, SECRET, FaultyProxy, each_once, seaweed
from tests.pipelines.repositories import commit

NAMES = ("ant", "bee", "cat", "dog", "eel", "fox")


@pytest.fixture(scope="module")
def s3_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with seaweed(tmp_path_factory.mktemp("seaweed")) as port:
        yield port


@pytest.fixture
def proxy(s3_port: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyProxy]:
    proxy = FaultyProxy(s3_port)
    for name, value in {
        "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.port}",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    yield proxy
    proxy.close()


@pytest.fixture(params=["s3", "file"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return f"file://{tmp_path}/shared/fleet"
    request.getfixturevalue("proxy")
    return f"s3://{BUCKET}/{abs(hash(request.node.nodeid))}"


class Fleet:
    """Six repositories, and a settings file that lists them."""

    def __init__(self, run: Run, home: Path, url: str) -> None:
        self.run, self.home, self.url = run, home, url
        for name in NAMES:
            commit(home / name, {f"{name}.py": f"def {name}(x):\n    return x + {len(name)}\n"})
        self.write()

    def write(self, *more: str, names: tuple[str, ...] = NAMES, ref: str = "HEAD", file: str = "fleet.toml") -> None:
        listed = ", ".join(f'{{ path = "{name}", ref = "{ref}" }}' for name in names)
        lines = [
            "[sources]", f"repositories = [{listed}]", "[retrieval]", "enabled = false",
            "[fleet]", f'url = "{self.url}"', "bundle_chunks = 2", "bundle_chunks_max = 4", *more,
        ]  # fmt: skip
        (self.home / file).write_text("\n".join(lines) + "\n")

    def __call__(self, *words: str, code: int = 0, file: str = "fleet.toml") -> str:
        """Run a command of the fleet; return what it said."""
        done = self.run("fleet", *words, "--settings", file)
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return " ".join((done.stdout + done.stderr).split())

    def json(self, *words: str) -> Any:
        done = self.run("fleet", *words, "--json", "--settings", "fleet.toml")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    @property
    def store(self) -> FleetStore:
        return FleetStore(RemoteStore.open(self.url))

    @property
    def current(self) -> FleetManifest:
        return self.store.require_current().manifest

    def save(self, name: str, word: str) -> str:
        return commit(self.home / name, {f"{name}.py": f"def {name}(x):\n    return x - {word!r}\n"})


@pytest.fixture
def fleet(run: Run, tmp_path: Path, place: str) -> Fleet:
    return Fleet(run, tmp_path / "cwd", place)


@pytest.fixture
def local(run: Run, tmp_path: Path) -> Fleet:
    return Fleet(run, tmp_path / "cwd", f"file://{tmp_path}/shared/fleet")


def sent(said: str) -> float:
    """Megabytes that travelled, as the last line says."""
    return float(re.findall(r"([\d.]+) MB travelled", said)[-1])


def test_a_fleet_is_planned_built_followed_by_one_commit_and_pulled(fleet: Fleet, tmp_path: Path) -> None:
    planned = fleet.json("plan")
    assert {name: sorted(each["repositories"]) for name, each in planned["bundles"].items()} == {
        "b0001": ["ant", "bee"], "b0002": ["cat", "dog"], "b0003": ["eel", "fox"],
    }  # fmt: skip
    said = fleet("build")
    assert "current is generation 1: 3 bundles, 6 repositories, 6 chunks" in said
    first = fleet.current
    assert {repository: bundle for repository, bundle in first.bundle_of.items()} == {
        name: bundle for bundle, each in planned["bundles"].items() for name in each["repositories"]
    }
    assert fleet.store.store.read_current() is None  # no version is current by itself

    before = {each.path: each.modified for each in fleet.store.store.list_objects("")}
    said = fleet("build")
    assert "unchanged: current is generation 1" in said and sent(said) == 0
    assert "b000" not in said  # at the same commits nothing is looked at
    assert {each.path: each.modified for each in fleet.store.store.list_objects("")} == before

    head = fleet.save("cat", "one")
    assert f"cat at {head[:12]}".replace(" at ", ": ") not in said
    assert "behind its head" in fleet("status") and "1 repository behind" in fleet("status")
    said = fleet("build")
    assert "b0002 is built anew because cat is at" in said and "b0001" not in said
    second = fleet.current
    assert second.origin.parent == 1
    assert second.bundles["b0002"].repositories["cat"].commit == head
    assert {name for name in second.bundles if second.bundles[name] != first.bundles[name]} == {"b0002"}
    assert second.bundles["b0002"].repositories["dog"].indexed == first.bundles["b0002"].repositories["dog"].indexed
    new = {each.path for each in fleet.store.store.objects()} - before.keys()
    size = sum(each.size_bytes for each in from_json(
        fleet.store.store.read_manifest(second.bundles["b0002"].version)).files if f"objects/{each.sha256[:2]}/{each.sha256}" in new)  # fmt: skip
    assert 0 < sent(said) == pytest.approx(size / 1e6, abs=0.01)

    assert "held is generation 2, 1 bundle of 3, share 2/3" in fleet("pull", "--share", "2/3", "--root", "replica")
    replica = ReplicaRoot(tmp_path / "cwd/replica")
    held = replica.read()
    assert list(held.held) == ["b0002"] and held.fleet == second and held.share == "2/3"
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
    local.write("[bundle]", "delta = true", "delta_share = 0.9")
    local.write()
    text = (
        (local.home / "fleet.toml")
        .read_text()
        .replace("bundle_chunks = 2\nbundle_chunks_max = 4", "bundle_chunks = 20\nbundle_chunks_max = 90")
    )
    (local.home / "fleet.toml").write_text(text + "[bundle]\ndelta = true\ndelta_share = 0.9\n")
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
    fleet("build")
    first = fleet.current
    shutil.move(fleet.home / "ant", fleet.home / "away")
    head = fleet.save("bee", "one")
    said = fleet("build", code=3)
    assert "warning: ant goes on as it was, since" in said and "does not exist" in said
    second = fleet.current
    entry = second.bundles["b0001"]
    assert entry.repositories["bee"].commit == head
    assert entry.repositories["ant"].commit == first.bundles["b0001"].repositories["ant"].commit
    assert entry.repositories["ant"].failed is not None and entry.failed is None
    assert "carried since" in fleet("status")
    said = fleet("build", code=3)  # it is asked again, and nothing is new
    assert "unchanged: current is generation 2" in said
    shutil.move(fleet.home / "away", fleet.home / "ant")
    assert "current is generation 3" in fleet("build")
    assert fleet.current.bundles["b0001"].repositories["ant"].failed is None
    assert fleet.current.bundles["b0001"].version == entry.version


def test_a_bundle_that_cannot_be_built_goes_on_and_a_new_repository_is_left_out(local: Fleet) -> None:
    local("build")
    first = local.current
    shutil.rmtree(local.home / ".codequarry/fleet/bundles/b0001/work")  # nothing is left to carry one repository by
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
    assert "current is generation 2" not in said.partition("meanwhile")[2] or "unchanged" in said
    for name in ("ant", "cat"):
        assert f"{name}" in fleet.current.bundle_of
    assert "0 repositories behind" in fleet("status")
    assert [*fleet.store.generations()] == [1, 2]


def test_two_builders_of_different_commits_lose_nothing(
    local: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flip itself is lost, after the generation was put; a dead builder's generation takes its number, too."""
    local("build")
    known = local.store.require_current()
    dead = known.manifest.model_copy(update={"generation": 2})
    assert local.store.store.put_new("fleet/2.json", generation_to_json(dead))
    head = local.save("ant", "one")
    assert "current is generation 3" in local("build")
    assert local.current.origin.parent == 1
    stale = local.current.model_copy(update={"generation": 4})
    assert local.store.make_current(stale, known, ()) is None  # knows another generation than the current one
    assert local.current.bundles["b0001"].repositories["ant"].commit == head
    honest = RemoteStore.replace_bytes
    monkeypatch.setattr(RemoteStore, "replace_bytes", lambda self, path, raw, known: False)
    local.save("bee", "one")
    assert "others replace it all the time" in local("build", code=1)
    monkeypatch.setattr(RemoteStore, "replace_bytes", honest)
    assert "current is generation 4" in local("build")


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


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda raw: raw.replace(b'"chunks": 2', b'"chunks": 3'), "has sha256"),
        (lambda raw: b"{}", "has sha256"),
    ],
)
def test_a_damaged_generation_is_refused(local: Fleet, damage: Any, sentence: str) -> None:
    local("build")
    file = Path(local.url.removeprefix("file://")) / "fleet/1.json"
    file.write_bytes(damage(file.read_bytes()))
    for words in (("status",), ("build",), ("pull", "--root", "replica"), ("plan",), ("rollback",)):
        assert sentence in local(*words, code=1)
    assert not (local.home / "replica/fleet.json").exists()
    (file.parent / "CURRENT").write_text("nonsense")
    assert "holds something else (8 bytes)" in local("status", code=1)


def test_a_damaged_object_does_not_arrive(local: Fleet) -> None:
    local("build")
    local("pull", "--root", "replica")
    held = ReplicaRoot(local.home / "replica").read()
    local.save("ant", "one")
    local("build")
    version = local.current.bundles["b0001"].version
    new = {entry.sha256 for entry in from_json(local.store.store.read_manifest(version)).files} - {
        entry.sha256 for entry in from_json(local.store.store.read_manifest(held.fleet.bundles["b0001"].version)).files
    }
    digest = min(new)
    file = Path(local.url.removeprefix("file://")) / "objects" / digest[:2] / digest
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    assert "expected" in local("pull", "--root", "replica", code=1)
    assert ReplicaRoot(local.home / "replica").read() == held
    root = ReplicaRoot(local.home / "replica").bundle("b0001")
    assert root.version(held.fleet.bundles["b0001"].version).manifest.is_file()


def test_retention_keeps_what_kept_generations_name(local: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushing, "_GRACE", timedelta(-1))
    local.write("keep_generations = 2")
    for word in ("one", "two", "three", "four"):
        local.save("ant", word)
        said = local("build")
    assert "retention removed generation 2" in said
    assert [*local.store.generations()] == [3, 4]
    kept = [local.store.read_generation(number) for number in (3, 4)]
    named = {entry.version for each in kept for entry in each.bundles.values()}
    store = local.store.store
    assert set(store.versions()) == named
    digests = {entry.sha256 for version in named for entry in from_json(store.read_manifest(version)).files}
    assert {each.path.rpartition("/")[2] for each in store.objects()} == digests
    local("rollback")
    local("pull", "--root", "replica")
    refused = local.run("push", local.url, "--keep", "2", "--root", ".codequarry/fleet/bundles/b0001/bundles")
    assert refused.returncode == 2 and "a fleet lives at" in refused.stderr


def test_a_replica_keeps_one_version_before_and_drops_what_its_share_lacks(local: Fleet) -> None:
    local("build")
    local("pull", "--root", "replica")
    replica = ReplicaRoot(local.home / "replica")
    versions = [local.current.bundles["b0001"].version]
    for word in ("one", "two", "three"):
        local.save("ant", word)
        local("build")
        local("pull", "--root", "replica")
        versions.append(local.current.bundles["b0001"].version)
    assert sorted(replica.bundle("b0001").version_names()) == sorted(versions[-2:])
    local("pull", "--share", "2/2", "--root", "replica")
    assert sorted(each.name for each in replica.bundles.iterdir()) == ["b0002"]
    assert list(replica.read().held) == ["b0002"]
    assert "is no share of a fleet" in local("pull", "--share", "3/2", code=2)


def test_another_machine_builds_only_what_changed(local: Fleet, tmp_path: Path) -> None:
    local.write(ref="")
    local("build")
    local.write(f'folder = "{tmp_path}/other"', ref="", file="other.toml")
    local.save("fox", "one")
    said = local("build", file="other.toml")
    assert "b0001 is unchanged" in said and "b0003 is built anew" in said
    assert "0 repositories behind" in local("status")


def test_bundles_of_different_encoders_are_no_fleet(local: Fleet) -> None:
    local("build")
    raw = generation_to_json(local.current)
    manifest = generation_from_json(raw)
    other = manifest.bundles["b0001"].model_copy(update={"encoders": ("f" * 64,)})
    forged = manifest.model_copy(update={"bundles": {**manifest.bundles, "b0001": other}})
    assert local.store.make_current(forged.model_copy(update={"generation": 2}), local.store.require_current(), ())
    assert "the bundles have different encoders" in local("status", code=1)
    local.write("[embedding]", "adapt = true")
    assert "fits the encoder to each bundle" in local("plan", code=2)


def test_without_a_place_or_a_fleet_the_next_step_is_said(local: Fleet) -> None:
    assert "run `codequarry fleet build` first" in local("pull", code=1)
    assert "run `codequarry fleet build` first" in local("rollback", code=1)
    text = (local.home / "fleet.toml").read_text().replace(local.url, "")
    (local.home / "fleet.toml").write_text(text)
    assert "do not say where the fleet lives" in local("plan", code=2)
    assert fleet_store.CURRENT_PATH == "fleet/CURRENT"

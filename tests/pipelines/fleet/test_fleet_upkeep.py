"""Damage, retention and replicas of a fleet."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from codequarry.pipelines.fleet import fleet_retention
from codequarry.pipelines.publish.remote import push as pushing
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.bundle.manifest import from_json
from codequarry.schemas.fleet.generation import generation_from_json, generation_to_json
from codequarry.schemas.fleet.replica import ReplicaRoot
from tests.pipelines.fleet.fleets import Fleet, sent
from tests.pipelines.repositories import commit


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
        assert sentence in local(*words, code=2)
    assert not (local.home / "replica/fleet.json").exists()
    (file.parent / "CURRENT").write_text("nonsense")
    assert "holds something else (8 bytes)" in local("status", code=2)


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
    assert "expected" in local("pull", "--root", "replica", code=2)
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
    (replica.bundles / "mine").mkdir()  # not ours to remove
    local("pull", "--share", "2/2", "--root", "replica")
    assert sorted(each.name for each in replica.bundles.iterdir()) == ["b0002", "mine"]
    assert list(replica.read().own_bundles) == ["b0002"]
    assert "is no share of a fleet" in local("pull", "--share", "3/2", code=2)


def test_bundles_share_the_encoder_on_the_disk_and_damage_to_it_does_not_spread(local: Fleet) -> None:
    local("build")
    assert len({_rows(root).stat().st_ino for root in _roots(local.home / ".codequarry/fleet", "bundles")}) == 1
    said = local("pull", "--root", "replica")
    roots = _roots(local.home / "replica")
    assert len(roots) == 3 and len({_rows(root).stat().st_ino for root in roots}) == 1
    assert _rows(roots[0]).stat().st_size / 1e6 < sent(said) < 2 * _rows(roots[0]).stat().st_size / 1e6

    local("pull", "--share", "1/3", "--root", "damaged")
    _rows(_roots(local.home / "damaged")[0]).write_bytes(b"damaged")
    local("pull", "--root", "damaged")
    first, second, third = _roots(local.home / "damaged")
    assert _rows(first).read_bytes() == b"damaged"
    assert _rows(second).samefile(_rows(third)) and _rows(second).read_bytes() == _rows(roots[0]).read_bytes()


def _roots(folder: Path, *below: str) -> list[BundleRoot]:
    """Bundle roots of a replica, or of a builder, by name of the bundle."""
    return [BundleRoot(each.joinpath(*below)) for each in sorted((folder / "bundles").iterdir())]


def _rows(root: BundleRoot) -> Path:
    """The largest file of the encoder in the current version."""
    return root.version(root.read_current().version).encoder / "rows.npy"


def test_another_machine_builds_only_what_changed(local: Fleet, tmp_path: Path) -> None:
    local.write(ref="")
    local("build")
    local.write(f'folder = "{tmp_path}/other"', ref="", file="other.toml")
    local.save("fox", "one")
    said = local("build", file="other.toml")
    assert "b0001 is unchanged" in said and "b0003 is built anew" in said
    assert "0 repositories behind" in local("status")


def test_bundles_of_different_encoders_are_no_fleet(local: Fleet) -> None:
    local.write("[embedding]", "adapt = true")
    assert "fits the encoder to each bundle" in local("plan", code=2)
    local.write()
    local("build")
    raw = generation_to_json(local.current)
    manifest = generation_from_json(raw)
    other = manifest.bundles["b0001"].model_copy(update={"encoders": ("f" * 64,)})
    forged = manifest.model_copy(update={"bundles": {**manifest.bundles, "b0001": other}})
    assert local.store.make_current(forged.model_copy(update={"generation": 2}), local.store.require_current(), ())
    assert "the bundles have different encoders" in local("status", code=2)


def test_without_a_place_or_a_fleet_the_next_step_is_said(local: Fleet) -> None:
    Path(local.url.removeprefix("file://")).mkdir(parents=True)
    assert "run `codequarry fleet build` first" in local("pull", code=2)
    assert "run `codequarry fleet build` first" in local("rollback", code=2)
    text = (local.home / "fleet.toml").read_text().replace(local.url, "")
    (local.home / "fleet.toml").write_text(text)
    assert "do not say where the fleet lives" in local("plan", code=2)


def test_a_damaged_generation_is_replaced_by_an_earlier_one(local: Fleet) -> None:
    local("build")
    first = local.current
    local.save("ant", "one")
    local("build")
    file = Path(local.url.removeprefix("file://")) / "fleet/2.json"
    file.write_bytes(b"{}")
    assert "has sha256" in local("status", code=2)
    assert "current is generation 3" in local("rollback", "1")
    assert local.current.bundles == first.bundles


def test_a_bundle_that_a_gate_stops_goes_on_until_the_change_is_accepted(local: Fleet) -> None:
    files: dict[str, str | bytes] = {
        f"more{number}.py": f"def more{number}(): return {number}\n" for number in range(20)
    }
    commit(local.home / "ant", files)
    local.write(sizes=(90, 900))
    local("build")
    for name in files:
        (local.home / "ant" / name).unlink()
    local.save("ant", "one")
    said = local("build", code=3)
    assert "b0001 goes on as it was" in said and "is not fit to publish" in said
    assert local.current.bundles["b0001"].failed is not None
    assert "current is generation 3" in local("build", "--accept-regression", "they moved")
    assert local.current.bundles["b0001"].failed is None
    version = local.current.bundles["b0001"].version
    assert {each.reason for each in from_json(local.store.store.read_manifest(version)).accepted} == {"they moved"}


def test_now_and_then_every_object_is_looked_at(local: Fleet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pushing, "_GRACE", timedelta(-1))
    local.write("keep_generations = 2")
    local("build")
    (tmp_path / "left").write_bytes(b"left")
    digest = hashlib.sha256(b"left").hexdigest()
    local.store.store.put_object(digest, tmp_path / "left")
    for word in ("one", "two"):
        local.save("ant", word)
        local("build")
    assert local.store.store.object_size(digest) == 4
    monkeypatch.setattr(fleet_retention, "_SWEEP_EVERY", 1)
    local.save("ant", "three")
    local("build")
    assert local.store.store.object_size(digest) is None
    local("rollback")

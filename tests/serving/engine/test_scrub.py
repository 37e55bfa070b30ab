"""The slow reading of the served version: what it finds, and how fast it goes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from codequarry.schemas.wire.health import HealthRequest
from codequarry.schemas.wire.search import SearchRequest, to_wire
from codequarry.serving.engine import follow as following
from codequarry.serving.engine import scrub
from codequarry.serving.engine.engine import Engine
from codequarry.serving.engine.follow import Follower
from codequarry.serving.engine.scrub import Scrub
from tests.serving.bundles.versions import MARKER, followed, number_of, publish, until


class Clock:
    """Stands for the module `time`."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("prepared")
    for number in range(2):
        publish(root, number)
    return root


@pytest.fixture
def root(prepared: Path, tmp_path: Path) -> Path:
    return shutil.copytree(prepared, tmp_path / "root")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(scrub, "time", clock)
    return clock


def change_quietly(path: Path) -> None:
    """Other bytes, the same inode, size and time: nothing but reading shows it."""
    before, data = path.stat(), bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def health(engine: Engine) -> dict:
    return to_wire(engine.health(HealthRequest()))


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("tables/chunks.parquet", "older"),
        ("catalog.duckdb", "older"),
        ("bm25/meta.json", "shut"),
        ("tables/files.parquet", "told"),
    ],
)
def test_bytes_that_change_after_opening_are_found_by_a_running_server(root, monkeypatch, name, status) -> None:
    monkeypatch.setattr(scrub, "PASS_S", 0.01)
    monkeypatch.setattr(scrub, "_BLOCK", 1 << 10)
    engine = Engine.open(root, _settings(scrub_mb_s=1000.0, follow_interval_s=0.01))
    until(lambda: health(engine)["verified"])
    version = engine.bundle.manifest.version
    change_quietly(engine.bundle.paths.path / name)
    until(lambda: health(engine)["status"] != "ok")
    if status == "older":
        until(lambda: health(engine).get("bundle", {}).get("version", version) != version)
        assert number_of(engine.search(SearchRequest(query=MARKER))) == 0
        assert name in health(engine)["refused"]["reason"]
    else:
        until(lambda: health(engine)["damaged"] == [name])
        assert health(engine)["bundle"]["version"] == version
        assert health(engine)["channels"]["bm25"]["open"] is (status == "told")
    engine.close()


def _settings(**given: float):
    from codequarry.schemas.settings.load import ServingSettings

    return ServingSettings.model_validate(given)


def test_nothing_is_read_where_the_settings_say_so(root, monkeypatch) -> None:
    engine, _ = followed(root)
    monkeypatch.setattr(scrub, "read_again", None)
    assert Scrub(0).step(engine.bundle) == {}
    engine.served.close()


def test_it_reads_no_faster_than_its_rate_and_rests_between_passes(root, clock, monkeypatch) -> None:
    engine, _ = followed(root)
    read: list[int] = []
    real = scrub.read_again

    def counted(bundle, entry):
        for piece in real(bundle, entry):
            read.append(piece if isinstance(piece, int) else 0)
            yield piece

    monkeypatch.setattr(scrub, "read_again", counted)
    monkeypatch.setattr(scrub, "_BLOCK", 1 << 10)
    slow, size = Scrub(0.1), engine.bundle.manifest.size_bytes
    slow.step(engine.bundle)
    clock.now += scrub.PASS_S  # a pass may begin, with no more than was saved since the last step
    slow.step(engine.bundle)
    first = sum(read)
    assert first <= scrub.PASS_S * 0.1e6 + (1 << 10)
    for _ in range(200):
        clock.now += 0.5
        before = sum(read)
        assert slow.step(engine.bundle) == {}
        assert sum(read) - before <= 0.05e6 + (1 << 10)
    assert sum(read) == size, "one pass, and then it rests"
    engine.served.close()


def test_a_file_that_cannot_be_read_now_is_no_damage(root, monkeypatch, caplog) -> None:
    engine, follower = followed(root, scrub_mb_s=1000.0)
    follower.check()

    def refuse(_follower: Scrub, _bundle: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(Scrub, "step", refuse)
    for _ in range(3):
        follower.watch()
    assert health(engine)["damaged"] == []
    assert caplog.text.count("cannot be verified now") == 1
    engine.served.close()


def test_it_waits_until_the_version_was_verified_once(root, monkeypatch) -> None:
    engine, follower = followed(root)
    monkeypatch.setattr(Scrub, "step", None)
    follower.watch()
    assert isinstance(follower, Follower) and following.LAST_RETRY_S > 0
    engine.served.close()

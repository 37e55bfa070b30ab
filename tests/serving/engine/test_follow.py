"""Following CURRENT, look by look: what is taken, what is refused, what is tried again."""

from __future__ import annotations

import gc
import shutil
import weakref
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot, Current
from codequarry.schemas.errors import IntegrityError, UnavailableError
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.health import HealthRequest
from codequarry.schemas.wire.search import FetchRequest, SearchRequest, to_wire
from codequarry.serving.engine import follow as following
from codequarry.serving.engine.engine import Engine
from codequarry.serving.engine.follow import Follower
from codequarry.serving.files.integrity import read_manifest
from codequarry.serving.files.lease import sole_user
from tests.serving.bundles.bundle_factory import seal
from tests.serving.bundles.corpus import COMMITS, PIECES, SESSION
from tests.serving.bundles.versions import MARKER, flip, followed, marked, number_of, publish, until


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Current]]:
    """Three lexical versions; copy them before use."""
    root = tmp_path_factory.mktemp("prepared")
    return root, [publish(root, number) for number in range(3)]


@pytest.fixture
def root(prepared: tuple[Path, list[Current]], tmp_path: Path) -> Path:
    copied = shutil.copytree(prepared[0], tmp_path / "root")
    flip(copied, prepared[1][0])
    return copied


@pytest.fixture
def currents(prepared: tuple[Path, list[Current]]) -> list[Current]:
    return prepared[1]


@pytest.fixture
def pair(root: Path) -> Iterator[tuple[Engine, Follower]]:
    """An engine on version 0, and its follower."""
    engine, follower = followed(root)
    yield engine, follower
    engine.served.close()


def ask(engine: Engine) -> int:
    return number_of(engine.search(SearchRequest(query=MARKER)))


def health(engine: Engine) -> dict:
    return to_wire(engine.health(HealthRequest()))


def paths_of(root: Path, current: Current) -> BundlePaths:
    return BundleRoot(root).version(current.version)


def damage(path: Path) -> None:
    """Change one byte in the middle, keeping the size."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)


def test_a_new_version_and_a_rollback_are_followed(pair, root, currents) -> None:
    engine, follower = pair
    for number in (1, 2, 0, 1):
        flip(root, currents[number])
        assert ask(engine) != number
        follower.look()
        assert ask(engine) == number
    assert health(engine)["follows_current"] is True
    assert health(engine)["verified"] is True


def test_nothing_is_opened_while_current_stays_the_same(pair, root, currents, monkeypatch) -> None:
    engine, follower = pair
    monkeypatch.setattr(following.Bundle, "open_version", None)
    flip(root, currents[0])  # another inode and time, the same bytes
    follower.look()
    assert engine.bundle.current == currents[0]
    assert follower.refusal is None


def test_a_change_of_the_bytes_alone_is_seen(pair, root, currents) -> None:
    """File times say nothing where they are coarse or cached: the same inode, size and times, other bytes."""
    import os

    engine, follower = pair
    before = os.stat(root / "CURRENT")
    (root / "CURRENT").write_text(currents[1].line())
    os.utime(root / "CURRENT", ns=(before.st_atime_ns, before.st_mtime_ns))
    after = os.stat(root / "CURRENT")
    assert (after.st_ino, after.st_size, after.st_mtime_ns) == (before.st_ino, before.st_size, before.st_mtime_ns)
    follower.look()
    assert ask(engine) == 1


def test_fetch_answers_after_a_flip_for_ids_both_versions_hold(pair, root, currents) -> None:
    engine, follower = pair
    flip(root, currents[1])
    follower.look()
    assert engine.fetch(FetchRequest(id=str(SESSION.id))).text == SESSION.text
    gone = engine.fetch(FetchRequest(objectIds=[str(marked(0).id), str(marked(1).id)])).objects
    assert [found.error and found.error.code for found in gone] == ["NOT_FOUND", None]


def test_a_request_keeps_its_version_over_a_flip(pair, root, currents) -> None:
    engine, follower = pair
    with engine.served.lease() as held:
        flip(root, currents[1])
        follower.look()
        assert held.catalog.rows([marked(0).id])
        assert ask(engine) == 1
        assert (health(engine)["in_flight"], health(engine)["draining"]) == (1, 1)
        with sole_user(paths_of(root, currents[0]).manifest) as alone:
            assert not alone
    assert (health(engine)["in_flight"], health(engine)["draining"]) == (0, 0)
    with sole_user(paths_of(root, currents[0]).manifest) as alone:
        assert alone


def test_the_served_version_is_held_against_pruning(pair, root, currents) -> None:
    with sole_user(paths_of(root, currents[0]).manifest) as alone:
        assert not alone


def test_a_replaced_version_leaves_memory_without_the_garbage_collector(root, currents) -> None:
    engine, follower = followed(root)
    engine.search(SearchRequest(query="open", filters={"include": ["io/**"]}))
    old = weakref.ref(engine.bundle)
    directory = weakref.ref(engine.bundle.directory)
    gc.disable()
    try:
        flip(root, currents[1])
        follower.look()
        assert old() is None
        assert directory() is None
    finally:
        gc.enable()
        engine.served.close()


@pytest.mark.parametrize(
    "file", ["catalog.duckdb", "tables/embeddings.parquet", "tables/chunks.parquet", "bm25/meta.json", "manifest.json"]
)
def test_a_damaged_version_is_refused_and_the_old_one_stays(pair, root, currents, file, caplog) -> None:
    engine, follower = pair
    damage(paths_of(root, currents[1]).path / file)
    flip(root, currents[1])
    for _ in range(3):
        follower.look()
        assert ask(engine) == 0
    state = health(engine)
    assert state["follows_current"] is False
    assert state["status"] == "degraded"
    assert state["refused"]["version"] == currents[1].version
    assert file in state["refused"]["reason"]
    assert state["refused"]["attempts"] == 1, "the next try has to wait"
    assert len([record for record in caplog.records if "not serving" in record.message]) == 1
    flip(root, currents[2])
    follower.look()
    assert ask(engine) == 2
    assert health(engine)["follows_current"] is True
    assert health(engine)["refused"]["version"] == currents[1].version, "the last refusal stays to be seen"


def test_a_refused_version_is_tried_again_later_and_taken_when_it_is_whole(
    pair, root, currents, monkeypatch, caplog
) -> None:
    engine, follower = pair
    now = [1000.0]
    monkeypatch.setattr(following.time, "monotonic", lambda: now[0])
    index = paths_of(root, currents[1]).bm25 / "meta.json"
    whole = index.read_bytes()
    damage(index)
    flip(root, currents[1])
    tried = []
    for _ in range(400):
        follower.look()
        tried.append(follower.refusal.attempts)
        now[0] += 0.5
    # At 0, 1, 3, 7, 15, 31, 63 s, from then on once a minute: 123, 183.
    assert tried[-1] == 9
    assert len([record for record in caplog.records if "not serving" in record.message]) == 1
    index.write_bytes(whole)
    now[0] += following.LAST_RETRY_S
    follower.look()
    assert ask(engine) == 1


def test_a_current_that_stays_broken_for_long_is_still_watched(pair, root, currents, caplog) -> None:
    engine, follower = pair
    flip(root, b"garbage\n")
    for _ in range(2000):
        follower.look()
    assert follower.refusal.attempts == 2000
    assert len([record for record in caplog.records if "not serving" in record.message]) == 1
    flip(root, currents[1])
    follower.look()
    assert ask(engine) == 1


def test_the_thread_outlives_whatever_a_look_raises(root, currents, monkeypatch, caplog) -> None:
    looks = []
    real = Follower.look

    def look(follower: Follower) -> None:
        looks.append(1)
        if len(looks) == 1:
            raise RuntimeError("unexpected")
        real(follower)

    monkeypatch.setattr(Follower, "look", look)
    engine = Engine.open(root, ServingSettings(follow_interval_s=0.01))
    flip(root, currents[1])
    until(lambda: engine.bundle.current == currents[1])
    engine.close()
    assert "following CURRENT failed" in caplog.text


def test_a_version_that_would_lose_a_channel_is_refused(pair, root, currents) -> None:
    """As when descriptors or memory run out halfway: the version is whole, only opening it was not."""
    engine, follower = pair
    paths = paths_of(root, currents[1])
    manifest = read_manifest(paths)
    (paths.bm25 / "meta.json").write_text("{}")
    seal(root, paths, [*PIECES, marked(1)], manifest.encoder, manifest.faiss, COMMITS)
    follower.look()
    assert ask(engine) == 0
    assert follower.refusal.reason == "channel bm25 is off: the index is damaged or of another format"


@pytest.mark.parametrize("error", [RuntimeError("/secret"), MemoryError(), OSError(24, "Too many open files")])
def test_whatever_fails_while_opening_leaves_the_old_version(pair, root, currents, monkeypatch, error) -> None:
    engine, follower = pair

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(following.Bundle, "open_version", fail)
    flip(root, currents[1])
    follower.look()
    assert ask(engine) == 0
    assert type(error).__name__ in health(engine)["refused"]["reason"]
    assert "secret" not in str(health(engine))


def test_a_version_that_fails_its_warm_up_is_closed_again(pair, root, currents, monkeypatch) -> None:
    engine, follower = pair

    def fail(*_: object) -> None:
        raise IntegrityError("catalog.duckdb cannot be read")

    monkeypatch.setattr(following, "find_results", fail)
    flip(root, currents[1])
    follower.look()
    assert engine.bundle.current == currents[0]
    with sole_user(paths_of(root, currents[1]).manifest) as alone:
        assert alone


@pytest.mark.parametrize(
    ("file", "channel"),
    [("tables/embeddings.parquet", "faiss"), ("bm25/meta.json", "bm25"), ("encoder/model.onnx.data", "faiss")],
)
def test_damage_found_after_the_start_shuts_the_channel_it_is_in(bundle_root, tmp_path, file, channel) -> None:
    root = shutil.copytree(bundle_root, tmp_path / "root")
    engine, follower = followed(root)
    assert health(engine)["verified"] is False
    before = engine.search(SearchRequest(query="open", explain=True))
    assert before.limits == []
    damage(engine.bundle.paths.path / file)
    follower.check()
    answer = engine.search(SearchRequest(query="open", explain=True))
    assert answer.results
    others = ["symbol looked for whole names only, the lexical index is off"] if channel == "bm25" else []
    assert sorted(answer.limits) == sorted([f"channel {channel} is off: damaged: {file}", *others])
    assert channel not in answer.results[0].metadata.explain.channels
    state = health(engine)
    assert state["status"] == "degraded"
    assert state["verified"] is True
    assert state["damaged"] == [file]
    assert state["channels"][channel].items() >= {"open": False, "reason": f"damaged: {file}"}.items()
    engine.served.close()


def test_a_damaged_table_that_requests_never_read_is_reported(pair) -> None:
    engine, follower = pair
    damage(engine.bundle.paths.table("files"))
    follower.check()
    assert ask(engine) == 0
    assert health(engine)["damaged"] == ["tables/files.parquet"]
    assert health(engine)["status"] == "degraded"


def test_a_damaged_catalog_stops_the_service_until_another_version_is_current(pair, root, currents, caplog) -> None:
    engine, follower = pair
    damage(engine.bundle.paths.catalog)
    follower.check()
    with pytest.raises(UnavailableError, match=r"is damaged: catalog\.duckdb: sha256"):
        engine.search(SearchRequest(query="open", explain=True))
    state = health(engine)
    assert state["status"] == "unavailable"
    assert state["refused"]["version"] == currents[0].version
    assert {"bundle", "since"}.isdisjoint(state)
    follower.look()
    assert health(engine)["status"] == "unavailable", "CURRENT still names the damaged version"
    flip(root, currents[1])
    follower.look()
    assert ask(engine) == 1
    assert health(engine)["damaged"] == []


def test_a_whole_version_is_verified_once(pair, monkeypatch) -> None:
    engine, follower = pair
    follower.check()
    assert health(engine)["verified"] is True
    assert health(engine)["damaged"] == []


def test_checking_stops_for_a_newer_version(pair, root, currents, monkeypatch) -> None:
    engine, follower = pair
    follower._settings = ServingSettings(follow_interval_s=1e-9)
    flip(root, currents[1])
    with pytest.raises(following._Superseded):
        follower.check()
    assert health(engine)["verified"] is False
    follower.look()
    assert ask(engine) == 1


def test_a_check_that_cannot_read_is_repeated_later(pair, monkeypatch, caplog) -> None:
    engine, follower = pair
    calls = []

    def unreadable(*_: object, **__: object) -> None:
        calls.append(1)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(following, "differences", unreadable)
    for _ in range(3):
        follower.check()
    assert calls == [1]
    assert "cannot be verified now" in caplog.text
    assert health(engine)["verified"] is False


def test_another_file_is_read_long_before_the_next_look_is_due(root, currents) -> None:
    with closing(Engine.open(root, ServingSettings(follow_interval_s=3600))) as engine:
        for number in (1, 2):
            flip(root, currents[number])
            until(lambda number=number: engine.bundle.current == currents[number])


def test_the_thread_follows_and_ends_with_the_engine(root, currents) -> None:
    engine = Engine.open(root, ServingSettings(follow_interval_s=0.01))
    thread = engine.follower._thread
    until(lambda: health(engine)["verified"])
    for number in (1, 2):
        flip(root, currents[number])
        until(lambda number=number: engine.bundle.current == currents[number])
        assert ask(engine) == number
    engine.close()
    assert not thread.is_alive()
    for current in currents:
        with sole_user(paths_of(root, current).manifest) as alone:
            assert alone

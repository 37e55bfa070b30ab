"""F13: a disk so slow that a swap takes for ever: requests go on, deadlines hold, and the server can be stopped."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from codequarry.schemas.bundle.layout import BundleRoot, Current
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.search import SearchRequest
from codequarry.serving.engine import follow as following
from codequarry.serving.engine.engine import Engine
from codequarry.serving.files.lease import sole_user
from codequarry.serving.version import open as bundles
from tests.serving.bundles.versions import MARKER, flip, number_of, publish, until


class SlowDisk:
    """Opening the lexical index waits until `mend`, in every version opened after `wear`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waiting, self._mended = threading.Event(), threading.Event()
        self._patch = monkeypatch

    def wear(self) -> None:
        opener = bundles.CHANNELS["bm25"]

        def slowly(opening):
            self.waiting.set()
            assert self._mended.wait(60)
            return opener(opening)

        self._patch.setitem(bundles.CHANNELS, "bm25", slowly)

    def mend(self) -> None:
        self._mended.set()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch):
    slow = SlowDisk(monkeypatch)
    yield slow
    slow.mend()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Current]]:
    root = tmp_path_factory.mktemp("prepared")
    return root, [publish(root, number) for number in range(3)]


@pytest.fixture
def root(prepared, tmp_path) -> Path:
    copied = shutil.copytree(prepared[0], tmp_path / "root")
    flip(copied, prepared[1][0])
    return copied


def test_requests_do_not_wait_for_a_slow_swap(root, prepared, disk) -> None:
    engine = Engine.open(root, ServingSettings(follow_interval_s=0.01, search_timeout_s=5))
    disk.wear()
    flip(root, prepared[1][1])
    assert disk.waiting.wait(30)
    for _ in range(50):
        answer = engine.search(SearchRequest(query=MARKER))
        assert number_of(answer) == 0
        assert not [limit for limit in answer.limits if "stopped after" in limit]
    disk.mend()
    until(lambda: engine.bundle.current == prepared[1][1])
    assert number_of(engine.search(SearchRequest(query=MARKER))) == 1
    engine.close()


def test_a_server_stops_while_a_swap_hangs_and_drops_what_comes_late(root, prepared, disk, monkeypatch) -> None:
    monkeypatch.setattr(following, "_STOP_S", 0.05)
    engine = Engine.open(root, ServingSettings(follow_interval_s=0.01))
    disk.wear()
    flip(root, prepared[1][1])
    assert disk.waiting.wait(30)
    engine.close()
    assert engine.follower._thread.is_alive()
    disk.mend()
    engine.follower._thread.join(30)
    assert engine.served.since is None
    with sole_user(BundleRoot(root).version(prepared[1][1].version).manifest) as alone:
        assert alone, "a version that arrived after the end must not be left open"


def test_a_swap_that_was_overtaken_is_followed_by_the_newest(root, prepared, disk) -> None:
    engine = Engine.open(root, ServingSettings(follow_interval_s=0.01))
    disk.wear()
    flip(root, prepared[1][1])
    assert disk.waiting.wait(30)
    flip(root, prepared[1][2])
    disk.mend()
    until(lambda: engine.bundle.current == prepared[1][2])
    assert number_of(engine.search(SearchRequest(query=MARKER))) == 2
    engine.close()

"""F9, F10: CURRENT moves under readers; versions vanish under a slow one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from codequarry.pipelines.store.processes import resident_bytes
from codequarry.schemas.bundle.layout import BundleRoot, Current
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.search import FetchRequest, SearchRequest
from codequarry.serving.engine.engine import Engine
from codequarry.serving.tools.fetch import fetch
from codequarry.serving.tools.search import search
from tests.serving.bundles.corpus import SESSION
from tests.serving.bundles.versions import MARKER, flip, followed, marked, number_of, publish, until

QUICK = ServingSettings(follow_interval_s=0.01)


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory, minilm_directory: Path) -> tuple[Path, list[Current]]:
    """Three versions with both channels."""
    root = tmp_path_factory.mktemp("dense")
    return root, [publish(root, number, encoder=minilm_directory) for number in range(3)]


@contextmanager
def readers(engine: Engine, count: int):
    """Threads that search and fetch all the time: (numbers of the versions that answered, what went wrong)."""
    stop = threading.Event()
    seen: list[int] = []
    wrong: list[str] = []

    def read() -> None:
        while not stop.is_set():
            try:
                answer = engine.answer_admitted("search", search, SearchRequest(query=MARKER))
                if answer.limits:
                    wrong.append(str(answer.limits))
                seen.append(number_of(answer))
                fetched = engine.answer_admitted("fetch", fetch, FetchRequest(id=str(SESSION.id)))
                if fetched.text != SESSION.text:
                    wrong.append(fetched.text)
            except Exception as error:  # noqa: BLE001 - every failure is what is counted
                wrong.append(repr(error))

    threads = [threading.Thread(target=read) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield seen, wrong
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def descriptors() -> int:
    return len(os.listdir("/dev/fd"))


def resident_mb() -> float:
    return resident_bytes(os.getpid()) / 2**20


def follow(root: Path, currents: list[Current], flips: int) -> tuple[list[tuple[int, int, float]], list[int]]:
    """Flip so often, each time until it is followed: (descriptors, threads, resident MB) after each; versions seen."""
    engine = Engine.open(root, QUICK)
    state = []
    with readers(engine, 2) as (seen, wrong):
        for flipped in range(flips):
            current = currents[flipped % len(currents)]
            flip(root, current)
            until(lambda current=current: engine.bundle.current == current)
            # The replaced version goes when its last request has ended, on the follower's thread.
            until(lambda: engine.served.leaving == 0 and engine.follower._idle.empty())
            state.append((descriptors(), threading.active_count(), resident_mb()))
    engine.close()
    assert wrong == []
    return state, seen


def test_every_answer_comes_from_one_version(dense) -> None:
    root, currents = dense
    state, seen = follow(root, currents, 10)
    assert set(seen) == {0, 1, 2}
    assert max(used for used, _, _ in state[3:]) <= max(used for used, _, _ in state[:3]) + 4


@pytest.mark.faults_long
def test_a_hundred_publishes_leave_no_descriptor_thread_or_memory_behind(dense) -> None:
    """In a process of its own, whose memory holds nothing but the server's."""
    root, currents = dense
    program = (
        "import json, sys\n"
        "from pathlib import Path\n"
        "from codequarry.schemas.bundle.layout import Current\n"
        "from tests.faults.readers.test_reader_flips import follow\n"
        "currents = [Current(*line.split()) for line in sys.argv[2:]]\n"
        "print(json.dumps(follow(Path(sys.argv[1]), currents, 100)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(root), *(current.line().strip() for current in currents)],
        env={**os.environ, "PYTHONPATH": "."}, check=True, capture_output=True, text=True,
    )  # fmt: skip
    state, seen = json.loads(done.stdout)
    assert set(seen) == {0, 1, 2}
    early, late = state[10:30], state[-20:]
    for measure, slack in ((0, 2), (1, 2), (2, 25)):
        before, after = (sorted(row[measure] for row in rows)[len(rows) // 2] for rows in (early, late))
        assert after <= before + slack, f"{('descriptors', 'threads', 'MB')[measure]}: {before} -> {after}"


def test_publishes_by_another_process_faster_than_they_can_be_followed(dense) -> None:
    root, currents = dense
    program = (
        "import os, sys\n"
        "root, rounds, *lines = sys.argv[1:]\n"
        "for number in range(int(rounds)):\n"
        "    aside = os.path.join(root, '.CURRENT.new')\n"
        "    with open(aside, 'w') as stream: stream.write(lines[number % len(lines)] + '\\n')\n"
        "    os.replace(aside, os.path.join(root, 'CURRENT'))\n"
    )
    engine = Engine.open(root, QUICK)
    lines = [current.line().strip() for current in currents]
    with readers(engine, 1) as (seen, wrong):
        subprocess.run([sys.executable, "-c", program, str(root), "5001", *lines], check=True)
        until(lambda: engine.bundle.current == currents[5000 % 3])
        until(lambda: engine.follower.following)
    engine.close()
    assert wrong == []
    assert engine.follower.refusal is None
    assert seen


def test_a_slow_reader_keeps_its_version_when_its_files_go(dense, tmp_path) -> None:
    """As after `rm -rf`, or a retention that knows no holds: what is open and mapped stays readable."""
    root, currents = shutil.copytree(dense[0], tmp_path / "root"), dense[1]
    flip(root, currents[0])
    engine, follower = followed(root)
    before = engine.search(SearchRequest(query="where are expired sessions removed"))
    with engine.served.lease() as held:
        for current in (currents[1], currents[2], currents[1]):
            flip(root, current)
            follower.look()
        shutil.rmtree(BundleRoot(root).version(currents[0].version).path)
        old = Engine(held, ServingSettings())
        after = old.search(SearchRequest(query="where are expired sessions removed"))
        assert after == before
        assert after.limits == []
        assert number_of(old.search(SearchRequest(query=MARKER))) == 0
        assert old.fetch(FetchRequest(id=str(marked(0).id))).text == marked(0).text
        assert number_of(engine.search(SearchRequest(query=MARKER))) == 1
    engine.served.close()


def test_a_server_whose_whole_root_goes_keeps_answering(dense, tmp_path, caplog) -> None:
    root = shutil.copytree(dense[0], tmp_path / "root")
    flip(root, dense[1][2])
    engine, follower = followed(root)
    shutil.rmtree(root)
    follower.look()
    assert number_of(engine.search(SearchRequest(query=MARKER))) == 2
    assert follower.following is False
    engine.served.close()

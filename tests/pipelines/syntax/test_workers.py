"""Chunking in processes: the same chunks as in this one, and a file that kills its worker costs only itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from codequarry.pipelines.store.syntax import SyntaxStore
from codequarry.pipelines.syntax import workers as chunk_workers
from codequarry.pipelines.syntax.chunks.chunk import chunk_source
from codequarry.pipelines.syntax.workers import SourceFile, chunk_files, keeping_a_worker
from codequarry.schemas.errors import CodequarryError
from codequarry.schemas.languages import language_of
from codequarry.schemas.settings.load import ChunkingSettings

SOURCES = sorted((Path(__file__).parents[2] / "fixtures" / "sources").iterdir())
SETTINGS = ChunkingSettings(max_chars=400, merge_chars=150)
SIZES = {"max_chars": 400, "merge_chars": 150}


def fixtures() -> list[SourceFile]:
    return [(file.name, language_of(file.name) or "text", file.read_bytes()) for file in SOURCES]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
def test_workers_give_the_same_chunks_in_the_same_order(workers: int) -> None:
    files = fixtures()
    results = list(chunk_files(iter(files), SETTINGS, workers=workers))
    assert [file for file, *_ in results] == files
    for (_, lang, content), made, *_ in results:
        assert made == chunk_source(content, lang, max_chars=400, merge_chars=150)


@pytest.mark.slow
def test_a_file_that_takes_all_memory_is_chunked_by_lines_and_the_others_by_syntax(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chunk_workers, "_MEMORY_BYTES", 256 << 20)  # a gigabyte takes ten seconds to fill
    bomb = b"a =>" * 5_000
    files: list[SourceFile] = [("bomb.java", "java", bomb), *fixtures()]
    results = list(chunk_files(files, SETTINGS, workers=1))
    assert not results[0].made.parsed
    assert results[0].made.fallback in ("memory", "crashed")
    assert not results[0].fallen
    assert b"".join(bomb[span.start_byte : span.end_byte] for span in results[0].made.spans) == bomb
    assert [each.made.parsed for each in results[1:]] == [
        chunk_source(content, lang).parsed for _, lang, content in fixtures()
    ]


def test_a_worker_that_is_killed_or_hangs_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    files = fixtures()
    with closing(chunk_workers._Worker()) as worker:
        os.kill(worker._process.pid, signal.SIGKILL)
        worker.send(*files[0][1:], **SIZES)
        assert worker.receive() == chunk_workers._ENDED
        worker.send(*files[0][1:], **SIZES)
        assert isinstance(worker.receive(), bytes)
        monkeypatch.setattr(chunk_workers, "_ANSWER_S", 0.05)
        os.kill(worker._process.pid, signal.SIGSTOP)
        worker.send(*files[0][1:], **SIZES)
        assert worker.receive() == chunk_workers._NO_ANSWER
        monkeypatch.setattr(chunk_workers, "_ANSWER_S", 300.0)
        worker.send(*files[0][1:], **SIZES)
        assert isinstance(worker.receive(), bytes)


FILES = [b"x", b"slow", b"xxx", b"xx"]


class ScriptedWorker:
    """A worker that answers with the content it was sent; with ``slow`` after the other files alone."""

    sent: list[tuple[ScriptedWorker, bytes]]

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)

    def close(self) -> None:
        os.close(self._read)
        os.close(self._write)

    def fileno(self) -> int:
        return self._read

    def send(self, _language: str, content: bytes, **_sizes: int) -> None:
        self.sent.append((self, content))
        if content != b"slow":
            self.answer(content)
        if len(self.sent) == len(FILES):
            next(worker for worker, each in self.sent if each == b"slow").answer(b"slow")

    def answer(self, content: bytes) -> None:
        os.write(self._write, content)

    def receive(self) -> bytes:
        return os.read(self._read, 100)  # fails where it would wait


@pytest.mark.unit
def test_a_worker_that_is_free_does_not_wait_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_workers, "_Worker", ScriptedWorker)
    monkeypatch.setattr(ScriptedWorker, "sent", [], raising=False)
    with closing(chunk_workers._WorkerPool(SETTINGS, 2)) as pool:
        assert pool.answers([("a.py", "python", content) for content in FILES]) == FILES
    first, second = dict.fromkeys(worker for worker, _ in ScriptedWorker.sent)
    by_worker = [[content for worker, content in ScriptedWorker.sent if worker is each] for each in (first, second)]
    assert by_worker == [[b"slow"], [b"xxx", b"xx", b"x"]]


class KeptAnswers:
    """A store of answers in memory."""

    def __init__(self) -> None:
        self.entries: dict[bytes, bytes] = {}

    def get(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        return {key: self.entries[key] for key in keys if key in self.entries}

    def put(self, entries: Sequence[tuple[bytes, bytes]]) -> None:
        self.entries.update(entries)


def chunk_with_deaths(
    monkeypatch: pytest.MonkeyPatch, deaths: list[chunk_workers._Death], store: KeptAnswers
) -> chunk_workers.Chunked:
    """Chunk a file over which the first workers end in these ways."""
    receive = chunk_workers._Worker.receive

    def dying(self: chunk_workers._Worker) -> bytes | chunk_workers._Death:
        answer = receive(self)
        return deaths.pop(0) if deaths else answer

    monkeypatch.setattr(chunk_workers._Worker, "receive", dying)
    (chunked,) = chunk_files(fixtures()[:1], SETTINGS, workers=1, store=cast(SyntaxStore, store))
    return chunked


@pytest.mark.parametrize(
    "death",
    [chunk_workers._NO_MEMORY, chunk_workers._CRASHED, chunk_workers._NO_CPU_TIME],
    ids=lambda death: death.reason,
)
def test_chunks_by_lines_that_follow_from_the_file_are_kept_with_their_reason(
    monkeypatch: pytest.MonkeyPatch, death: chunk_workers._Death
) -> None:
    """They were made again by each run before, and each run could make others."""
    store = KeptAnswers()
    first = chunk_with_deaths(monkeypatch, [death, death], store)
    assert (first.made.parsed, first.made.fallback, first.fallen, first.known) == (False, death.reason, False, False)
    second = chunk_with_deaths(monkeypatch, [], store)
    assert (second.made, second.known) == (first.made, True)


@pytest.mark.parametrize("death", [chunk_workers._ENDED, chunk_workers._NO_ANSWER, chunk_workers._CRASHED])
def test_a_file_is_tried_again_by_a_fresh_worker_before_it_is_given_up(
    monkeypatch: pytest.MonkeyPatch, death: chunk_workers._Death
) -> None:
    chunked = chunk_with_deaths(monkeypatch, [death], KeptAnswers())
    assert chunked.made == chunk_source(fixtures()[0][2], fixtures()[0][1], max_chars=400, merge_chars=150)
    assert not chunked.fallen


def test_chunks_by_lines_because_somebody_ended_the_worker_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    store = KeptAnswers()
    chunked = chunk_with_deaths(monkeypatch, [chunk_workers._ENDED] * 2, store)
    assert (chunked.made.fallback, chunked.fallen, store.entries) == ("worker_ended", True, {})


def test_a_worker_that_computes_without_end_is_stopped_by_its_cpu_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it takes on a loaded machine: the wall clock says nothing of the file."""
    program = "from codequarry.pipelines.store.processes import limit_cpu_time; limit_cpu_time(0)\nwhile True: pass\n"
    done = subprocess.run([sys.executable, "-c", program], check=False, timeout=300)
    assert chunk_workers._death(done.returncode) == chunk_workers._NO_CPU_TIME


def test_a_bug_in_the_chunker_is_an_error_not_a_fallback(capfd: pytest.CaptureFixture[str]) -> None:
    with closing(chunk_workers._Worker()) as worker:
        worker.send("python", b"x = 1\n", max_chars=100, merge_chars=200)
        with pytest.raises(CodequarryError, match="chunk worker failed"):
            worker.receive()
    assert "merge_chars" in capfd.readouterr().err


def test_a_worker_never_imports_from_the_folder_it_is_started_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`codequarry index .` in a repository that holds a json.py must not run it."""
    (tmp_path / "json.py").write_text(f"open({str(tmp_path / 'pwned')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    assert len(list(chunk_files(fixtures()[:1], SETTINGS, workers=1))) == 1
    assert not (tmp_path / "pwned").exists()


def test_a_worker_loads_no_numpy() -> None:
    """It would take longer than chunking the one file of a commit."""
    program = "import sys, codequarry.pipelines.syntax.workers; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_worker_looks_for_cyclic_garbage_seldom() -> None:
    program = (
        "import gc, codequarry.pipelines.syntax.workers as workers\n"
        "before = gc.get_threshold(); workers._work(1 << 30); print(gc.get_threshold()[0] > before[0])"
    )
    done = subprocess.run([sys.executable, "-c", program], input="", capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_ctrl_c_does_not_reach_the_workers() -> None:
    """The terminal sends it to the whole group; each worker would print a traceback of its own."""
    with closing(chunk_workers._Worker()) as worker:
        assert os.getpgid(worker._process.pid) != os.getpgid(0)


def started(monkeypatch: pytest.MonkeyPatch) -> list[chunk_workers._Worker]:
    """Workers that are started from now on."""
    found: list[chunk_workers._Worker] = []
    start = chunk_workers._Worker.__init__

    def noted(self: chunk_workers._Worker) -> None:
        found.append(self)
        start(self)

    monkeypatch.setattr(chunk_workers._Worker, "__init__", noted)
    return found


def test_one_worker_is_kept_for_the_next_files_and_ended_at_last(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = started(monkeypatch)
    with keeping_a_worker():
        for _ in range(3):
            assert len(list(chunk_files(fixtures()[:2], SETTINGS, workers=2))) == 2
        assert len(workers) == 4
        assert [worker._process.poll() for worker in workers].count(None) == 1
    assert all(worker._process.poll() is not None for worker in workers)


def test_a_kept_worker_that_was_killed_meanwhile_costs_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = started(monkeypatch)
    with keeping_a_worker():
        for _ in range(2):
            (chunked,) = chunk_files(fixtures()[:1], SETTINGS, workers=1)
            assert not chunked.fallen
            os.kill(workers[0]._process.pid, signal.SIGKILL)
    assert len(workers) == 1


def test_without_a_kept_worker_all_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = started(monkeypatch)
    assert len(list(chunk_files(fixtures()[:1], SETTINGS, workers=1))) == 1
    assert [worker._process.poll() for worker in workers] == [-signal.SIGKILL]

"""Chunking in processes: the same chunks as in this one, and a file that kills its worker costs only itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from codequarry.pipelines import chunk_workers
from codequarry.pipelines.chunk_workers import SourceFile, chunk_files
from codequarry.pipelines.chunking import chunk_source
from codequarry.schemas.errors import CodequarryError
from codequarry.schemas.languages import language_of
from codequarry.schemas.settings import ChunkingSettings

SOURCES = sorted((Path(__file__).parents[1] / "fixtures" / "sources").iterdir())
SETTINGS = ChunkingSettings(max_chars=400, merge_chars=150)


def fixtures() -> list[SourceFile]:
    return [(file.name, language_of(file.name) or "text", file.read_bytes()) for file in SOURCES]


@pytest.mark.parametrize("workers", [1, 3])
def test_workers_give_the_same_chunks_in_the_same_order(workers: int) -> None:
    files = fixtures()
    results = list(chunk_files(iter(files), SETTINGS, workers=workers))
    assert [file for file, *_ in results] == files
    for (_, lang, content), made, *_ in results:
        assert made == chunk_source(content, lang, max_chars=400, merge_chars=150)


@pytest.mark.slow
def test_a_file_that_takes_all_memory_is_chunked_by_lines_and_the_others_by_syntax() -> None:
    bomb = b"a =>" * 5_000
    files: list[SourceFile] = [("bomb.java", "java", bomb), *fixtures()]
    results = list(chunk_files(files, SETTINGS, workers=1))
    assert not results[0].made.parsed
    assert b"".join(bomb[span.start_byte : span.end_byte] for span in results[0].made.spans) == bomb
    assert [each.made.parsed for each in results[1:]] == [
        chunk_source(content, lang).parsed for _, lang, content in fixtures()
    ]


def test_a_worker_that_is_killed_or_hangs_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    files = fixtures()
    worker = chunk_workers._Worker(SETTINGS)
    with worker:
        os.kill(worker._process.pid, signal.SIGKILL)
        worker.send(*files[0][1:])
        assert worker.receive() is None
        worker.send(*files[0][1:])
        assert worker.receive() is not None
        monkeypatch.setattr(chunk_workers, "_ANSWER_S", 0.05)
        os.kill(worker._process.pid, signal.SIGSTOP)
        worker.send(*files[0][1:])
        assert worker.receive() is None
        monkeypatch.setattr(chunk_workers, "_ANSWER_S", 30.0)
        worker.send(*files[0][1:])
        assert worker.receive() is not None


def test_a_bug_in_the_chunker_is_an_error_not_a_fallback(capfd: pytest.CaptureFixture[str]) -> None:
    with chunk_workers._Worker(ChunkingSettings.model_construct(max_chars=100, merge_chars=200)) as worker:
        worker.send("python", b"x = 1\n")
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
    program = "import sys, codequarry.pipelines.chunk_workers; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_ctrl_c_does_not_reach_the_workers() -> None:
    """The terminal sends it to the whole group; each worker would print a traceback of its own."""
    with chunk_workers._Worker(SETTINGS) as worker:
        assert os.getpgid(worker._process.pid) != os.getpgid(0)

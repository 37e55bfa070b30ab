"""Files of an open version that are shortened, replaced or written to: noticed before use, where that is possible."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from codequarry.schemas.bundle.layout import BundleRoot, Current
from codequarry.schemas.errors import IntegrityError
from codequarry.schemas.wire.grep import CodeSearchRequest
from codequarry.schemas.wire.health import HealthRequest
from codequarry.schemas.wire.search import SearchRequest, to_wire
from codequarry.serving.engine.engine import Engine
from codequarry.serving.files import file_watch
from codequarry.serving.files.file_watch import FileWatch
from codequarry.serving.files.integrity import read_manifest
from tests.serving.bundles.versions import MARKER, flip, followed, number_of, publish, until
from tests.serving.live import request, tool_call

SERVE = (
    "from codequarry.serving.files import file_watch; file_watch.FRESH_S = 0.0; "
    "from codequarry.pipelines.cli.root import main; main()"
)
BLIND = "from codequarry.serving.files.file_watch import FileWatch; FileWatch._look = lambda self: None; "


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Current]]:
    """Three lexical versions; copy them before use."""
    root = tmp_path_factory.mktemp("prepared")
    return root, [publish(root, number) for number in range(3)]


@pytest.fixture
def root(prepared: tuple[Path, list[Current]], tmp_path: Path) -> Path:
    """Version 1 is current: one was built before it, one after."""
    copied = shutil.copytree(prepared[0], tmp_path / "root")
    flip(copied, prepared[1][1])
    return copied


@pytest.fixture(autouse=True)
def always_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_watch, "FRESH_S", 0.0)


def folder(root: Path, number: int) -> Path:
    return BundleRoot(root).versions / f"20260101T0000{number:02d}Z-0123abcd"


def without(root: Path, *numbers: int) -> None:
    for number in numbers:
        shutil.rmtree(folder(root, number))


def health(engine: Engine) -> dict:
    return to_wire(engine.health(HealthRequest()))


def ask(engine: Engine) -> int:
    return number_of(engine.search(SearchRequest(query=MARKER)))


def flipped(path: Path) -> bytes:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    return bytes(data)


@contextmanager
def serving(root: Path, tmp_path: Path, program: str = SERVE) -> Iterator[tuple[subprocess.Popen[bytes], int, Path]]:
    """The server as `codequarry serve` starts it, its port, and what it writes to stderr."""
    log = tmp_path / "stderr"
    with log.open("wb") as stream:
        server = subprocess.Popen(
            [sys.executable, "-c", program, "serve", "--port", "0", "--root", str(root)],
            cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stream,
        )  # fmt: skip
    try:
        until(lambda: b"/mcp" in log.read_bytes() or server.poll() is not None, seconds=60)
        port = int(log.read_text().split("http://127.0.0.1:")[1].split("/")[0])
        yield server, port, log
    finally:
        server.kill()
        server.wait()


def called(port: int) -> dict:
    body, headers = tool_call("search_code", {"pattern": "self"}, "2025-11-25")
    status, answer = request(port, "POST", "/mcp", body, headers)
    assert status == 200
    return json.loads(answer)["result"]


def probe(port: int) -> dict:
    return json.loads(request(port, "GET", "/healthz")[1])


@pytest.mark.slow
def test_row_29_a_file_shortened_under_a_running_server_fails_requests_and_not_the_server(root, tmp_path) -> None:
    without(root, 0, 2)
    with serving(root, tmp_path) as (server, port, log):
        assert not called(port)["isError"]
        os.truncate(folder(root, 1) / "tables/chunks.parquet", 10)
        for _ in range(5):
            result = called(port)
            assert result["isError"]
            assert result["structuredContent"]["error"]["code"] == "UNAVAILABLE"
            assert "tables/chunks.parquet" in result["structuredContent"]["error"]["message"]
        until(lambda: probe(port)["status"] == "unavailable")
        assert "tables/chunks.parquet" in probe(port)["refused"]["reason"]
        assert server.poll() is None
        until(lambda: "tables/chunks.parquet" in log.read_text())
        assert str(root) not in str(probe(port))


@pytest.mark.slow
def test_the_version_before_a_damaged_one_is_served_in_its_place(root, tmp_path) -> None:
    with serving(root, tmp_path) as (server, port, _):
        os.truncate(folder(root, 1) / "tables/chunks.parquet", 10)
        until(lambda: not called(port)["isError"])
        state = probe(port)
        assert state["bundle"]["version"] == folder(root, 0).name, "not the one after it, which was rolled back"
        assert (state["status"], state["follows_current"], state["damaged"]) == ("degraded", False, [])
        assert state["refused"]["version"] == folder(root, 1).name
        assert "tables/chunks.parquet" in state["refused"]["reason"]
        assert server.poll() is None


@pytest.mark.slow
def test_a_server_that_dies_of_a_shortened_file_says_so(root, tmp_path) -> None:
    """What cannot be prevented: the file is shortened between the look and the access."""
    with serving(root, tmp_path, BLIND + SERVE) as (server, port, log):
        # Until then the files are read in the background, which would find the damage first.
        until(lambda: probe(port)["verified"], seconds=60)
        os.truncate(folder(root, 1) / "tables/chunks.parquet", 0)
        with pytest.raises((OSError, ValueError)):
            called(port)
        assert server.wait(30) == -signal.SIGBUS
        told = log.read_text()
        assert "Bus error" in told
        assert "texts.py" in told, "the stack names what was read"


@pytest.mark.parametrize("name", ["tables/chunks.parquet", "rows/near.npy", "files/names.npy", "catalog.duckdb"])
@pytest.mark.parametrize("change", [-1, 1])
def test_any_file_that_requests_read_is_looked_at(root, name, change) -> None:
    engine, follower = followed(root)
    path = next(iter(sorted(folder(root, 1).glob(name.replace("near", "*").replace("names", "*")))))
    os.truncate(path, path.stat().st_size + change)
    with pytest.raises(IntegrityError) as caught:
        engine.search_code(CodeSearchRequest(pattern="self"))
    assert path.name in caught.value.message
    follower.watch()
    assert ask(engine) == 0
    engine.served.close()


def test_a_version_that_is_mended_is_served_again(root, monkeypatch) -> None:
    engine, follower = followed(root)
    path = folder(root, 1) / "tables/chunks.parquet"
    whole = path.read_bytes()
    os.truncate(path, 10)
    follower.watch()
    assert ask(engine) == 0
    path.write_bytes(whole)
    monkeypatch.setattr(follower, "_retry_at", 0.0)
    follower.look()
    assert ask(engine) == 1
    assert health(engine)["follows_current"] is True
    engine.served.close()


def test_a_damaged_version_before_is_not_served_either(root) -> None:
    engine, follower = followed(root)
    older = folder(root, 0) / "tables/chunks.parquet"
    older.write_bytes(flipped(older))
    os.truncate(folder(root, 1) / "tables/chunks.parquet", 10)
    follower.watch()
    assert health(engine)["status"] == "unavailable"
    with pytest.raises(IntegrityError):
        ask(engine)


def test_a_file_written_to_is_read_again_and_found_damaged(root, caplog) -> None:
    without(root, 0)
    engine, follower = followed(root)
    path = folder(root, 1) / "tables/chunks.parquet"
    path.write_bytes(flipped(path))
    os.utime(path)
    follower.watch()
    state = health(engine)
    assert state["status"] == "unavailable"
    assert "chunks.parquet: sha256" in state["refused"]["reason"]
    assert "is damaged" in caplog.text


def test_a_file_that_is_touched_or_replaced_by_its_equal_is_no_damage(root) -> None:
    engine, follower = followed(root)
    path = folder(root, 1) / "tables/chunks.parquet"
    os.utime(path, (0, 0))
    follower.watch()
    copy = shutil.copy(path, path.with_name(".copy"))
    os.replace(copy, path)
    follower.watch()
    assert ask(engine) == 1
    assert health(engine)["damaged"] == []
    engine.served.close()


def test_a_version_whose_folder_went_is_answered_from_what_is_mapped(root) -> None:
    """As where the file system has no locks, and retention took it."""
    engine, _ = followed(root)
    without(root, 1)
    assert ask(engine) == 1
    engine.served.close()


def test_a_crowd_shares_one_look(root, monkeypatch) -> None:
    paths = BundleRoot(root).version(folder(root, 1).name)
    watch = FileWatch.open(paths, read_manifest(paths))
    looks: list[int] = []
    monkeypatch.setattr(file_watch, "FRESH_S", 3600.0)
    monkeypatch.setattr(FileWatch, "_look", lambda self: looks.append(1))
    for _ in range(3):
        watch.require_whole()
    assert looks == []
    watch.look_now()
    assert looks == [1]
    watch.close()
    watch.close()

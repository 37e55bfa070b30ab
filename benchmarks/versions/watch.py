"""Time from a save to an answer of ``codequarry serve --watch``, and cost of a watch while nothing changes."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.corpus import CODEQUARRY, HOME, LARGE, package_folder
from benchmarks.report import Figure, at_most, percentile, print_figures

CORPORA = (("fastmcp", "starlette"), (*LARGE, "sqlalchemy"))
"""Installed packages of each corpus: the cost of a save must not follow from the size of the repository."""
SAVES = 20
IDLE_S = 60.0
_POLL_S = 0.05
_PAUSE_S = 0.5
_DEADLINE_S = 120.0
_GIT = ("git", "-c", "user.name=bench", "-c", "user.email=bench@example.invalid")


def run() -> None:
    """Measure and print."""
    for packages in CORPORA:
        _measure(packages)


def _measure(packages: Sequence[str]) -> None:
    repository = _repository(HOME / "watch", packages)
    with _serving(repository) as (server, log):
        address = _wait_for(log, "serving ", server).split("/mcp")[0]
        _wait_for(log, "watching ", server)
        port = int(address.rpartition(":")[2])
        watch, ticks = _watch_of(server.pid), os.sysconf("SC_CLK_TCK")
        before = _ticks(watch)
        times = _saves(repository, port)
        spent = (_ticks(watch) - before) / ticks
        published = [line for line in log.read_text().splitlines() if "published in" in line]
        time.sleep(2)
        idle = _idle_share(watch)
    chunks = published[-1].split("; ")[-1].split(" chunks")[0]
    title = (
        f"Watching {chunks} chunks ({' '.join(packages)}): {SAVES} saves of one file each, {len(published)} versions"
    )
    print_figures(
        title,
        [
            at_most("save to searchable, p50", percentile(times, 0.5), 0.4, "s", 2),
            at_most("save to searchable, p95", percentile(times, 0.95), 1.0, "s", 2),
            Figure("CPU of the watch, each version", f"{spent / len(published):.2f} CPU-s"),
            Figure("first save (imports what publishes)", f"{times[0]:.2f} s"),
            at_most(f"CPU of the watch over {IDLE_S:g} s without a change", 100 * idle, 0.5, "%", 2),
        ],
    )


def _repository(home: Path, packages: Sequence[str]) -> Path:
    """The packages as one git repository of one commit."""
    shutil.rmtree(home, ignore_errors=True)
    repository = home / "app"
    for name in packages:
        shutil.copytree(package_folder(name), repository / name, ignore=shutil.ignore_patterns("__pycache__"))
    for command in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "-m", "all"]):
        subprocess.run([*_GIT, *command], cwd=repository, check=True)
    return repository


@contextmanager
def _serving(repository: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    log = repository.parent / "log"
    with log.open("wb") as stream:
        command = [CODEQUARRY[0], "-P", *CODEQUARRY[1:], "serve", "--watch", "--port", "0"]
        server = subprocess.Popen(command, cwd=repository, stdout=stream, stderr=stream)
        try:
            yield server, log
        finally:
            server.terminate()
            server.wait()


def _wait_for(log: Path, text: str, server: subprocess.Popen[bytes]) -> str:
    """The first line of the log that holds a text."""
    deadline = time.monotonic() + _DEADLINE_S
    while time.monotonic() < deadline and server.poll() is None:
        for line in log.read_text().splitlines():
            if text in line:
                return line
        time.sleep(0.1)
    raise SystemExit(f"the server did not say {text!r}:\n{log.read_text()}")


def _saves(repository: Path, port: int) -> list[float]:
    """Seconds from each save until a client finds its word."""
    files = sorted(repository.rglob("*.py"), key=lambda file: (file.stat().st_size, file))
    times: list[float] = []
    for number in range(SAVES):
        file = files[(2 * number + 1) * len(files) // (2 * SAVES)]
        word = f"word_of_save_{number}_{os.getpid()}"
        text = file.read_text() + f"\n\ndef {word}(value):\n    return value\n"
        started = time.perf_counter()
        file.write_text(text)
        while not _finds(port, word):
            if time.perf_counter() - started > _DEADLINE_S:
                raise SystemExit(f"{word} was not found in {_DEADLINE_S:g} s")
            time.sleep(_POLL_S)
        times.append(time.perf_counter() - started)
        time.sleep(_PAUSE_S)
    return times


def _finds(port: int, word: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_DEADLINE_S)
    try:
        body = json.dumps({"pattern": word})
        connection.request("POST", "/mcp/tools/search_code", body, {"Content-Type": "application/json"})
        return bool(json.loads(connection.getresponse().read()).get("results"))
    finally:
        connection.close()


def _watch_of(server: int) -> int:
    """The process of the watch beside a server."""
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(server)], capture_output=True, text=True, check=True)
    return int(listed.stdout.split()[0])


def _idle_share(pid: int) -> float:
    """Share of a core that a process takes while nothing changes."""
    before = _ticks(pid)
    time.sleep(IDLE_S)
    return (_ticks(pid) - before) / os.sysconf("SC_CLK_TCK") / IDLE_S


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])

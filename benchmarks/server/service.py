"""The service: what a call and a fetch cost, how fast a crowd is turned away, and what 64 clients do to it.

The server, its clients and the probe of health are processes of their own (`service_clients`).
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from benchmarks.corpus import CODEQUARRY, HOME, index
from benchmarks.report import Figure, at_most, percentile, print_figures
from benchmarks.server.service_clients import CLIENTS, CROWD
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.search import FetchRequest, SearchRequest
from codequarry.serving.engine.engine import Engine

CALLS, CROWDS, SECONDS = 500, 9, 60.0
FETCHES, FETCHED = 200, 10
_PLACES = ("--port", "0")


def run() -> None:
    """Measure and print."""
    root, _, _ = index(HOME / "reindex")
    fetch = _fetch_ms(root)
    with subprocess.Popen(
        [*CODEQUARRY, "serve", *_PLACES, "--root", str(root)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as server:
        try:
            assert server.stderr is not None
            port = int(server.stderr.readline().split(b"127.0.0.1:")[1].split(b"/")[0])
            figures = _measured(port, server.pid)
        finally:
            server.terminate()
    print_figures("Service over HTTP", [fetch, *figures])


def _fetch_ms(root: Path) -> Figure:
    """Of chunks of one search after another, so that texts are not the same ones again and again."""
    engine = Engine.open(root, ServingSettings())
    try:
        batches: list[list[str]] = []
        for word in ("session", "token", "schema", "client", "error", "path", "request", "stream", "cache", "tool"):
            found = engine.search(SearchRequest(query=word, top_k=50)).results
            batches += [
                [one.id for one in found[at : at + FETCHED]] for at in range(0, len(found) - FETCHED + 1, FETCHED)
            ]
        seconds: list[float] = []
        for number in range(FETCHES):
            request = FetchRequest(objectIds=batches[number % len(batches)], max_tokens=16_000)
            started = time.perf_counter()
            answer = engine.fetch(request)
            seconds.append(time.perf_counter() - started)
            assert len(answer.objects) == FETCHED
    finally:
        engine.close()
    return at_most(
        f"fetch of {FETCHED} chunks in process, p50 of {FETCHES}", 1e3 * percentile(seconds, 0.5), 4, "ms", 2
    )


def _measured(port: int, pid: int) -> list[Figure]:
    _settle(port)
    before = _cpu_s(pid)
    assert _clients("trivial", port, CALLS) == 0
    trivial = 1e3 * (_cpu_s(pid) - before) / CALLS
    worst: list[float] = _clients("crowds", port, CROWDS)
    resident = _resident_mb(pid)
    probe = _started("health", port, SECONDS)
    answers: dict[str, int] = _clients("load", port, SECONDS)
    health: list[float] = json.loads(probe.communicate()[0])
    others = sum(answers.values()) - answers["ok"] - answers["BUSY"]
    return [
        at_most(f"CPU of a trivial tool, protocol included (mean of {CALLS})", trivial, 1.0, "ms", 2),
        at_most(
            f"slowest BUSY of {CROWD} searches at once (median of {len(worst)} crowds)",
            1e3 * percentile(worst, 0.5), 50, "ms",
        ),
        Figure("the same, slowest crowd", f"{1e3 * max(worst):.1f} ms"),
        Figure(f"{CLIENTS} clients for {SECONDS:g} s", f"{answers['ok']} answers, {answers['BUSY']} BUSY"),
        at_most("other errors", others, 0, "", 0),
        Figure(f"/healthz meanwhile, p50 of {len(health)}", f"{1e3 * percentile(health, 0.5):.1f} ms"),
        at_most("slowest /healthz meanwhile", 1e3 * max(health), 100, "ms"),
        at_most("growth of resident memory", _resident_mb(pid) - resident, 20, "MB"),
    ]  # fmt: skip


def _settle(port: int) -> None:
    """Wait until the server has compared its version byte by byte, and let it answer everything once."""
    while not json.loads(urlopen(f"http://127.0.0.1:{port}/healthz").read())["verified"]:
        time.sleep(0.1)
    _clients("trivial", port, 50)
    _clients("crowds", port, 1)


def _clients(what: str, port: int, amount: float) -> Any:
    """Findings of clients in a process of their own."""
    out, _ = (process := _started(what, port, amount)).communicate()
    assert process.returncode == 0
    return json.loads(out)


def _started(what: str, port: int, amount: float) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "benchmarks.server.service_clients", what, str(port), str(amount)]
    return subprocess.Popen(command, cwd=Path(__file__).resolve().parents[2], stdout=subprocess.PIPE)


def _cpu_s(pid: int) -> float:
    """Seconds of CPU of all threads."""
    nanoseconds = (
        int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir()
    )  # fmt: skip
    return sum(nanoseconds) / 1e9


def _resident_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()[0]) / 1024


if __name__ == "__main__":
    run()

"""One push into a fleet of 64 bundles beside one bundle of all: CPU time, bytes that travel, time until it is served.

A replica follows the fleet and a server answers from it, each in a process of its own, while the pushes are made.
"""

from __future__ import annotations

import json
import shutil
import socket
import statistics
import time
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.corpus import CODEQUARRY, HOME
from benchmarks.fleets.fleet_home import build_fleet, commit_all, make_repositories, start, wait_for, write_settings
from benchmarks.fleets.served_fleet import PACKAGES as REPOSITORIES
from benchmarks.report import Figure, at_most, print_figures

_PUSHED = ("starlette", "rich", "jedi")
_FOLLOWED = "fleet"
_SIZES = {"fleet": 1, "one bundle": 10_000_000}
"""Chunks that a bundle is filled to: each repository alone, or all together."""


def run() -> None:
    """Measure and print."""
    print_figures(f"A push to one of {len(REPOSITORIES)} repositories in a fleet", list(_figures()))


def _figures() -> Iterable[Figure]:
    home = HOME / "fleet_push"
    shutil.rmtree(home, ignore_errors=True)
    make_repositories(home, REPOSITORIES)
    for kind, size in _SIZES.items():
        write_settings(home, kind, REPOSITORIES, size)
        cpu, seconds, sent, said = build_fleet(home, kind, "--full")
        yield Figure(f"{kind}: what", said)
        yield Figure(f"{kind}: first build", f"{cpu:.1f} CPU-s, {seconds:.1f} s, {sent:.1f} MB travel")
    costs: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    delays: list[tuple[float, float]] = []
    with _replica(home) as health:
        for number, name in enumerate(_PUSHED):
            files = sorted((home / "repositories" / name).rglob("*.py"), key=lambda file: (file.stat().st_size, file))
            file = files[len(files) // 2]
            for mode in ("--delta", "--full"):
                added = f"\n\ndef added_{number}{mode.count('d')}(value):\n    return value\n"
                file.write_text(file.read_text() + added)
                commit_all(home / "repositories" / name)
                for kind in _SIZES:
                    costs.setdefault((kind, mode), []).append(build_fleet(home, kind, mode)[:3])
                    if kind == _FOLLOWED:
                        delays.append(_delays(home, health))
    for what, column in zip(("held by a following replica", "answered from"), zip(*delays, strict=True), strict=True):
        yield at_most(
            f"fleet: from the PUT of a generation until it is {what}, median", statistics.median(column), 2, "s"
        )
        yield Figure(f"fleet: the same, longest of {len(delays)}", f"{max(column):.1f} s")
    for (kind, mode), measured in costs.items():
        cpu, seconds, sent = (statistics.median(column) for column in zip(*measured, strict=True))
        yield Figure(f"{kind}, {mode}: a push, median", f"{cpu:.2f} CPU-s, {seconds:.2f} s")
        name = f"{kind}, {mode}: bytes that travel, median"
        yield at_most(name, sent, 3, "MB", digits=2) if kind == "fleet" else Figure(name, f"{sent:.2f} MB")
    cpu, seconds, _, _ = build_fleet(home, "fleet", "--delta")
    yield Figure("fleet: a build without a push", f"{cpu:.2f} CPU-s, {seconds:.2f} s, nothing travels")


@contextmanager
def _replica(home: Path) -> Iterator[str]:
    """Run a follower of the fleet and a server of what it holds; yields the address of the server's health page."""
    replica = home / "replica"
    follow = [*CODEQUARRY, "fleet", "follow", "--root", str(replica), "--settings", f"{_FOLLOWED}.toml"]
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    health = f"http://127.0.0.1:{port}/healthz"
    with start(follow, home) as follower:
        try:
            wait_for((replica / "fleet.json").is_file)
            serve = [*CODEQUARRY, "serve", "--fleet", str(replica), "--port", str(port)]
            with start(serve, replica) as server:
                try:
                    wait_for(lambda: _served_version(health) != "")
                    yield health
                finally:
                    server.terminate()
        finally:
            follower.terminate()


def _delays(home: Path, health: str) -> tuple[float, float]:
    """Return the seconds from the PUT of the current generation until it is held by the replica, and is served."""
    current = home / _FOLLOWED / "shared" / "fleet" / "CURRENT"
    generation = int(current.read_text().split()[0])
    wait_for(lambda: _served_version(health) == f"fleet-{generation}", every_s=0.01)
    served, put = time.time(), current.stat().st_mtime
    return (home / "replica" / "fleet.json").stat().st_mtime - put, served - put


def _served_version(health: str) -> str:
    try:
        with urllib.request.urlopen(health, timeout=5) as answer:
            return str(json.load(answer)["bundle"]["version"])
    except OSError:
        return ""

"""Copies of the query encoder: on the disk, of versions and of a fleet, and in the memory of a server of the fleet."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

from benchmarks.corpus import CODEQUARRY, HOME, package_folder
from benchmarks.report import Figure, at_most, print_figures
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.search import SearchRequest
from codequarry.serving.fleet.replica_follower import open_replica
from codequarry.serving.tools.search import search

REPOSITORIES = tuple("anyio attr click dateutil h11 idna jinja2 mistune mako starlette tomlkit uvicorn".split())
_SOURCE = ("fastmcp", "mcp", "starlette")
_VERSIONS = (1, 3, 10)
_GIT = ("git", "-c", "user.name=bench", "-c", "user.email=bench@example.invalid")
_QUERIES = ("where are sessions removed when they end", "parse_headers", "close the connection", "escape a string",
            "encode a domain name", "read the next event", "render a template", "retry with a timeout")  # fmt: skip


def run() -> None:
    """Measure and print."""
    home = HOME / "encoder_copies"
    shutil.rmtree(home, ignore_errors=True)
    print_figures(f"Versions of {', '.join(_SOURCE)} in one bundle root", list(_versions(home / "one")))
    print_figures(f"A fleet of {len(REPOSITORIES)} bundles", list(_fleet(home / "fleet")))


def _versions(home: Path) -> Iterable[Figure]:
    for package in _SOURCE:
        shutil.copytree(package_folder(package), home / "app" / package, ignore=shutil.ignore_patterns("__pycache__"))
    files = sorted((home / "app").rglob("*.py"), key=lambda file: (file.stat().st_size, file))
    for number in range(1, max(_VERSIONS) + 1):
        file = files[len(files) * number // (max(_VERSIONS) + 1)]
        file.write_text(file.read_text() + f"\n\ndef added_{number}(value):\n    return value\n")
        _codequarry(home, "index", "app", BUNDLE__KEEP_VERSIONS=max(_VERSIONS))
        if number in _VERSIONS:
            every, copies = _disk(home / ".codequarry" / "bundles")
            yield Figure(f"{number} versions, links counted once", f"{every / 1e6:.2f} MB")
            yield at_most(f"{number} versions, copies of the encoder", copies, 1, "", 0)


def _fleet(home: Path) -> Iterable[Figure]:
    for name in REPOSITORIES:
        shutil.copytree(package_folder(name), home / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        for command in (("init", "--quiet"), ("add", "--all", "--force"), ("commit", "--quiet", "-m", "first")):
            subprocess.run([*_GIT, *command], cwd=home / name, check=True)
    listed = ", ".join(f'{{ path = "{name}", ref = "HEAD" }}' for name in REPOSITORIES)
    (home / "fleet.toml").write_text(
        f"[sources]\nrepositories = [{listed}]\n[retrieval]\nenabled = false\n[paths]\nstore = 'store'\n"
        f"[fleet]\nurl = 'file://{home}/shared'\nfolder = 'here'\nbundle_chunks = 1\nbundle_chunks_max = 1\n"
    )
    for command in ("build", "pull"):
        started = time.perf_counter()
        told = _codequarry(home, "fleet", command, "--settings", "fleet.toml").strip().splitlines()[-1]
        yield Figure(f"fleet {command}", f"{time.perf_counter() - started:.1f} s: {told}")
    for what, folder in (("builder", home / "here" / "bundles"), ("replica", home / "here" / "replica")):
        every, copies = _disk(folder)
        yield Figure(f"{what}, links counted once", f"{every / 1e6:.2f} MB")
        yield at_most(f"{what}, copies of the encoder", copies, 1, "", 0)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.versions.encoder_copies", str(home / "here" / "replica")],
        cwd=Path(__file__).parents[2], check=True, capture_output=True, text=True,
    )  # fmt: skip
    yield Figure("a server of the replica after some searches", done.stdout.strip())


def _codequarry(home: Path, *words: str, **settings: object) -> str:
    """Run a command in a folder, and return what it said to people."""
    environment = {**os.environ, **{f"CODEQUARRY__{name}": str(value) for name, value in settings.items()}}
    done = subprocess.run(
        [*CODEQUARRY, *words], cwd=home, env=environment, check=True, capture_output=True, text=True
    )  # fmt: skip
    return done.stderr


def _disk(folder: Path) -> tuple[int, int]:
    """Return the bytes of a folder, and how many copies of the encoder are among them; links count once."""
    found = {(one.st_dev, one.st_ino): (one.st_size, file) for file, one in _files(folder)}
    copies = sum(file.match("encoder/rows.npy") for _, file in found.values())
    return sum(size for size, _ in found.values()), copies


def _files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for file in folder.rglob("*"):
        if file.is_file() and not file.is_symlink():
            yield file, file.stat()


def _serve(replica: Path) -> None:
    """Open a replica, ask it, and print time and memory of this process."""
    began = time.process_time()
    with closing(open_replica(replica, ServingSettings(fleet_bundles=0))) as engine:
        for _ in range(2):
            for query in _QUERIES:
                engine.answer_admitted("search", search, SearchRequest(query=query))
        cpu_s = time.process_time() - began
        read = dict(re.findall(r"^(\w+): +(\d+) kB$", Path("/proc/self/smaps_rollup").read_text(), re.MULTILINE))
        maps = Path("/proc/self/smaps").read_text()
        mapped = sum(int(size) for size in re.findall(r"/encoder/rows\.npy\nSize: .*\n.*\n.*\nRss: +(\d+) kB", maps))
        print(
            f"{int(read['Pss']) / 1024:.1f} MB proportional, {int(read['Anonymous']) / 1024:.1f} MB anonymous, "
            f"{mapped / 1024:.1f} MB of encoders mapped, {cpu_s:.2f} CPU-s"
        )


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))

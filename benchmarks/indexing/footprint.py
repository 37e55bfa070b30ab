"""CPU, time, memory and bytes of a first index as it grows, beside semble over the same folder in the same run.

semble is installed from PyPI into an environment of its own. It chunks and embeds into memory; references, modules,
the catalog, the checks and everything on disk are made here alone, so that equal cost is no aim. Its model has the
vectors of this project's encoder.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.corpus import CODEQUARRY, HOME, package_folder
from benchmarks.report import Figure, at_most, print_figures
from codequarry.pipelines.embed.encoders import SHIPPED

_SEMBLE = "semble==0.7.0"
_HOME = HOME / "footprint"
_SCRIPT = Path(__file__).with_name("semble_index.py")
_SMALL = ("fastmcp", "mcp", "starlette")
CORPORA = {
    "small": _SMALL,
    "large": (*_SMALL, "dagster", "hypothesis", "rich", "anyio", "sqlalchemy"),
}
"""Installed packages of each corpus."""
_TINY_FILES = 4


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of a process and its children."""

    cpu_s: float
    wall_s: float
    peak_mb: float
    """Resident memory of the largest of these processes."""
    output: str


def run() -> None:
    """Measure and print."""
    shutil.rmtree(_HOME, ignore_errors=True)
    _HOME.mkdir(parents=True)
    rival = _semble()
    for name, packages in CORPORA.items():
        folder = _corpus(name, packages)
        print_figures(f"First index, corpus {name}", list(_figures(folder, _HOME / f"index-{name}", rival)))
    print_figures("Four tiny files", list(_tiny()))


def _semble() -> tuple[Path, Path]:
    """Return the Python that has semble, and the folder of its model."""
    environment, model = _HOME / "semble", _HOME / "model"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", _SEMBLE], check=True)
    subprocess.run([python, _SCRIPT, model, _HOME, SHIPPED], check=True)
    return python, model


def _corpus(name: str, packages: Sequence[str]) -> Path:
    folder = _HOME / f"corpus-{name}"
    for package in packages:
        shutil.copytree(package_folder(package), folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def _figures(folder: Path, home: Path, rival: tuple[Path, Path]) -> Iterable[Figure]:
    """Index a folder by turns, each after the other, and compare."""
    theirs = _measured([rival[0], _SCRIPT, rival[1], folder])
    ours = _indexed(folder, home)
    again = _measured([rival[0], _SCRIPT, rival[1], folder])
    told = json.loads(theirs.output.splitlines()[-1])
    version = Path(ours.output.strip().splitlines()[-1])
    manifest = json.loads((version / "manifest.json").read_text())
    source = _source_bytes(version)
    yield Figure("chunks, indexed files", f"{manifest['counts']['chunks']:,}, {manifest['counts']['files']:,}")
    yield Figure("chunks, files of semble", f"{told['chunks']:,}, {told['files']:,}")
    yield Figure("bytes of the indexed files", f"{source / 1e6:.1f} MB")
    yield Figure("CPU", f"{ours.cpu_s:.1f} s")
    yield Figure("CPU of semble, two runs", f"{theirs.cpu_s:.1f}, {again.cpu_s:.1f} s")
    yield at_most("CPU / semble's", 2 * ours.cpu_s / (theirs.cpu_s + again.cpu_s), 2.0, "times")
    yield at_most("time / semble's", 2 * ours.wall_s / (theirs.wall_s + again.wall_s), 1.5, "times")
    yield at_most("memory of the largest process", ours.peak_mb, 400, "MB")
    yield Figure("memory of semble", f"{theirs.peak_mb:.0f} MB")
    yield at_most("version / source", _bytes(version) / source, 2.5, "times")
    yield at_most("version, work folder and store / source", _bytes(home) / source, 4, "times")


def _tiny() -> Iterable[Figure]:
    folder = _HOME / "corpus-tiny"
    folder.mkdir()
    for number in range(_TINY_FILES):
        folder.joinpath(f"part_{number}.py").write_text(f"def answer_{number}():\n    return {number}\n")
    version = Path(_indexed(folder, _HOME / "index-tiny").output.strip().splitlines()[-1])
    encoder = _bytes(version / "encoder")
    yield at_most("version without the encoder", (_bytes(version) - encoder) / 1e6, 1, "MB", 2)
    yield at_most("all without the encoder", (_bytes(_HOME / "index-tiny") - encoder) / 1e6, 1, "MB", 2)


def _indexed(folder: Path, home: Path) -> Cost:
    home.mkdir()
    paths = {
        "CODEQUARRY__PATHS__STORE": str(home / "store"),
        "CODEQUARRY__PATHS__WORK": str(home / "work"),
        "CODEQUARRY__BUNDLE__ROOT": str(home / "bundles"),
    }
    return _measured([*CODEQUARRY, "index", f"corpus={folder}"], cwd=home, environment=paths)


_MEASURE = """
import resource, subprocess, sys, time
started = time.perf_counter()
done = subprocess.run(sys.argv[1:], stdout=sys.stdout, stderr=subprocess.DEVNULL)
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(usage.ru_utime + usage.ru_stime, time.perf_counter() - started, usage.ru_maxrss / 1024, file=sys.stderr)
sys.exit(done.returncode)
"""


def _measured(
    command: Sequence[str | Path], cwd: Path | None = None, environment: dict[str, str] | None = None
) -> Cost:
    """Run a command in a process that starts nothing else, so that memory is the command's own."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, *map(str, command)],
        cwd=cwd, env={**inherited, **(environment or {})}, check=True, capture_output=True, text=True,
    )  # fmt: skip
    cpu_s, wall_s, peak_mb = map(float, done.stderr.split())
    return Cost(cpu_s, wall_s, peak_mb, done.stdout)


def _source_bytes(version: Path) -> int:
    import duckdb

    with duckdb.connect() as connection:
        files = str(version / "tables" / "files*.parquet")
        return connection.execute(f"SELECT sum(size_bytes) FROM '{files}' WHERE skip_reason = ''").fetchall()[0][0]


def _bytes(folder: Path) -> int:
    """Return the bytes of the files of a folder; several links to one file count once."""
    found = {
        (one.st_dev, one.st_ino): one.st_size for file in folder.rglob("*") if (one := file.lstat()) and file.is_file()
    }
    return sum(found.values())


if __name__ == "__main__":
    run()

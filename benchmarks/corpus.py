"""The benchmark corpora: packages of the environment, indexed once into bundles of about 5,000 and 20,000 chunks."""

from __future__ import annotations

import importlib.util
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HOME = Path(__file__).resolve().parents[1] / ".codequarry" / "bench"
PACKAGES = ("fastmcp", "mcp", "starlette")
LARGE = (*PACKAGES, "dagster", "hypothesis", "rich", "anyio")
CODEQUARRY = (sys.executable, "-m", "codequarry.pipelines.cli")


def package_folder(name: str) -> Path:
    """Folder of an installed package, without importing it."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise SystemExit(f"the benchmark corpus needs the package {name!r}; run `make install`")
    return Path(spec.origin).parent


def index(home: Path, *, packages: Sequence[str] = PACKAGES, fresh: bool = False) -> tuple[Path, float, str]:
    """Index the corpus. Returns (bundle root, CPU seconds of the run, its closing summary).

    fresh: forget vectors and bundles first.
    """
    if fresh:
        shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True, exist_ok=True)
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},  # as installed
        "CODEQUARRY__PATHS__STORE": str(home / "store"),
        "CODEQUARRY__PATHS__WORK": str(home / "work"),
    }
    before = children_cpu()
    sources = [f"{name}={package_folder(name)}" for name in packages]
    done = subprocess.run(
        [*CODEQUARRY, "index", *sources, "--verbose", "--root", str(home / "bundles")],
        cwd=home, env=environment, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return home / "bundles", children_cpu() - before, done.stderr


def children_cpu() -> float:
    """CPU seconds of the processes that were started and have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime

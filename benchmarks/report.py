"""One row per figure: what was measured, what is aimed at, and whether it was reached in this run."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from codequarry.pipelines.store.library_versions import library_version


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value; ``aim`` is "" where nothing was promised."""

    name: str
    value: str
    aim: str = ""
    reached: bool | None = None

    def row(self) -> str:
        """The figure as a row of a Markdown table."""
        verdict = {True: "yes", False: "NO", None: ""}[self.reached]
        return f"| {self.name} | {self.value} | {self.aim} | {verdict} |"


def at_most(name: str, value: float, limit: float, unit: str, digits: int = 1) -> Figure:
    """A figure that should not exceed a limit."""
    return Figure(name, f"{value:.{digits}f} {unit}", f"≤ {limit:g} {unit}", value <= limit)


def at_least(name: str, value: float, limit: float, unit: str, digits: int = 1) -> Figure:
    """A figure that should reach a limit."""
    return Figure(name, f"{value:.{digits}f} {unit}", f"≥ {limit:g} {unit}", value >= limit)


def print_figures(title: str, figures: Iterable[Figure]) -> None:
    """A titled Markdown table."""
    print(f"\n## {title}\n\n| figure | measured | aim | reached |\n|---|---|---|---|")
    for figure in figures:
        print(figure.row(), flush=True)


def machine() -> str:
    """The machine in general terms."""
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text() if cpuinfo.exists() else ""
    flags = [flag for flag in ("avx2", "avx512f", "avx512_vnni", "avx_vnni") if f" {flag}" in text]
    cores = text.count("processor\t") or 1
    return (
        f"{platform.system()} {platform.machine()}, {cores} cores ({', '.join(flags) or 'no vector flags known'}), "
        f"Python {platform.python_version()}, onnxruntime {library_version('onnxruntime')}, "
        f"faiss {library_version('faiss-cpu')}, duckdb {metadata.version('duckdb')}"
    )


def percentile(values: Sequence[float], share: float) -> float:
    """Nearest-rank percentile."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

"""Run all benchmarks, or those named."""

from __future__ import annotations

import importlib
import os
import sys

from benchmarks.report import machine

ALL = (
    "chunking",
    "syntax",
    "census",
    "reindex",
    "deltas",
    "branches",
    "served_fleet",
    "routed_fleet",
    "fleet_push",
    "fleet_plan",
    "encoder_copies",
    "question_search",
    "footprint",
    "engines",
    "serving",
    "service",
    "search",
    "code_search",
    "symbols",
    "flips",
    "opening",
    "watch",
    "embedding",
    "encoders",
    "late_interaction",
    "sparse",
    "coir",
    "agent",
    "confidence",
)


def main() -> None:
    """Print every table, the machine first."""
    names = sys.argv[1:] or list(ALL)
    if unknown := set(names) - set(ALL):
        raise SystemExit(f"unknown benchmark {', '.join(sorted(unknown))}; there are: {', '.join(ALL)}")
    print(f"machine: {machine()}")
    cores = os.sched_getaffinity(0)
    for name in names:
        importlib.import_module(f"benchmarks.{name}").run()
        os.sched_setaffinity(0, cores)  # some keep to one core


if __name__ == "__main__":
    main()

"""Run all benchmarks, or those named."""

from __future__ import annotations

import importlib
import os
import sys

from benchmarks.report import machine

ROOMS = {
    "indexing": ("chunking", "syntax", "census", "embedding", "reindex", "engines", "footprint"),
    "versions": ("deltas", "branches", "encoder_copies", "flips", "opening", "watch"),
    "fleets": ("served_fleet", "routed_fleet", "fleet_push", "fleet_plan"),
    "server": ("serving", "service", "search", "code_search"),
    "lookups": ("symbols",),
    "indexes": ("late_interaction", "sparse"),
    "quality": ("question_search", "encoders", "coir", "confidence"),
    "agents": ("agent",),
}
"""Benchmarks of `make bench` by the folder they are in, in order; one that lacks input names what it needs."""


def main() -> None:
    """Print every table, the machine first."""
    rooms = {name: room for room, names in ROOMS.items() for name in names}
    names = sys.argv[1:] or list(rooms)
    if unknown := set(names) - set(rooms):
        raise SystemExit(f"unknown benchmark {', '.join(sorted(unknown))}; there are: {', '.join(rooms)}")
    print(f"machine: {machine()}")
    cores = os.sched_getaffinity(0)
    for name in names:
        importlib.import_module(f"benchmarks.{rooms[name]}.{name}").run()
        os.sched_setaffinity(0, cores)  # some keep to one core


if __name__ == "__main__":
    main()

"""How fast files become chunks, in MB of source per CPU-second, and where the time goes.

    python benchmarks/chunking.py [package ...]

Without arguments it takes the largest of a few pure-Python packages that are installed. One thread; the stages and the
whole are measured one after the other in the same run, so their ratios hold on any machine.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import TypeVar

from codequarry.pipelines.chunking import chunk_source
from codequarry.pipelines.definitions import outline, parse
from codequarry.pipelines.grammars import grammar

Result = TypeVar("Result")

CANDIDATES = ("dagster", "sqlalchemy", "networkx", "django", "sympy", "fastmcp", "pydantic", "pip")


def sources_of(package: str) -> list[bytes]:
    """The Python files of an installed package; empty if it is not installed."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return []
    return [path.read_bytes() for path in sorted(Path(spec.origin).parent.rglob("*.py"))]


def timed(work: Callable[[], Result]) -> tuple[float, Result]:
    start = process_time()
    result = work()
    return process_time() - start, result


def report(package: str, files: list[bytes]) -> None:
    """Print one line per stage for one package."""
    python = grammar("python")
    megabytes = sum(map(len, files)) / 1e6
    parsing, trees = timed(lambda: [parse(python, data) for data in files])
    defining, outlines = timed(
        lambda: [outline(python, tree, data) for tree, data in zip(trees, files, strict=True) if tree]
    )
    whole, chunks = timed(lambda: [chunk_source(data, "python") for data in files])
    spans = sum(len(file.spans) for file in chunks)
    definitions = sum(len(found.definitions) for found in outlines)
    print(f"{package}: {len(files)} files, {megabytes:.1f} MB, {definitions} definitions, {spans} spans")
    for stage, seconds in (
        ("parse", parsing),
        ("definitions", defining),
        ("spans", whole - parsing - defining),
        ("whole", whole),
    ):
        print(f"  {stage:<12} {seconds:6.2f} CPU-s  {seconds / whole:6.1%}  {megabytes / max(seconds, 1e-9):8.1f} MB/s")


def main(arguments: list[str]) -> None:
    packages = {name: sources_of(name) for name in arguments or CANDIDATES}
    largest = sorted(packages, key=lambda name: -sum(map(len, packages[name])))
    for name in largest if arguments else largest[:3]:
        if packages[name]:
            report(name, packages[name])
        else:
            print(f"{name}: not installed")


if __name__ == "__main__":
    main(sys.argv[1:])

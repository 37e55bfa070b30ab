"""Chunks and definitions: MB of source per CPU-second on one thread, and where the time goes."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import TypeVar

from benchmarks.corpus import package_folder
from benchmarks.report import Figure, at_least, print_figures
from codequarry.pipelines.syntax.chunks.chunk import chunk_source
from codequarry.pipelines.syntax.definitions.definitions import outline
from codequarry.pipelines.syntax.grammars import grammar
from codequarry.pipelines.syntax.parsing import parse

PACKAGES = ("sqlalchemy", "dagster", "fastmcp")
_Result = TypeVar("_Result")


def run() -> None:
    """Measure and print."""
    figures = [figure for package in PACKAGES for figure in _figures(package)]
    print_figures("Chunking, one thread", figures)


def _figures(package: str) -> list[Figure]:
    files = [path.read_bytes() for path in sorted(package_folder(package).rglob("*.py"))]
    megabytes = sum(map(len, files)) / 1e6
    python = grammar("python")
    parsing, trees = _timed(lambda: [parse(python, data) for data in files])
    defining, _ = _timed(lambda: [outline(python, tree, data) for tree, data in zip(trees, files, strict=True) if tree])
    whole, chunks = _timed(lambda: [chunk_source(data, "python") for data in files])
    spans = sum(len(file.spans) for file in chunks)
    shares = (100 * parsing / whole, 100 * defining / whole, 100 * (whole - parsing - defining) / whole)
    return [
        at_least(
            f"{package}: {len(files)} files, {megabytes:.1f} MB, {spans:,} chunks", megabytes / whole, 2, "MB/CPU-s"
        ),
        Figure(f"{package}: parse / definitions / spans", " / ".join(f"{share:.0f}" for share in shares) + " %"),
    ]


def _timed(work: Callable[[], _Result]) -> tuple[float, _Result]:
    started = process_time()
    result = work()
    return process_time() - started, result


if __name__ == "__main__":
    run()

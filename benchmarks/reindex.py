"""CPU of indexing the corpus from nothing, and again without a change."""

from __future__ import annotations

from benchmarks.corpus import HOME, index
from benchmarks.report import Figure, at_most, print_figures


def run() -> None:
    """Measure and print."""
    _, first, summary = index(HOME / "reindex", fresh=True)
    _, second, again = index(HOME / "reindex")
    assert "unchanged" in again
    figures = [
        Figure("first index", f"{first:.1f} CPU-s"),
        Figure("second index, nothing changed", f"{second:.2f} CPU-s"),
        at_most("second / first", 100 * second / first, 10, "%"),
    ]
    print_figures("Reindexing", figures)
    print("\n```\n" + "\n".join(line for line in summary.splitlines() if "━" not in line) + "\n```")


if __name__ == "__main__":
    run()

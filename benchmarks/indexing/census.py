"""Census of 10,000 files in a git repository: wall-clock seconds, and the ratio to git's own look at the tree."""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.report import Figure, at_most, print_figures
from codequarry.pipelines.sources.census import take_census
from codequarry.pipelines.sources.sources import list_source
from codequarry.schemas.settings.load import RepositorySettings, SourcesSettings

FILES = 10_000


def run() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        repository = Path(folder)
        _write(repository)
        started = time.perf_counter()
        subprocess.run(["git", "status", "--porcelain"], cwd=repository, check=True, capture_output=True)
        status = time.perf_counter() - started
        seconds = []
        for _ in range(3):
            started = time.perf_counter()
            source = list_source(RepositorySettings(path=repository, name="bench"))
            indexed = sum(entry.skip_reason is None for entry in take_census(source, SourcesSettings()))
            seconds.append(time.perf_counter() - started)
        assert indexed == FILES
    figures = [
        at_most(f"census of {FILES:,} files (median of 3)", sorted(seconds)[1], 3, "s", 2),
        Figure("ratio to `git status` on the same tree", f"{sorted(seconds)[1] / status:.1f}"),
    ]
    print_figures("Census", figures)


def _write(repository: Path) -> None:
    body = "".join(f"def function_{n}(value):\n    return value + {n}\n\n" for n in range(100))
    for n in range(FILES):
        folder = repository / f"package_{n // 100:03}"
        folder.mkdir(exist_ok=True)
        (folder / f"module_{n:05}.py").write_text(f"# module {n}\n{body}")
    for arguments in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=b", "-c", "user.email=b@b.invalid", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", *arguments], cwd=repository, check=True, capture_output=True)


if __name__ == "__main__":
    run()

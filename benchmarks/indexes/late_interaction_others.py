"""The libraries for late interaction that bring a torch of their own, on the same vectors, in the same run.

``xtr-warp-rs`` and ``fast-plaid`` need a torch that does not live beside ours. Where `VENV` names the Python of an
environment that has them, they build and search there::

    python3 -m venv other && other/bin/pip install xtr-warp-rs fast-plaid
    CODEQUARRY_BENCH_PYTHON=other/bin/python python -m benchmarks.indexes.late_interaction others
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.corpus import HOME
from benchmarks.indexes.late_interaction_corpus import TokenCorpus
from benchmarks.report import Figure, percentile
from codequarry.pipelines.indexes.array_files import write_array

VENV = "CODEQUARRY_BENCH_PYTHON"
_SCRIPT = Path(__file__).with_name("late_interaction_foreign.py")
Way = tuple[str, float, float, float]
"""The query, CPU milliseconds (p50), R@10, R@100."""


def compare(
    corpus: TokenCorpus,
    recall: Callable[[list[np.ndarray], int], float],
    ours: list[Way],
    our_build: float,
    our_size: float,
) -> list[Figure]:
    """Figures of the other libraries, and ours by theirs at no less recall.

    recall: of the answers to the corpus' queries, at a depth. ours: what of ours was measured in this run.
    our_build: CPU seconds. our_size: bytes a token.
    """
    python = os.environ.get(VENV)
    if not python or not Path(python).is_file():
        return [Figure("xtr-warp-rs, fast-plaid", f"not measured: {VENV} names no Python of an environment with them")]
    tokens = int(corpus.offsets[-1])
    figures = [Figure("ours: build, bytes a token", f"{our_build:.1f} CPU s, {our_size:.0f} B")]
    figures += [_figure("ours", way) for way in ours]
    for name, told in _measured(python, corpus).items():
        if "failed" in told:
            figures.append(Figure(name, f"{told.get('version', '')} failed: {told['failed']}"))
            continue
        built = told["build_cpu_s"]
        figures.append(
            Figure(
                f"{name} {told['version']}: build, bytes a token",
                f"{built:.1f} CPU s, {told['bytes'] / tokens:.0f} B; ours takes 1/{built / our_build:.1f}",
            )
        )
        for what, measured in told["ways"].items():
            found = [np.array(one) for one in measured["found"]]
            way = (what, percentile(measured["ms"], 0.5), recall(found, 10), recall(found, 100))
            figures.append(_figure(name, way, ours))
    return figures


def _figure(name: str, way: Way, ours: list[Way] | None = None) -> Figure:
    what, spent, ten, hundred = way
    said = f"{spent:.1f} ms, R@10 {ten:.3f}, R@100 {hundred:.3f}"
    equal = [one for one in ours or () if one[2] >= ten]
    if equal:
        best = min(equal, key=lambda one: one[1])
        said += f"; {spent / best[1]:.1f} x ours ({best[0]}, R@10 {best[2]:.3f})"
    return Figure(f"{name}: {what}", said)


def _measured(python: str, corpus: TokenCorpus) -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp(prefix="warp-others-", dir=HOME))
    try:
        write_array(folder / "vectors.npy", np.asarray(corpus.vectors))
        write_array(folder / "offsets.npy", np.asarray(corpus.offsets, np.int64))
        np.savez(folder / "queries.npz", *corpus.queries)
        subprocess.run(
            [python, str(_SCRIPT), str(folder)],
            check=True, env={**os.environ, "OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"},
        )  # fmt: skip
        return json.loads((folder / "foreign.json").read_text())
    finally:
        shutil.rmtree(folder)

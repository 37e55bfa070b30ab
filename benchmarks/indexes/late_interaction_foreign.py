"""Run by the Python of another environment (see `late_interaction_others`): builds and searches with what is there.

``python late_interaction_foreign.py FOLDER``: reads vectors.npy (N, d) float16, offsets.npy and queries.npz from the
folder, writes foreign.json into it. Uses nothing of this project, whose libraries that environment lacks.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

_DEEP = 100
XTR_PROBES = (8, 16, 32, 64)
XTR_TARGETS = (2.5, 8.0)
"""t' by what is probed: t' = factor * nprobe * N / C."""


def main(folder: Path) -> None:
    """Measure each library, one after the other; one that fails says how."""
    import torch  # pyright: ignore[reportMissingImports]

    torch.set_num_threads(1)
    vectors, offsets = np.load(folder / "vectors.npy", mmap_mode="r"), np.load(folder / "offsets.npy")
    documents = [
        torch.from_numpy(np.asarray(vectors[low:high], np.float32)).contiguous()
        for low, high in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
    ]
    with np.load(folder / "queries.npz") as held:
        queries = [torch.from_numpy(held[name])[None] for name in held.files]
    measured: dict[str, Any] = {}
    for name, measure in (("xtr-warp-rs", _xtr), ("fast-plaid", _plaid)):
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            measured[name] = {"failed": "not installed there"}
            continue
        own = folder / name
        own.mkdir()
        try:
            measured[name] = {"version": version, **measure(own, documents, queries)}
        except Exception as error:  # noqa: BLE001 - whatever a library raises is what there is to report
            measured[name] = {"version": version, "failed": f"{type(error).__name__}: {error}"}
        (folder / "foreign.json").write_text(json.dumps(measured))


def _xtr(folder: Path, documents: list[Any], queries: list[Any]) -> dict[str, Any]:
    from xtr_warp import XTRWarp  # pyright: ignore[reportMissingImports]

    started = time.process_time()
    index = XTRWarp(str(folder))
    index.create(documents, device="cpu", show_progress=False)
    built = time.process_time() - started
    index.load("cpu")
    told = json.loads((folder / "metadata.json").read_text())
    tokens, clusters = told["num_embeddings"], told["num_partitions"]
    ways: dict[str, dict[str, Any]] = {"defaults": {}}
    for probes in XTR_PROBES:
        for factor in XTR_TARGETS:
            target = int(factor * probes * tokens / clusters)
            ways[f"nprobe {probes}, t' {target:,}"] = {
                "nprobe": probes, "t_prime": target, "bound": max(128, 8 * probes), "centroid_score_threshold": 0.0,
                "max_candidates": len(documents),
            }  # fmt: skip

    def asks(options: dict[str, Any]) -> Callable[[Any], list[int]]:
        return lambda query: [
            one for one, _ in index.search(query, top_k=_DEEP, num_threads=1, show_progress=False, **options)[0]
        ]

    return _searched(folder, built, {way: asks(options) for way, options in ways.items()}, queries)


def _plaid(folder: Path, documents: list[Any], queries: list[Any]) -> dict[str, Any]:
    from fast_plaid.search import FastPlaid  # pyright: ignore[reportMissingImports]

    started = time.process_time()
    index = FastPlaid(index=str(folder), device="cpu")
    index.create(documents_embeddings=documents)
    built = time.process_time() - started

    def ask(query: Any) -> list[int]:
        return [one for one, _ in index.search(query, top_k=_DEEP, show_progress=False, n_processes=1)[0]]

    return _searched(folder, built, {"defaults": ask}, queries)


def _searched(
    folder: Path, built: float, ways: dict[str, Callable[[Any], list[int]]], queries: list[Any]
) -> dict[str, Any]:
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    told: dict[str, Any] = {"build_cpu_s": built, "bytes": size, "ways": {}}
    for way, ask in ways.items():
        for query in queries[:3]:
            ask(query)
        found: list[list[int]] = []
        times: list[float] = []
        for query in queries:
            started = time.process_time()
            found.append(ask(query))
            times.append(1000 * (time.process_time() - started))
        told["ways"][way] = {"found": found, "ms": times}
    return told


if __name__ == "__main__":
    main(Path(sys.argv[1]))

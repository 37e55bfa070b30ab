"""Dense indexes of a published version's vectors, measured on this machine: recall, comparisons, time and size."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import faiss
import numpy as np
from numpy.typing import NDArray

from codequarry.pipelines.indexes.faiss import builds_on_gpu, faiss_factory
from codequarry.pipelines.indexes.faiss_stage import encoded, mapped, questions, write_trained
from codequarry.pipelines.indexes.faiss_sweep import pool, set_parameters, tune
from codequarry.pipelines.store.workspace import Progress, silent
from codequarry.schemas.bundle.faiss_tuning import DEPTH, FaissTuning
from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot
from codequarry.schemas.bundle.tables import read_table
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.settings.load import Settings
from codequarry.serving.channels.vector_table import VectorTable
from codequarry.serving.encoders.spec import open_encoder
from codequarry.serving.files.integrity import read_manifest

logger = logging.getLogger(__name__)
_WARM_UP = 32
PUBLISHED = "published"


@dataclass(frozen=True, slots=True)
class MeasuredIndex:
    """Figures of one index."""

    name: str
    """`PUBLISHED`, or the factory string it was asked for by."""
    tuning: FaissTuning
    milliseconds: dict[str, float]
    """Median time of a query on one core, the exact comparison included, by the parameters of each frontier point."""
    size_bytes: int
    build_s: float
    """CPU seconds of training and filling; 0 for the published one."""

    @property
    def reaches(self) -> bool:
        """True when its chosen point has the recall that was asked for."""
        return self.tuning.chosen.recall >= self.tuning.floor

    @property
    def chosen_ms(self) -> float:
        """Milliseconds of a query at the chosen point."""
        return self.milliseconds[self.tuning.chosen.parameters]


def tune_faiss(
    settings: Settings, channel: str, factories: Sequence[str], floor: float, progress: Progress = silent
) -> list[MeasuredIndex]:
    """Measure a dense index of the current version, and others of the same vectors.

    Args:
        settings: Settings of the bundle root and the indexes.
        channel: One of `DENSE_LEGS`.
        factories: FAISS factory strings, or ``auto``.
        floor: recall@10 to reach.
        progress: Told of the indexes measured.

    Returns:
        The published index first, then the others.

    Raises:
        NoBundleError: Nothing is published.
        InvalidArgumentError: The version has no such dense index, or FAISS does not accept a factory string for its
            data.
    """
    root = BundleRoot(settings.bundle.root)
    current = root.read_current()
    paths = root.version(current.version)
    manifest = read_manifest(paths, expected_sha256=current.manifest_sha256)
    if manifest.stack is not None:
        raise InvalidArgumentError(
            f"{manifest.version} is a delta version, whose dense index holds the changed files alone",
            suggestion="build a complete version with `codequarry index --full`, and measure that",
        )
    leg = next((leg for leg in manifest.legs if leg.channel == channel), None)
    if leg is None:
        found = ", ".join(leg.channel for leg in manifest.legs)
        raise InvalidArgumentError(
            f"--channel: found {channel}, the version has {found}", suggestion="name one of these, or index with a tier"
        )
    paths = paths.leg(channel)
    chunk_ids = read_table(paths.faiss_idmap, ["chunk_id"])["chunk_id"].to_numpy()
    vectors = VectorTable.open(paths, manifest, leg.encoder.dim)
    queries = encoded(questions(paths, settings.indexes.faiss_queries), open_encoder(paths.encoder))
    progress("measuring", 0, 1 + len(factories))
    own = mapped(paths, vectors if leg.faiss.exact else None)
    measured = [_measure_index(PUBLISHED, paths, own, vectors, queries, leg.faiss.factory, floor, 0.0)]
    for done, name in enumerate(factories, start=1):
        progress("measuring", done, 1 + len(factories))
        with tempfile.TemporaryDirectory(prefix="codequarry-faiss-") as folder:
            asked = settings.indexes.model_copy(update={"faiss_factory": name})
            factory = faiss_factory(len(vectors), vectors.shape[1], asked, gpu=builds_on_gpu(asked))
            beside = BundlePaths(Path(folder), channel)
            started = time.process_time()
            use = write_trained(beside, chunk_ids, vectors, factory, asked)
            if use.fell_back:
                logger.warning(use.sentence())
            spent = time.process_time() - started
            found = _measure_index(name, beside, mapped(beside), vectors, queries, factory, floor, spent)
            measured.append(found)
    progress("measuring", 1 + len(factories), 1 + len(factories))
    return measured


def milliseconds(
    indexes: Sequence[faiss.Index],
    vectors: NDArray[np.float32] | VectorTable,
    queries: NDArray[np.float32],
    tuning: FaissTuning,
) -> dict[str, float]:
    """Return the median time of a query on one core at each point of the frontier.

    Queries run one after another, and are warmed up first. Parameters are those of `faiss_sweep.tune`; the indexes are
    left at the chosen point.
    """
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    found: dict[str, float] = {}
    try:
        for point in tuning.frontier:
            set_parameters(indexes, point.parameters)
            for query in queries[:_WARM_UP]:
                _search(indexes, vectors, query)
            found[point.parameters] = float(np.median([_timed(indexes, vectors, query) for query in queries]))
        set_parameters(indexes, tuning.chosen.parameters)
    finally:
        faiss.omp_set_num_threads(threads)
    return found


def _measure_index(
    name: str,
    paths: BundlePaths,
    indexes: Sequence[faiss.Index],
    vectors: VectorTable,
    queries: NDArray[np.float32],
    factory: str,
    floor: float,
    build_s: float,
) -> MeasuredIndex:
    tuning = tune(indexes, vectors, queries, factory, floor)
    size = sum(file.stat().st_size for file in paths.faiss_indexes())
    return MeasuredIndex(name, tuning, milliseconds(indexes, vectors, queries, tuning), size, build_s)


def _timed(
    indexes: Sequence[faiss.Index], vectors: NDArray[np.float32] | VectorTable, query: NDArray[np.float32]
) -> float:
    started = time.perf_counter()
    _search(indexes, vectors, query)
    return 1000 * (time.perf_counter() - started)


def _search(
    indexes: Sequence[faiss.Index], vectors: NDArray[np.float32] | VectorTable, query: NDArray[np.float32]
) -> None:
    """Search as the channel does: a pool, compared exactly."""
    rows = pool(indexes, query[None, :])[0]
    scores = vectors[rows[rows >= 0]] @ query
    np.argsort(-scores)[:DEPTH]

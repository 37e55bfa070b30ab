"""The dense index: FAISS behind IndexIDMap2, so that the ids it returns are chunk ids."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.layout import BundlePaths
from codequarry.schemas.manifest import FaissEntry
from codequarry.schemas.tables import FAISS_IDMAP, write_table

_TRAINING_VECTORS = 200_000
_SEED = 20_260_728


def build_faiss(
    paths: BundlePaths, chunk_ids: NDArray[np.int64], vectors: NDArray[np.float32], factory: str
) -> FaissEntry:
    """Write ``faiss.index`` and its id map; for an approximate index also the vectors, for exact rerank.

    chunk_ids: (n,) int64, ascending. vectors: (n, d) float32, unit norm; similarity is their inner product.

    One thread builds and trains, with a fixed seed and sample: the same vectors give the same bytes.

    Raises InvalidArgumentError: FAISS does not accept the factory string for this data.
    """
    import faiss

    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        base = faiss.index_factory(vectors.shape[1], factory, faiss.METRIC_INNER_PRODUCT)
        if not base.is_trained:
            sample = np.random.default_rng(_SEED).permutation(len(vectors))[:_TRAINING_VECTORS]
            base.train(vectors[np.sort(sample)])
        index = faiss.IndexIDMap2(base)
        index.add_with_ids(vectors, chunk_ids)
        faiss.write_index(index, str(paths.faiss_index))
    except RuntimeError as error:
        reason = str(error).splitlines()[-1][:200]
        raise InvalidArgumentError(
            f"[indexes] faiss_factory = {factory!r} cannot index {len(vectors)} vectors of {vectors.shape[1]} "
            f"dimensions: {reason}",
            suggestion="use 'Flat' (exact), or a factory string that fits the data, e.g. 'HNSW32,SQ8'",
        ) from error
    finally:
        faiss.omp_set_num_threads(threads)
    write_idmap(paths.faiss_idmap, chunk_ids)
    exact = isinstance(faiss.downcast_index(base), faiss.IndexFlat)
    if not exact:
        np.save(paths.vectors, vectors, allow_pickle=False)
    return FaissEntry(factory=factory, exact=exact)


def write_idmap(path: Path, chunk_ids: NDArray[np.int64]) -> None:
    """The sidecar ``(faiss_row, chunk_id)``."""
    rows = pa.array(np.arange(len(chunk_ids)), pa.int64())
    write_table(path, pa.table([rows, pa.array(chunk_ids, pa.int64())], schema=FAISS_IDMAP), FAISS_IDMAP)

"""Building a late-interaction index from the codes of documents: one pass in, bounded memory, the same bytes each time.

The codes go to disk first, document by document; everything else reads them back in blocks. Postings are written in
passes over the clusters, each pass as many as fit into memory, so that every file is written from front to back.

The residual codec has uniform levels, whose range is found by search for each dimension. Quantile buckets, as published
for PLAID and WARP, put most levels where most residuals are. The few large residuals decide which token is the best,
and end up far from any level. Uneven levels also rule integer arithmetic out.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from codequarry.pipelines.indexes.array_files import ArrayWriter, write_array
from codequarry.pipelines.indexes.warp.clusters import Clusters, cluster_count, sample_size, train
from codequarry.pipelines.store.workspace import Progress, silent
from codequarry.schemas.bundle.warp import Profile, WarpSpec, cluster_dtype
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.serving.channels.warp.index import pack
from codequarry.serving.files.arrays import map_array

_BLOCK = 1 << 15
"""Tokens worked on at once: some 50 MB."""
_FIT = 1 << 15
"""Residuals that the codec is fitted to."""
_SEED = 20_261_122
_RANGES = np.arange(0.8, 4.05, 0.1)
"""Half ranges tried, in standard deviations of a dimension."""


@dataclass(frozen=True, slots=True)
class WarpPlan:
    """Parameters of an index besides its documents."""

    scales: NDArray[np.float32]
    """Scales of the token encoder, (d,)."""
    encoder: str
    """Fingerprint of the token encoder."""
    punctuation: bool = False
    profile: Profile = "standard"
    bits: int = 4
    """Bits of each dimension of a residual: 2 or 4."""
    memory_mb: int = 1024
    """MiB for the sample and for a pass over the postings."""
    seed: int = _SEED


def build_index(
    folder: Path, documents: Iterable[tuple[int, NDArray[np.int8]]], plan: WarpPlan, progress: Progress = silent
) -> WarpSpec:
    """Write an index into an empty folder.

    The folder also gets a scratch folder, which is gone at the end.

    Args:
        folder: The folder.
        documents: (chunk id, codes (t, d) int8 with t >= 1) with ascending ids; read once.
        plan: Parameters of the index.
        progress: Told of the tokens done.

    Returns:
        Sizes of the index.

    Raises:
        InvalidArgumentError: Ids do not ascend, or a document has no token or another dimension.
    """
    with tempfile.TemporaryDirectory(dir=folder, prefix="scratch-") as scratch:
        keep = folder if plan.profile == "standard" else Path(scratch)
        sizes = _write_codes(folder, keep / "doc_codes.npy", documents, plan)
        codes = map_array(keep / "doc_codes.npy")
        tokens = _Tokens(codes, sizes, plan)
        clusters, levels = tokens.trained(cluster_count(len(codes)))
        write_array(folder / "centroids.npy", clusters.centroids)
        write_array(folder / "levels.npy", levels)
        own_file = (Path(scratch) if plan.profile == "standard" else folder) / "doc_centroids.npy"
        held = _assign(tokens, clusters, levels, own_file, folder, progress)
        own = map_array(own_file)
        postings = _write_postings(folder, tokens, clusters, levels, own, held, progress)
        # Mapped files must be let go before the scratch folder is.
        del own, codes, tokens
    tokens_in_all = int(sizes.sum())
    spec = WarpSpec.model_validate(
        {
            "profile": plan.profile, "dim": len(plan.scales), "bits": plan.bits, "documents": len(sizes),
            "tokens": tokens_in_all, "centroids": len(clusters.centroids), "postings": postings,
            "encoder": plan.encoder, "punctuation": plan.punctuation,
        }
    )  # fmt: skip
    spec.save(folder)
    return spec


def _write_codes(
    folder: Path, file: Path, documents: Iterable[tuple[int, NDArray[np.int8]]], plan: WarpPlan
) -> NDArray[np.int64]:
    """Write the codes, ids and offsets of the documents, and return their lengths."""
    dim = len(plan.scales)
    ids: list[int] = []
    sizes: list[int] = []
    with ArrayWriter(file, np.dtype("i1"), (dim,)) as writer:
        for chunk_id, codes in documents:
            if codes.dtype != np.int8 or codes.ndim != 2 or codes.shape[1] != dim or not len(codes):
                raise InvalidArgumentError(
                    f"chunk {chunk_id} has codes of {codes.shape} {codes.dtype}, expected (1 or more, {dim}) int8",
                    suggestion="encode the chunk again",
                )
            if ids and chunk_id <= ids[-1]:
                raise InvalidArgumentError(
                    f"chunk {chunk_id} comes behind {ids[-1]}, expected ascending ids", suggestion="sort the chunks"
                )
            ids.append(chunk_id)
            sizes.append(len(codes))
            writer.write(codes)
    lengths = np.array(sizes, np.int64)
    write_array(folder / "chunk_ids.npy", np.array(ids, np.dtype("<i8")))
    write_array(folder / "doc_offsets.npy", np.concatenate([[0], np.cumsum(lengths)]).astype("<i8"))
    return lengths


class _Tokens:
    """All tokens on disk, read in blocks."""

    def __init__(self, codes: np.ndarray, sizes: NDArray[np.int64], plan: WarpPlan) -> None:
        self.codes = codes
        self.plan = plan
        self._ends = np.cumsum(sizes)

    def blocks(self) -> Iterator[tuple[int, NDArray[np.int8]]]:
        """Yield (first token, codes) of each block."""
        for start in range(0, len(self.codes), _BLOCK):
            yield start, np.asarray(self.codes[start : start + _BLOCK])

    def documents(self, tokens: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the document of each token."""
        return np.searchsorted(self._ends, tokens, side="right").astype(np.int32)

    def trained(self, count: int) -> tuple[Clusters, NDArray[np.float32]]:
        """Train clusters and the levels of the residuals on samples."""
        plan, dim = self.plan, len(self.plan.scales)
        if not count:
            nothing = np.empty((0, dim), np.float32)
            empty = Clusters(np.empty((0, dim), np.int8), plan.scales, nothing, np.zeros(1, np.int64))
            return empty, fit_levels(np.empty((0, dim), np.int16), plan.bits)
        sample = self.codes[self._sample(sample_size(len(self.codes), plan.memory_mb << 20, dim), plan.seed)]
        count = min(count, len(sample))
        clusters = train(sample, plan.scales, count, plan.seed)
        fitted = self.codes[self._sample(min(len(self.codes), _FIT), plan.seed + 1)]
        return clusters, fit_levels(residuals_of(fitted, clusters.centroids[clusters.assign(fitted)]), plan.bits)

    def _sample(self, count: int, seed: int) -> NDArray[np.int64]:
        """Return one token of each of that many equal parts, ascending."""
        places = np.random.default_rng(seed).random(count)
        return np.minimum(
            ((np.arange(count) + places) * (len(self.codes) / count)).astype(np.int64), len(self.codes) - 1
        )


def residuals_of(codes: NDArray[np.int8], centres: NDArray[np.int8]) -> NDArray[np.int16]:
    """Return codes minus their centres, (m, d) int16."""
    return codes.astype(np.int16) - centres


def _packed(
    codes: NDArray[np.int8], own: NDArray[np.integer], clusters: Clusters, levels: NDArray[np.float32], bits: int
) -> NDArray[np.uint8]:
    return pack(levels_of(residuals_of(codes, clusters.centroids[own]), levels, bits), bits)


def _assign(
    tokens: _Tokens, clusters: Clusters, levels: NDArray[np.float32], file: Path, folder: Path, progress: Progress
) -> NDArray[np.int64]:
    """Write the cluster of each token, and in the compact profile its residual; return the tokens by cluster."""
    plan = tokens.plan
    held = np.zeros(len(clusters.centroids), np.int64)
    packed = len(plan.scales) * plan.bits // 8
    with ExitStack() as stack:
        writer = stack.enter_context(ArrayWriter(file, cluster_dtype(len(clusters.centroids))))
        residuals = None
        if plan.profile == "compact":
            residuals = stack.enter_context(ArrayWriter(folder / "doc_residuals.npy", np.dtype("u1"), (packed,)))
        for start, codes in tokens.blocks():
            own = clusters.assign(codes)
            held += np.bincount(own, minlength=len(held))
            writer.write(own)
            if residuals is not None:
                residuals.write(_packed(codes, own, clusters, levels, plan.bits))
            progress("warp: assigning tokens", start + len(codes), len(tokens.codes))
    return held


def _write_postings(
    folder: Path,
    tokens: _Tokens,
    clusters: Clusters,
    levels: NDArray[np.float32],
    own: np.ndarray,
    held: NDArray[np.int64],
    progress: Progress,
) -> int:
    """Write offsets, pids and, in the standard profile, residuals; return the number of postings."""
    plan = tokens.plan
    packed = len(plan.scales) * plan.bits // 8
    kept = np.zeros(len(held), np.int64)
    with ExitStack() as stack:
        pids = stack.enter_context(ArrayWriter(folder / "pids.npy", np.dtype("<i4")))
        residuals = None
        if plan.profile == "standard":
            residuals = stack.enter_context(ArrayWriter(folder / "residuals.npy", np.dtype("u1"), (packed,)))
        for low, high in _passes(held, max(1, (plan.memory_mb << 20) // (packed + len(plan.scales) + 24))):
            chosen = _tokens_of(own, low, high)
            clustered = np.asarray(own[chosen]).astype(np.int64)
            order = np.argsort(clustered, kind="stable")
            chosen, clustered = chosen[order], clustered[order]
            documents = tokens.documents(chosen)
            if residuals is not None:
                for start in range(0, len(chosen), _BLOCK):
                    part = slice(start, start + _BLOCK)
                    codes = tokens.codes[chosen[part]]
                    residuals.write(_packed(codes, clustered[part], clusters, levels, plan.bits))
            else:
                first = np.ones(len(documents), np.bool_)
                first[1:] = (documents[1:] != documents[:-1]) | (clustered[1:] != clustered[:-1])
                documents, clustered = documents[first], clustered[first]
            pids.write(documents)
            kept += np.bincount(clustered, minlength=len(held))
            progress("warp: writing postings", int(held[:high].sum()), int(held.sum()))
    write_array(folder / "offsets.npy", np.concatenate([[0], np.cumsum(kept)]).astype("<i8"))
    return int(kept.sum())


def _passes(held: NDArray[np.int64], most: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of clusters with at most that many tokens together, or a single cluster."""
    low = 0
    ends = np.cumsum(held)
    while low < len(held):
        before = int(ends[low - 1]) if low else 0
        high = max(low + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield low, high
        low = high


def _tokens_of(own: np.ndarray, low: int, high: int) -> NDArray[np.int64]:
    """Return the tokens in a range of clusters, ascending.

    Args:
        own: Cluster of each token, (N,), mapped.
        low: First cluster of the range.
        high: End of the range, exclusive.

    Returns:
        Numbers of the tokens.
    """
    step = 1 << 22
    parts = [
        start + np.flatnonzero((own[start : start + step] >= low) & (own[start : start + step] < high))
        for start in range(0, len(own), step)
    ]
    return np.concatenate([np.empty(0, np.int64), *parts])


def fit_levels(residuals: NDArray[np.int16], bits: int) -> NDArray[np.float32]:
    """Fit lowest level and step of each dimension to a sample, with the least squared error.

    Args:
        residuals: (m, d) int16, code minus centre.
        bits: Bits of a residual; there are 2^bits levels.

    Returns:
        Lowest levels and steps, (2, d) float32.
    """
    values = residuals.astype(np.float32)
    dim = values.shape[1]
    if not len(values):
        return np.stack([np.zeros(dim, np.float32), np.ones(dim, np.float32)])
    middle, spread = values.mean(axis=0, dtype=np.float64), values.std(axis=0, dtype=np.float64)
    top = (1 << bits) - 1
    best = np.full(dim, np.inf)
    levels = np.stack([middle, np.ones(dim)])
    for half_range in _RANGES:
        step = np.where(spread > 0, 2 * half_range * spread / top, 1.0)
        low = np.where(spread > 0, middle - half_range * spread, middle)
        error = _error(values, low, step, top)
        better = error < best
        best = np.where(better, error, best)
        levels = np.where(better, np.stack([low, step]), levels)
    return levels.astype(np.float32)


def levels_of(residuals: NDArray[np.int16], levels: NDArray[np.float32], bits: int) -> NDArray[np.uint8]:
    """Return the nearest level of each residual, (m, d) uint8 in [0, 2^bits)."""
    nearest = np.rint((residuals - levels[0]) / levels[1])
    return np.clip(nearest, 0, (1 << bits) - 1).astype(np.uint8)


def _error(values: NDArray[np.float32], low: np.ndarray, step: np.ndarray, top: int) -> np.ndarray:
    low, step = low.astype(np.float32), step.astype(np.float32)
    shown = low + step * np.clip(np.rint((values - low) / step), 0, top)
    return np.square(values - shown).mean(axis=0, dtype=np.float64)

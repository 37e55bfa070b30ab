"""Integer form of a query for late interaction, and its similarities with tokens in NumPy.

NumPy is for a reader without numba: its results are those of the compiled kernels bit for bit, about ten times slower.
Products of codes and query steps are integers below 2^24, so a float32 matrix product is exact in whatever order it
adds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codequarry.schemas.bundle.warp import MAX_QUERY_TOKENS
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.serving.channels.warp.index import unpack

QUERY_MAX = 1023
"""Steps of a query's components to either side: 127 * 1023 * 128 dimensions < 2^24, which float32 holds exactly."""
LANES = 16
"""Query tokens are padded to one or two blocks of this many."""
_BLOCK = 8192
"""Tokens multiplied at once: 4 MB as float32."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Query vectors in steps: ``vectors = values * step``, row by row."""

    values: NDArray[np.int16]
    """(t, d)."""
    step: NDArray[np.float32]
    """(t,), positive."""
    lanes: NDArray[np.int16]
    """(d / 2, blocks, 32): two neighbouring dimensions of each of 16 query tokens."""

    @property
    def padded(self) -> int:
        """Number of query tokens including those that pad the last block."""
        return self.lanes.shape[1] * LANES


@dataclass(frozen=True, slots=True)
class QueryVectors:
    """Vectors of a query, ready for the kernels."""

    codes: Steps
    """For codes and centroids."""
    levels: Steps
    """For packed residuals."""
    bias: NDArray[np.float32]
    """(t,): what level 0 of every dimension gives."""

    @property
    def tokens(self) -> int:
        return len(self.bias)

    def products(self, codes: NDArray[np.int8]) -> NDArray[np.float32]:
        """Compute dot products of (m, d) codes with the query's tokens: (m, t) float32 integers."""
        asked = self.codes.values.astype(np.float32).T
        blocks = range(0, len(codes), _BLOCK)
        return np.concatenate([codes[at : at + _BLOCK].astype(np.float32) @ asked for at in blocks])

    def token_scores(self, codes: NDArray[np.int8]) -> NDArray[np.float32]:
        """Compute similarities of (m, d) codes with the query's tokens: (m, t) float32."""
        return self.products(codes) * self.codes.step

    def packed_scores(
        self, residuals: NDArray[np.uint8], clusters: NDArray[np.integer], base: NDArray[np.float32], bits: int
    ) -> NDArray[np.float32]:
        """Compute similarities like `token_scores`, from packed residuals.

        Args:
            residuals: (m, d * bits / 8) uint8.
            clusters: (m,): cluster of each token.
            base: (C, t) float32: scores of the clusters.
            bits: Bits for each level.

        Returns:
            (m, t) float32.
        """
        asked = self.levels.values.astype(np.float32).T
        sums = unpack(residuals, bits).astype(np.float32) @ asked
        known = (clusters >= 0) & (clusters < len(base))
        scores = (base[np.where(known, clusters, 0)] + self.bias) + self.levels.step * sums
        return np.where(known[:, None], scores, np.float32(-np.inf))


def prepare(vectors: NDArray[np.float32], scales: NDArray[np.float32], levels: NDArray[np.float32]) -> QueryVectors:
    """Prepare a query for an index.

    Args:
        vectors: (t, d) float32, 1 <= t <= 32.
        scales: (d,) float32 of the token encoder.
        levels: (2, d) of the index.

    Returns:
        The prepared query.

    Raises:
        InvalidArgumentError: The vectors have another shape, or hold NaN or infinity.
    """
    count, dim = vectors.shape if vectors.ndim == 2 else (0, 0)
    if not 1 <= count <= MAX_QUERY_TOKENS or dim != len(scales):
        raise InvalidArgumentError(
            f"query vectors of shape {vectors.shape}, expected (1 to {MAX_QUERY_TOKENS}, {len(scales)})",
            suggestion="encode the query with the token encoder of the index",
        )
    if not np.isfinite(vectors).all():
        raise InvalidArgumentError("the query's vectors hold NaN or infinity", suggestion="encode the query again")
    coded = np.ascontiguousarray(vectors, np.float32) * scales
    bias = (coded.astype(np.float64) * levels[0]).sum(axis=1).astype(np.float32)
    return QueryVectors(_steps(coded), _steps(coded * levels[1]), bias)


def _steps(vectors: NDArray[np.float32]) -> Steps:
    largest = np.abs(vectors).max(axis=1)
    step = np.where(largest > 0, largest / QUERY_MAX, 1).astype(np.float32)
    values = np.clip(np.rint(vectors / step[:, None]), -QUERY_MAX, QUERY_MAX).astype(np.int16)
    return Steps(values, step, lanes(values))


def lanes(values: NDArray[np.int16]) -> NDArray[np.int16]:
    """Arrange query tokens side by side: entry [p, b, 2 * i + k] is dimension 2 * p + k of query token 16 * b + i.

    Args:
        values: (t, d) int16, d even.

    Returns:
        (d / 2, blocks, 32) int16, padded with zeros.
    """
    count, dim = values.shape
    blocks = -(-count // LANES)
    padded = np.zeros((blocks * LANES, dim), np.int16)
    padded[:count] = values
    return np.ascontiguousarray(padded.reshape(blocks, LANES, dim // 2, 2).transpose(2, 0, 1, 3)).reshape(
        dim // 2, blocks, 2 * LANES
    )


def padded(values: NDArray[np.float32], steps: Steps) -> NDArray[np.float32]:
    """Pad a value for each query token with zeros: (t,) to (steps.padded,)."""
    return np.concatenate([values, np.zeros(steps.padded - len(values), np.float32)])

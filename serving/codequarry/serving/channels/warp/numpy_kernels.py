"""Kernels of rescoring in NumPy, for a reader without numba: bit-identical, about ten times slower.

Products of codes and query steps are integers below 2^24, so a float32 matrix product is exact in whatever order it
adds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from codequarry.serving.channels.warp.mapped_files import unpack
from codequarry.serving.channels.warp.query import QueryVectors

_BLOCK = 8192
"""Tokens multiplied at once: 4 MB as float32."""


def products(codes: NDArray[np.int8], query: QueryVectors) -> NDArray[np.float32]:
    """Compute dot products of (m, d) codes with the query's tokens: (m, t) float32 integers."""
    asked = query.codes.values.astype(np.float32).T
    return np.concatenate([codes[at : at + _BLOCK].astype(np.float32) @ asked for at in range(0, len(codes), _BLOCK)])


def token_scores(codes: NDArray[np.int8], query: QueryVectors) -> NDArray[np.float32]:
    """Compute similarities of (m, d) codes with the query's tokens: (m, t) float32."""
    return products(codes, query) * query.codes.step


def packed_scores(
    residuals: NDArray[np.uint8],
    clusters: NDArray[np.integer],
    base: NDArray[np.float32],
    query: QueryVectors,
    bits: int,
) -> NDArray[np.float32]:
    """Compute similarities like `token_scores`, from packed residuals.

    Args:
        residuals: (m, d * bits / 8) uint8.
        clusters: (m,): cluster of each token.
        base: (C, t) float32: scores of the clusters.
        query: Prepared query.
        bits: Bits for each level.

    Returns:
        (m, t) float32.
    """
    asked = query.levels.values.astype(np.float32).T
    sums = unpack(residuals, bits).astype(np.float32) @ asked
    known = (clusters >= 0) & (clusters < len(base))
    scores = (base[np.where(known, clusters, 0)] + query.bias) + query.levels.step * sums
    return np.where(known[:, None], scores, np.float32(-np.inf))

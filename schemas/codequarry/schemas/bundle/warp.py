"""Files of a late-interaction index, and the codes in them: what builder and reader must agree on.

A token is a vector in *code space*: int8 codes whose scales, one for each dimension, belong to the token encoder
(`codequarry.serving.encoders.tokens`). N tokens of n documents lie in C clusters; D dimensions::

    index.json         WarpSpec
    chunk_ids.npy      i64[n]             documents, ascending
    doc_offsets.npy    i64[n+1]           tokens of document d: doc_offsets[d] to doc_offsets[d+1], one at least
    centroids.npy      i8[C,D]            centres of the clusters, in code space
    offsets.npy        i64[C+1]           postings of cluster c: offsets[c] to offsets[c+1]
    pids.npy           i32[P]             document of each posting, ascending inside a cluster
    levels.npy         f32[2,D]           lowest level and step of the residual codec, in code space

    standard           (P = N: a posting for each token)
    residuals.npy      u8[N,D*bits/8]     packed residuals, in the order of the postings
    doc_codes.npy      i8[N,D]            codes of the tokens, document by document

    compact            (P <= N: a posting for each cluster of a document)
    doc_residuals.npy  u8[N,D*bits/8]     packed residuals, document by document
    doc_centroids.npy  u16[N] or i32[N]   cluster of each token; u16 while C fits

A token of code ``x`` in cluster ``c`` is ``centroids[c] + levels[0] + levels[1] * k`` with ``k`` in [0, 2^bits). A
packed row holds the D values of ``k`` in bytes of W = D*bits/8: bits 0 to bits-1 of byte j are k[j], the next ones
k[W+j], and so on, so that one shift and mask of the whole row gives W neighbouring dimensions.
"""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from codequarry.schemas.bundle.index_spec import IndexSpec

FORMAT = 1
MAX_QUERY_TOKENS = 32
Profile = Literal["standard", "compact"]


class WarpSpec(IndexSpec):
    """``index.json``: sizes of the index and what made it."""

    format: int = FORMAT
    profile: Profile
    dim: int = Field(gt=0, le=128)
    bits: Literal[2, 4]
    documents: int = Field(ge=0)
    tokens: int = Field(ge=0)
    centroids: int = Field(ge=0)
    postings: int = Field(ge=0)
    encoder: str = Field(pattern=r"^[0-9a-f]{64}$")
    """Fingerprint of the token encoder; queries need the same."""
    punctuation: bool
    """True when tokens without a letter or digit have vectors."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.format != FORMAT:
            raise ValueError(f"format {self.format}, this program reads {FORMAT}")
        if self.dim * self.bits % 8:
            raise ValueError(f"{self.dim} values of {self.bits} bits do not fill bytes")
        if self.profile == "standard" and self.postings != self.tokens:
            raise ValueError("a standard index has a posting for each token")
        return self

    @property
    def packed(self) -> int:
        """Bytes of a packed residual."""
        return self.dim * self.bits // 8

    def arrays(self) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
        """Return shape and dtype of every file, by the name without ``.npy``."""
        n, tokens, d, c = self.documents, self.tokens, self.dim, self.centroids
        common: dict[str, tuple[tuple[int, ...], np.dtype]] = {
            "chunk_ids": ((n,), np.dtype("<i8")),
            "doc_offsets": ((n + 1,), np.dtype("<i8")),
            "centroids": ((c, d), np.dtype("i1")),
            "offsets": ((c + 1,), np.dtype("<i8")),
            "pids": ((self.postings,), np.dtype("<i4")),
            "levels": ((2, d), np.dtype("<f4")),
        }
        packed = ((tokens, self.packed), np.dtype("u1"))
        if self.profile == "standard":
            return {**common, "residuals": packed, "doc_codes": ((tokens, d), np.dtype("i1"))}
        return {**common, "doc_residuals": packed, "doc_centroids": ((tokens,), cluster_dtype(c))}


def cluster_dtype(centroids: int) -> np.dtype:
    """Return the dtype of the cluster numbers of tokens."""
    return np.dtype("<u2") if centroids <= 1 << 16 else np.dtype("<i4")

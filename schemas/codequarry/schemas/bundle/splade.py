"""Files of a learned sparse index: what builder and reader must agree on.

A document is a set of terms of a vocabulary of V, each with an *impact*: a weight in steps of the encoder, 1 to 255.
With n documents and P impacts in all::

    index.json      SpladeSpec
    chunk_ids.npy   i64[n]     documents, ascending
    offsets.npy     i64[V+1]   postings of term t: offsets[t] to offsets[t+1]
    documents.npy   i32[P]     document of each posting, ascending inside a term
    impacts.npy     u8[P]      its impact, 1 at least

and in ``encoder/`` the encoder of queries. A score is the sum over the terms of query and document of the products of
their weights. Both are whole numbers of steps, so that sums are exact in any order: a document has at most `MAX_TERMS`
terms, and 255 * `QUERY_STEPS` * `MAX_TERMS` < 2^31.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from pydantic import Field, model_validator

from codequarry.schemas.bundle.index_spec import IndexSpec

FORMAT = 1
MAX_TERMS = 512
"""Most terms of a document, and of a query."""
MAX_IMPACT = 255
QUERY_STEPS = 1023
"""Steps of the heaviest term of a query."""


class SpladeSpec(IndexSpec):
    """``index.json``: sizes of the index and what made it."""

    format: int = FORMAT
    documents: int = Field(ge=0, lt=1 << 31)
    vocabulary: int = Field(gt=0)
    postings: int = Field(ge=0)
    terms: int = Field(ge=1, le=MAX_TERMS)
    """Most terms of a document."""
    step: float = Field(gt=0, allow_inf_nan=False)
    """Weight of an impact of 1."""
    encoder: str = Field(pattern=r"^[0-9a-f]{64}$")
    """Fingerprint of the encoder of documents."""
    query_encoder: str = Field(pattern=r"^[0-9a-f]{64}$")
    """Fingerprint of the encoder of queries: the same, or one that looks weights up."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.format != FORMAT:
            raise ValueError(f"format {self.format}, this program reads {FORMAT}")
        return self

    def arrays(self) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
        """Return shape and dtype of every file, by the name without ``.npy``."""
        return {
            "chunk_ids": ((self.documents,), np.dtype("<i8")),
            "offsets": ((self.vocabulary + 1,), np.dtype("<i8")),
            "documents": ((self.postings,), np.dtype("<i4")),
            "impacts": ((self.postings,), np.dtype("u1")),
        }

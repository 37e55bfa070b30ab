"""Settings of the search indexes."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Tier = Literal["fast", "standard", "full"]
"""What a bundle is made of, cheapest first; each holds what the one before it holds."""

AUTO = "auto"


class IndexesSettings(BaseModel):
    """Search indexes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tier: Tier = Field(
        default="fast",
        description="fast: words, names of definitions, and vectors of the encoder. standard: also vectors of a second "
        "encoder, see `embedding.second`, searched as a channel of its own. full: also late interaction, see "
        "[warp], and learned sparse retrieval where `splade.model` names a model.",
    )
    faiss_factory: str = Field(
        default=AUTO,
        min_length=1,
        description="auto: the dense index by the number of chunks, as the four settings below say. Or any FAISS "
        "factory string. Always behind IDMap2.",
    )
    faiss_graph_from: int = Field(
        default=200_000,
        ge=1,
        description="From so many chunks on HNSW32,SQ8; fewer are compared exactly (Flat). As many as "
        "faiss_lists_from: never.",
    )
    faiss_lists_from: int = Field(
        default=200_000,
        ge=1,
        description="From so many chunks on IVF,PQ of four-bit codes, which are compared many at a time.",
    )
    faiss_coarse_from: int = Field(
        default=2_000_000,
        ge=1,
        description="From so many chunks on IVF16384_HNSW32,SQ8, whose lists a graph finds.",
    )
    faiss_shard_vectors: int = Field(
        default=10_000_000,
        ge=100,
        description="Most vectors of one trained index; more are divided evenly, and each shard is "
        "IVF16384_HNSW32,RaBitQ,Refine(SQ8).",
    )
    faiss_training_vectors: int = Field(
        default=200_000, ge=1, description="Vectors that an index is trained on, or 39 for each of its lists."
    )
    faiss_recall: float = Field(
        default=0.98,
        ge=0,
        le=1,
        description="Recall@10 against exact search that the operating point of an approximate index has to reach.",
    )
    faiss_queries: int = Field(
        default=256, ge=1, le=10_000, description="Questions, made of the chunks' own documentation, it is measured on."
    )
    faiss_gpu: bool = Field(
        default=False, description="Train and fill an IVF index on the GPU, where FAISS has one; else on the CPU."
    )

    @model_validator(mode="after")
    def _rungs_ascend(self) -> Self:
        rungs = (self.faiss_graph_from, self.faiss_lists_from, self.faiss_coarse_from)
        if sorted(rungs) != list(rungs):
            raise ValueError("expected faiss_graph_from <= faiss_lists_from <= faiss_coarse_from")
        return self

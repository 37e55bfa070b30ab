"""Settings of the indexes: FAISS, BM25, SPLADE and WARP."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from codequarry.schemas.settings.device_setting import checked_devices
from codequarry.schemas.strict_model import StrictModel
from codequarry.schemas.trust.privileges import Reach

Tier = Literal["fast", "standard", "full"]
"""Tiers of a bundle, cheapest first; each holds what the one before it holds."""

AUTO = "auto"


class IndexesSettings(StrictModel):
    """Search indexes."""

    tier: Tier = Field(
        default="fast",
        description="fast: words, names of definitions, and vectors of the encoder. standard: also vectors of a second "
        "encoder, see `embedding.second`, searched as a channel of its own. full: also late interaction, see "
        "[warp], and learned sparse retrieval where `splade.model` names a model.",
    )
    faiss_factory: Annotated[str, Reach.WORDS] = Field(
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
        default=False,
        description="Build lists (IVF) on the GPU that FAISS sees. Without one all cores of the CPU build, and the run "
        "warns.",
    )

    @model_validator(mode="after")
    def _rungs_ascend(self) -> Self:
        rungs = (self.faiss_graph_from, self.faiss_lists_from, self.faiss_coarse_from)
        if sorted(rungs) != list(rungs):
            raise ValueError("expected faiss_graph_from <= faiss_lists_from <= faiss_coarse_from")
        return self


class SpladeSettings(StrictModel):
    """Learned sparse retrieval: weighted terms of a language model's vocabulary, channel `splade`."""

    enabled: bool = Field(
        default=False,
        description="Build the index. Needs `splade.model`, and the extra models to build and to encode queries.",
    )
    model: Annotated[str, Reach.MODEL] = Field(
        default="",
        description="A folder with a sentence-transformers SparseEncoder or with an ONNX masked language model and its "
        "tokenizer.json, or the name of a SparseEncoder on a hub.",
    )
    revision: Annotated[str, Reach.WORDS] = Field(
        default="",
        description="Commit of the model's hub repository; required for a name, as branches move.",
        pattern=r"^([0-9a-f]{40})?$",
    )
    terms: int = Field(default=256, ge=8, le=512, description="Terms kept of a chunk, the heaviest ones.")
    max_tokens: int = Field(default=256, ge=16, le=8192, description="Tokens of a chunk that are read.")
    memory_mb: int = Field(default=512, ge=16, description="Memory for the postings of a build, in MiB.")

    @model_validator(mode="after")
    def _has_a_model(self) -> Self:
        if self.enabled and not self.model:
            raise ValueError("enabled needs model: a folder, or a name with its revision")
        return self

    def resolved(self, in_full: Callable[[Path], Path]) -> Self:
        """Return the settings with the model's folder as a full path; the name of a model on a hub stays."""
        return self.model_copy(update={"model": _model_in_full(self.model, self.revision, in_full)})


class WarpSettings(StrictModel):
    """Late interaction: a vector for each token, channel `warp`."""

    enabled: bool = Field(default=False, description="Build the index. Needs the extra warp, to build and to serve.")
    model: Annotated[str, Reach.MODEL] = Field(
        default="",
        description="Empty: MiniLM with a projection of ours. Or a model that was trained for late interaction "
        "(ColBERT, XTR): its folder, or its name on a hub. See WARP.md.",
    )
    revision: Annotated[str, Reach.WORDS] = Field(
        default="",
        description="Commit of the model's hub repository; required for a name, as branches move.",
        pattern=r"^([0-9a-f]{40})?$",
    )
    profile: Literal["standard", "compact"] = Field(
        default="standard",
        description="standard: about 200 bytes a token, exact. compact: about 72, for up to a million chunks.",
    )
    bits: Literal[2, 4] = Field(default=4, description="Bits of each dimension of a residual.")
    punctuation: bool = Field(
        default=False, description="Index tokens without a letter or digit too; 1.7 times as large."
    )
    max_tokens: int = Field(default=512, ge=16, le=512, description="Tokens of a chunk that are read.")
    memory_mb: int = Field(default=1024, ge=16, description="Memory for sample and postings of a build, in MiB.")
    device: Annotated[str, Reach.WORDS] = Field(
        default="cpu",
        description="Where tokens of chunks are encoded: cpu, cuda (every GPU there is), cuda:1, or cuda:0,cuda:1. "
        "GPUs need onnxruntime-gpu. Queries are read on the CPU.",
        pattern=r"^(cpu|cuda|cuda:\d+(, ?cuda:\d+)*)$",
    )

    @field_validator("device")
    @classmethod
    def _devices(cls, value: str) -> str:
        return checked_devices(value)

    def resolved(self, in_full: Callable[[Path], Path]) -> Self:
        """Return the settings with the model's folder as a full path; the name of a model on a hub stays."""
        return self.model_copy(update={"model": _model_in_full(self.model, self.revision, in_full)})


def _model_in_full(model: str, revision: str, in_full: Callable[[Path], Path]) -> str:
    return model if revision or not model else str(in_full(Path(model)))

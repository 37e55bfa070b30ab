"""Settings of learned sparse retrieval."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class SpladeSettings(BaseModel):
    """Learned sparse retrieval: weighted terms of a language model's vocabulary, channel `splade`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = Field(
        default=False,
        description="Build the index. Needs `splade.model`, and the extra models to build and to encode queries.",
    )
    model: str = Field(
        default="",
        description="A folder with a sentence-transformers SparseEncoder or with an ONNX masked language model and its "
        "tokenizer.json, or the name of a SparseEncoder on a hub.",
    )
    revision: str = Field(
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
        """With the folder of the model in full; the name of one on a hub stays."""
        if self.revision or not self.model:
            return self
        return self.model_copy(update={"model": str(in_full(Path(self.model)))})

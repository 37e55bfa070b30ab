"""Settings of late interaction."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class WarpSettings(BaseModel):
    """Late interaction: a vector for each token, channel `warp`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = Field(default=False, description="Build the index. Needs the extra warp, to build and to serve.")
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
    device: Literal["cpu", "cuda"] = Field(
        default="cpu",
        description="Where tokens of chunks are encoded; cuda needs onnxruntime-gpu. Queries are read on the CPU.",
    )
    measure: bool = Field(
        default=True,
        description="Ask questions mined from a sample of the repositories with it and without, before a version is "
        "staged; where it does not help, the version's ranking leaves it out.",
    )

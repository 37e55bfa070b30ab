"""Settings of the search for secrets in what is indexed."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class SecretsSettings(BaseModel):
    """Keys, tokens and passwords in the files: found before anything is made of them, and replaced by asterisks."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    scan: bool = Field(
        default=True, description="Look for secrets. Without it they are indexed and served as they are."
    )
    allow: tuple[str, ...] = Field(
        default=(), description="gitignore-style patterns of files whose secrets are none, as of test fixtures."
    )

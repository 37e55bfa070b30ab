"""How far a version may be from the one before it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class DriftSettings(BaseModel):
    """How far a staged version may be from CURRENT, for each repository that is in both; more stops the publish."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    min_files: int = Field(
        default=10, ge=1, description="Smaller repositories and languages, and changes of fewer files, are not judged."
    )
    max_files_lost: float = Field(
        default=0.3, ge=0, le=1, description="Share of a repository's indexed files that may go."
    )
    max_language_lost: float = Field(
        default=0.5, ge=0, le=1, description="Share of the indexed files of a language that may go."
    )
    max_growth: float = Field(default=3.0, ge=1, description="How many times as many indexed files there may be.")
    max_share_change: float = Field(
        default=0.2, ge=0, le=1, description="How much the share of a language or a path class may change."
    )
    max_skipped_change: float = Field(
        default=0.1, ge=0, le=1, description="How much the share of files skipped for one reason may rise."
    )
    max_ratio: float = Field(
        default=1.5, ge=1, description="Factor by which chunks per file, token vectors and bytes per chunk may change."
    )
    max_new_secrets: int = Field(default=10, ge=0, description="How many more secrets may be found in a repository.")
    encoders_may_change: bool = Field(
        default=False, description="Let another encoder in though nothing else of the settings changed."
    )

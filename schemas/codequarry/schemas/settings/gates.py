"""Settings of the gates of drift and retrieval."""

from __future__ import annotations

from pydantic import Field

from codequarry.schemas.strict_model import StrictModel


class DriftSettings(StrictModel):
    """Limits on how far a staged version may be from CURRENT, for each repository in both; more stops the publish."""

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


class RetrievalSettings(StrictModel):
    """Gates that ask a staged version, and CURRENT the same, as a caller would."""

    enabled: bool = Field(default=True, description="Ask before a version is published.")
    min_changed_share: float = Field(
        default=0.01,
        ge=0,
        le=1,
        description="A version made by the means of CURRENT is not asked while at most this share of its files changed "
        "since one was; 0 = it always is.",
    )
    questions: int = Field(
        default=32, ge=1, le=2_000, description="Questions mined from files that are in both versions."
    )
    more_questions: int = Field(
        default=256, ge=1, le=2_000, description="As many as these are asked where answers to those look worse."
    )
    min_questions: int = Field(
        default=16, ge=1, description="What fewer questions are of, a language or all of them, is not judged."
    )
    max_drop: float = Field(
        default=0.03,
        ge=0,
        le=1,
        description="NDCG@10 and R@4k may fall by so much; more, and surely so (95 % for all of them together), "
        "stops the publish.",
    )
    ann_queries: int = Field(default=32, ge=1, le=2_000, description="Questions that recall of a dense index is of.")
    min_ann_recall: float = Field(
        default=0.95, ge=0, le=1, description="Recall@10 against exact search of a dense index, at least."
    )
    max_latency_ratio: float = Field(
        default=4.0, ge=1, description="Median CPU time of a search, to that of CURRENT in the same run, at most."
    )
    max_open_ratio: float = Field(
        default=4.0, ge=1, description="The same of the CPU time that opening a version takes."
    )

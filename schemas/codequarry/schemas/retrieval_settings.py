"""What the answers of a staged version have to be before it is published."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class RetrievalSettings(BaseModel):
    """Gates that ask a staged version, and CURRENT the same, as a caller would."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = Field(default=True, description="Ask before a version is published.")
    golden: bool = Field(
        default=True, description="Check the golden oracle pack too, once for each version of the tools."
    )
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
        default=4.0, ge=1, description="Median time of a search, to that of CURRENT in the same run, at most."
    )
    max_open_ratio: float = Field(default=4.0, ge=1, description="The same of the time that opening a version takes.")

"""Settings of the stages of a search: their budgets of time, and when the costly ones are used."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from codequarry.schemas.strict_model import StrictModel


class StageSettings(StrictModel):
    """Stages of a search: candidates of the channels, late interaction, a language model that reranks.

    The defaults for late interaction were measured in this project's own index, with 94 first sentences of its
    documentation and 106 names. The nearest vector of a sentence is at a similarity of 0.32 or more, of half of them at
    0.5; for one in ten of the names it is lower. A quarter of the sentences and one in twelve of the names have an
    entropy above the limit.
    """

    stage1_budget_ms: int = Field(
        default=0,
        ge=0,
        description="Time for the candidates of all channels; a channel that has not begun by then is left out, and "
        "`limits` says so. 0: the deadline of the search alone, so that answers do not depend on the machine's load.",
    )
    stage2_budget_ms: int = Field(
        default=0, ge=0, description="The same for late interaction; the third stage has `serving.reranker_budget_ms`."
    )
    semantic_min_score: float = Field(
        default=-1.0,
        ge=-1,
        le=1,
        description="Hybrid search leaves a dense channel out whose nearest vector is less similar; -1 never.",
    )
    late_mode: Literal["uncertain", "rescore", "wide", "off"] = Field(
        default="uncertain",
        description="uncertain: score the first results again where the other channels leave doubt; rescore: for every "
        "query; wide: let it find candidates of its own as well, for every query; off: never.",
    )
    late_margin: float = Field(
        default=0.08, ge=0, le=1, description="A first score closer than this to the second leaves doubt; 0 for never."
    )
    late_similarity: float = Field(
        default=0.3,
        ge=-1,
        le=1,
        description="Where no vector is as similar as this, nothing is near, which leaves doubt; -1 for never.",
    )
    late_entropy: float = Field(
        default=0.994,
        ge=0,
        le=1,
        description="Entropy of the first ten scores, 1 when they are equal, above which none stands out; 1 for never.",
    )
    late_rescored: int = Field(
        default=100, ge=1, le=2_000, description="First results that are scored again (K2 of the literature)."
    )
    late_candidates: int = Field(
        default=200, ge=10, le=2_000, description="Candidates that it finds of its own in mode wide (K1)."
    )

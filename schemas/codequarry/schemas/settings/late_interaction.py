"""Settings of late interaction in hybrid search: when it is used, and on how many chunks."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from codequarry.schemas.strict_model import StrictModel


class LateSettings(StrictModel):
    """Use of late interaction in hybrid searches, which is expensive and seldom changes a clear order.

    The defaults were measured in this project's own index, with 94 first sentences of its documentation and 106 names.
    The nearest vector of a sentence is at a similarity of 0.32 or more, of half of them at 0.5; for one in ten of the
    names it is lower. A quarter of the sentences and one in twelve of the names have an entropy above the limit.
    """

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

"""Settings of the division of a run among processes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from codequarry.schemas.strict_model import StrictModel


class ComputeSettings(StrictModel):
    """Division of the work of a run. The version is the same in every case."""

    engine: Literal["in_process", "processes"] = Field(
        default="processes",
        description="`processes` divides repositories and shards among processes of this machine where that pays; "
        "`in_process` does all in one, beside a worker that parses.",
    )
    processes: int = Field(
        default=0,
        ge=0,
        le=64,
        description="Processes that work at once; 0 = as many as there are cores, at most 8, and no more than pay.",
    )

    @property
    def divides(self) -> bool:
        """True when further processes may do a share of the work."""
        return self.engine != "in_process"

"""Settings of the division of a run among processes and machines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from codequarry.schemas.strict_model import StrictModel
from codequarry.schemas.trust.privileges import Reach


class ComputeSettings(StrictModel):
    """Division of the work of a run. The version is the same in every case."""

    engine: Literal["in_process", "processes", "ray"] = Field(
        default="processes",
        description="`processes` divides repositories and shards among processes of this machine where that pays; "
        "`in_process` does all in one, beside a worker that parses; `ray` divides repositories, and bundles of a "
        "fleet, among the nodes of a Ray cluster, with the extra ray.",
    )
    processes: int = Field(
        default=0,
        ge=0,
        le=64,
        description="Processes that work at once; 0 = as many as there are cores, at most 8, and no more than pay.",
    )
    address: Annotated[str, Reach.ADDRESS] = Field(
        default="",
        description="Cluster of engine `ray`: `auto` for the one that this machine is a node of, or the HOST:PORT of "
        "its head. When empty, Ray is started on this machine for the run.",
    )
    task_cpus: int = Field(
        default=1, ge=1, le=64, description="Cores that Ray reserves for a repository or a bundle, and that it uses."
    )
    task_memory_mb: int = Field(
        default=1_200,
        ge=0,
        description="Memory that Ray reserves for a repository or a bundle, in MB; 0 = none. It is no limit.",
    )
    node_folder: Annotated[Path | None, Reach.PLACE] = Field(
        default=None,
        description="Folder on each node of Ray with its clones, its store and its scratch space, in a folder for the "
        "address of the node; one in the cache of the user when left out.",
    )

    @property
    def divides(self) -> bool:
        """True when further processes may do a share of the work."""
        return self.engine != "in_process"

    @property
    def by_nodes(self) -> bool:
        """True when nodes of a cluster may do a share of the work."""
        return self.engine == "ray"

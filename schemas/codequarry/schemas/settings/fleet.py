"""Settings of a fleet: its place, its folder on this machine, and the size of its bundles."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from codequarry.schemas.strict_model import StrictModel
from codequarry.schemas.trust.privileges import Reach


class FleetSettings(StrictModel):
    """A fleet of bundles, by `codequarry fleet`."""

    url: Annotated[str, Reach.ADDRESS] = Field(
        default="",
        description="Object storage where the fleet lives: s3://BUCKET/PREFIX, gs://BUCKET, az://CONTAINER or "
        "file:///FOLDER. Credentials come from the environment.",
    )
    folder: Annotated[Path, Reach.PLACE] = Field(
        default=Path(".codequarry/fleet"),
        description="Folder of the bundles that are built here, each with bundle root and work folder, and of "
        "replica/.",
    )
    bundle_chunks: int = Field(
        default=250_000,
        ge=1,
        description="Chunks that a bundle is filled to; a repository with more has a bundle of its own.",
    )
    bundle_chunks_max: int = Field(
        default=500_000,
        ge=1,
        description="Chunks beyond which a bundle gives up its largest repositories, until one is left.",
    )
    keep_generations: int = Field(
        default=10, ge=2, description="Generations kept in the fleet, the current one included, with all they name."
    )

    replica_max_mb: int = Field(
        default=0,
        ge=0,
        description="Megabytes that the bundles of a share may have on a machine that pulls them; a generation with "
        "more is not taken. 0 = no limit.",
    )

    @model_validator(mode="after")
    def _fills_below_max(self) -> Self:
        if self.bundle_chunks > self.bundle_chunks_max:
            raise ValueError(
                f"bundle_chunks {self.bundle_chunks} must not exceed bundle_chunks_max {self.bundle_chunks_max}"
            )
        return self

    @property
    def replica(self) -> Path:
        """Folder of the bundles that are pulled here, unless another one is named."""
        return self.folder / "replica"

    @property
    def bundles(self) -> Path:
        """Folder of the bundles that are built here."""
        return self.folder / "bundles"

    def bundle_root(self, bundle: str) -> Path:
        """Return the bundle root in which a bundle is built."""
        return self.bundles / bundle / "bundles"

"""Layout of a replica: bundles of a fleet on this machine, and the one file that says which versions belong together.

::

    <root>/fleet.json            the generation that is held here, replaced as a whole
    <root>/bundles/<bundle>/     an ordinary bundle root with the versions of one bundle

A reader takes versions from ``fleet.json``, never from the CURRENT of a bundle root, which moves while a generation
arrives. What ``fleet.json`` named before stays until the next pull, and longer while a reader holds it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, ValidationError, field_validator

from codequarry.schemas.bundle.layout import BundleRoot, Current
from codequarry.schemas.bundle.manifest_fields import Sha256, Text, Time
from codequarry.schemas.errors import IntegrityError, InvalidArgumentError, NoBundleError
from codequarry.schemas.fleet.generation import MAX_GENERATION_BYTES, BundleEntry, FleetManifest
from codequarry.schemas.fleet.shares import Share
from codequarry.schemas.resources import raise_if_exhausted
from codequarry.schemas.strict_model import StrictModel

REPLICA_FORMAT = 1
_SUGGESTION = "run `codequarry fleet pull` again"


class HeldGeneration(StrictModel):
    """The content of ``fleet.json``."""

    format_version: int = Field(default=REPLICA_FORMAT, description="Format of the file.")
    url: Text = Field(description="Place of the fleet, without credentials.")
    sha256: Sha256 = Field(description="sha256 of the generation's file in the fleet.")
    share: str = Field(strict=True, description="Share of the bundles that is held, such as 2/8.")
    pulled: Time = Field(description="UTC time at which the generation was whole here.")
    fleet: FleetManifest = Field(description="The generation, with the bundles that others hold.")

    @field_validator("share")
    @classmethod
    def _known_share(cls, value: str) -> str:
        try:
            return str(Share.parse(value))
        except InvalidArgumentError as error:
            raise ValueError(error.message) from None

    @property
    def own_bundles(self) -> dict[str, BundleEntry]:
        """Bundles that are held here, by name."""
        return {name: self.fleet.bundles[name] for name in Share.parse(self.share).select(self.fleet.bundles)}


@dataclass(frozen=True, slots=True)
class ReplicaRoot:
    """Paths of a replica."""

    path: Path

    @property
    def file(self) -> Path:
        """File that says which generation is held."""
        return self.path / "fleet.json"

    @property
    def bundles(self) -> Path:
        """Folder of the bundle roots."""
        return self.path / "bundles"

    def bundle(self, name: str) -> BundleRoot:
        """Return the bundle root of a bundle."""
        return BundleRoot(self.bundles / name)

    def read(self) -> HeldGeneration:
        """Read the generation that is held.

        Returns:
            The generation, the share, and the version of each bundle.

        Raises:
            NoBundleError: No generation was pulled here.
            IntegrityError: The file is damaged, or of another format.
            ResourcesError: It cannot be read now.
        """
        try:
            descriptor = os.open(self.file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            with open(descriptor, "rb") as stream:
                raw = stream.read(2 * MAX_GENERATION_BYTES)
        except FileNotFoundError:
            raise NoBundleError(
                f"no generation of a fleet is held under {self.path}", suggestion="run `codequarry fleet pull` first"
            ) from None
        except OSError as error:
            raise_if_exhausted(error, f"{self.file} cannot be read now")
            raise IntegrityError(f"{self.file} cannot be read: {error.strerror}", suggestion=_SUGGESTION) from error
        try:
            held = HeldGeneration.model_validate_json(raw)
        except ValidationError as error:
            raise IntegrityError(
                f"{self.file} is not what a pull leaves: {error.error_count()} problems", suggestion=_SUGGESTION
            ) from error
        if held.format_version != REPLICA_FORMAT:
            raise IntegrityError(
                f"{self.file} has format {held.format_version}, this program reads format {REPLICA_FORMAT}",
                suggestion=_SUGGESTION,
            )
        return held


def version_line(entry: BundleEntry) -> Current:
    """Return version and manifest of a bundle, as the CURRENT of a bundle root names them."""
    return Current(entry.version, entry.manifest_sha256)

"""Origin of an imported version: ``<root>/imports/<version>.json``, beside the versions and part of none."""

from __future__ import annotations

from pydantic import Field, ValidationError

from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.bundle.manifest_fields import Label, Text, Time
from codequarry.schemas.strict_model import StrictModel

_MAX_BYTES = 64 << 10


class Provenance(StrictModel):
    """The import of a version. A version that was built here has none."""

    file: Text = Field(description="Path of the archive when it was imported.")
    imported: Time = Field(description="UTC time of the import, ISO 8601.")
    signed_by: Label = Field(description="minisign public key whose signature was checked; empty when none was.")
    comment: Text = Field(default="", description="What the signer wrote beside the signature, and signed.")

    @property
    def sentence(self) -> str:
        """The import for people.

        >>> Provenance(file="/mnt/app.tar", imported="2026-11-21T12:00:00Z", signed_by="").sentence
        'imported 2026-11-21T12:00:00Z from /mnt/app.tar, unsigned'
        """
        signed = f"signed by {self.signed_by}" if self.signed_by else "unsigned"
        return f"imported {self.imported} from {self.file}, {signed}"


def read_provenance(root: BundleRoot, version: str) -> Provenance | None:
    """Return the import of a version; None when it was built here or its file cannot be read."""
    try:
        with root.provenance(version).open("rb") as file:
            return Provenance.model_validate_json(file.read(_MAX_BYTES))
    except (OSError, ValidationError):
        return None

"""Settings of what stays on the disk: the bundle with its place, readers, retention and signatures; the store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import Field, model_validator

from codequarry.schemas.strict_model import StrictModel
from codequarry.schemas.trust.privileges import Harmless, Reach

Readers = Literal["owner", "group", "all"]


class BundleSettings(StrictModel):
    """Place where versions are published."""

    root: Annotated[Path, Reach.PLACE] = Field(
        default=Path(".codequarry/bundles"),
        description="Bundle root: CURRENT and versions/. A URL of object storage is taken for push_to.",
    )
    push_to: Annotated[str, Reach.ADDRESS] = Field(
        default="",
        description="Object storage that each published version is pushed to: s3://BUCKET/PREFIX, gs://BUCKET, "
        "az://CONTAINER or file:///FOLDER. Credentials come from the environment. Empty = none.",
    )
    push_keep: int = Field(
        default=0, ge=0, description="Versions kept there after a push, the current one included; 0 = all."
    )
    readable_by: Annotated[Readers, Reach.ACCESS, Harmless(("owner",))] = Field(
        default="owner",
        description="Which users of the machine may read published versions: owner, group or all. They hold the "
        "indexed code.",
    )
    keep_versions: int = Field(default=3, ge=2, description="Versions kept after a publish, the current one included.")
    keep_days: float = Field(
        default=30.0,
        ge=0,
        description="Older versions go even when fewer are kept, the current one and one before it apart; 0 = never.",
    )
    delta: bool = Field(
        default=False,
        description="Publish a delta version over the last complete one where few files changed, instead of a complete "
        "version each time; as codequarry index --delta.",
    )
    delta_share: float = Field(
        default=0.1,
        gt=0,
        le=1,
        description="Share of the base's chunks that a delta version may hide and add; beyond it a complete version is "
        "built.",
    )
    delta_hours: float = Field(
        default=24.0, ge=0, description="Age of a base beyond which a complete version is built; 0 = any age."
    )

    @model_validator(mode="before")
    @classmethod
    def _take_url(cls, data: Any) -> Any:
        """Take a root that is a URL for the place that versions are pushed to; they are built in the default one."""
        if not isinstance(data, dict):
            return data
        given = cast("dict[str, Any]", data)
        if "://" not in (root := str(given.get("root", ""))):
            return given
        return {"push_to": root, **{name: value for name, value in given.items() if name != "root"}}


class StoreSettings(StrictModel):
    """Retention of the store."""

    max_mb: int = Field(
        default=0,
        ge=0,
        description="Megabytes of databases in the store above which a run, or codequarry store gc, removes the "
        "entries used least recently. What the repositories indexed last need stays; 0 = any size.",
    )


class VersionSettings(StrictModel):
    """The way the service follows CURRENT and looks after the version it serves."""

    follow_interval_s: float = Field(
        default=0.5, gt=0, le=3600, description="How often CURRENT is read; a new version is served soon after."
    )
    scrub_mb_s: float = Field(
        default=8.0,
        ge=0,
        le=10_000,
        description="MB per second at which the files of the served version are read again, in passes that begin ten "
        "minutes apart or more; 0 = never.",
    )


class ArchiveSettings(StrictModel):
    """Archives that are imported."""

    trusted_keys: Annotated[tuple[str, ...], Reach.WORDS] = Field(
        default=(),
        description="minisign public keys, the line that begins with RW. When there are any, `codequarry import` takes "
        "an archive only with a signature by one of them.",
    )

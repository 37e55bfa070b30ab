"""Inputs and outputs of ``healthz``: the state of the server, for agents and for probes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from pydantic.config import JsonDict
from pydantic.json_schema import SkipJsonSchema

from codequarry.schemas.strict_model import StrictModel
from codequarry.schemas.wire.search import BundleInfo

HealthStatus = Literal["ok", "degraded", "starting", "unavailable"]


def _without_default(schema: JsonDict) -> None:
    schema.pop("default", None)


class HealthRequest(StrictModel):
    """Nothing is asked for."""


class ChannelHealth(StrictModel):
    """Whether a search channel answers."""

    open: bool = Field(description="True when searches use the channel.")
    reason: str = Field(description="Why it is closed; empty when it is open.")
    counts: dict[str, int] = Field(
        default={}, description="What its index holds, e.g. vectors and id_map, or documents: each as many as `chunks`."
    )


class RefusedVersion(StrictModel):
    """A version that CURRENT named and that was not served."""

    version: str = Field(description="Its name; empty when CURRENT itself could not be used.")
    reason: str = Field(description="What was found.")
    at: str = Field(description="When it was last tried, UTC.")
    attempts: int = Field(description="How often it was tried.")


class SourceHead(StrictModel):
    """Commit of a repository in the index, and in its work tree."""

    name: str = Field(description="Repository.")
    indexed: str = Field(description="Commit that is indexed, with +dirty behind it where files differed from it.")
    head: str = Field(description="Commit that the work tree is at now.")


class HealthAnswer(StrictModel):
    """The state of the server."""

    status: HealthStatus = Field(
        description="ok; degraded: answers, with a channel closed or of another size, files damaged or a newer "
        "version refused; starting: the first version is being made; unavailable: no version can be served."
    )
    first_index: str = Field(
        default="",
        description="How far the first index is, and for how long, or why it failed; absent when a version is served.",
    )
    bundle: BundleInfo | SkipJsonSchema[None] = Field(
        default=None, description="The version being served; absent when there is none.",
        json_schema_extra=_without_default,
    )  # fmt: skip
    since: str = Field(default="", description="When the version took its place, UTC; absent when there is none.")
    verified: bool = Field(description="True when every byte of the version was compared with its manifest.")
    damaged: list[str] = Field(description="Files of the version that differ from its manifest.")
    catalog: bool = Field(description="True when the version's catalog answers SELECT 1.")
    chunks: int = Field(description="Chunks of the version; 0 when there is none.")
    channels: dict[str, ChannelHealth] = Field(description="Search channels by name.")
    encoders: dict[str, str] = Field(description="Encoder of each dense channel of the version.")
    follows_current: bool = Field(description="True when the version is the one the index's CURRENT file names.")
    refused: RefusedVersion | SkipJsonSchema[None] = Field(
        default=None, description="The last version refused since the server started; absent when none was.",
        json_schema_extra=_without_default,
    )  # fmt: skip
    heads: list[SourceHead] | SkipJsonSchema[None] = Field(
        default=None,
        description="Repositories on this machine whose work tree is at another commit than the index; over stdio "
        "alone, and absent when there is none.",
        json_schema_extra=_without_default,
    )
    uptime_s: int = Field(description="Seconds since the server opened its first version.")
    in_flight: int = Field(description="Searches and fetches running now.")
    draining: int = Field(description="Replaced versions that running requests still use.")

"""Settings of the service: its callers, its connections and limits, and the stages of a search."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from codequarry.schemas.settings.model_servers import ENV_NAME, checked_url
from codequarry.schemas.strict_model import StrictModel
from codequarry.schemas.trust.privileges import Reach

_CLIENT_TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}:[0-9a-f]{64}")
_GROUP = re.compile(r"[^\s,\x00-\x1f]{1,128}")
_REPOSITORIES = re.compile(r"[A-Za-z0-9._*?\[\]!-]{1,256}")
GROUP_PREFIX = "group:"
"""Text before the name of a group in a grant; no repository's name has a colon."""


def is_repository_glob(text: str) -> bool:
    """Tell whether a text is a glob over names of repositories: letters, digits, '.', '_', '-', '*', '?' and [..].

    >>> is_repository_glob("ledger-*"), is_repository_glob("../billing"), is_repository_glob("")
    (True, False, False)
    """
    return _REPOSITORIES.fullmatch(text) is not None


class AuthSettings(StrictModel):
    """Callers that HTTP admits. Without any of these everybody may, and only the loopback interface is bound."""

    tokens: Annotated[tuple[str, ...], Reach.ACCESS] = Field(
        default=(),
        description="Clients with a bearer token, as NAME:SHA256 of the token; `codequarry token NAME` makes both.",
    )
    jwks_uri: Annotated[str, Reach.ADDRESS] = Field(
        default="", description="Where the keys of an identity provider are; its JWTs are accepted, and keys fetched."
    )
    public_key: Annotated[Path | None, Reach.ACCESS] = Field(
        default=None, description="PEM file of the key that signs JWTs, instead of jwks_uri: nothing is fetched."
    )
    algorithm: Annotated[str, Reach.ACCESS] = Field(default="RS256", description="Algorithm of the JWTs' signatures.")
    issuer: Annotated[str, Reach.ACCESS] = Field(default="", description="Issuer that JWTs must name; any when empty.")
    audience: Annotated[str, Reach.ACCESS] = Field(
        default="", description="Audience that JWTs must name; any when empty."
    )
    scopes: Annotated[tuple[str, ...], Reach.ACCESS] = Field(
        default=(), description="OAuth scopes that JWTs must hold."
    )

    routers: Annotated[tuple[str, ...], Reach.ACCESS] = Field(
        default=(),
        description="NAMEs of tokens by which routers ask this replica for callers whom they have authenticated, each "
        "within its own grants. Without one, no router gets an answer.",
    )
    groups: Annotated[dict[str, tuple[str, ...]], Reach.ACCESS] = Field(
        default={}, description="Groups of repositories: by the name of a group, globs over names of repositories."
    )
    grants: Annotated[dict[str, tuple[str, ...]], Reach.ACCESS] = Field(
        default={},
        description="Repositories that the client of a token may see: by its NAME, globs over names of repositories, "
        "and groups as `group:GROUP`.",
    )
    groups_claim: Annotated[str, Reach.ACCESS] = Field(
        default="groups",
        description="Claim of a JWT that names the groups of its holder; `realm.groups` for a nested one.",
    )
    repositories_claim: Annotated[str, Reach.ACCESS] = Field(
        default="",
        description="Claim of a JWT with globs over the repositories that its holder may see; none when empty.",
    )
    without_grant: Literal["", "everything", "nothing"] = Field(
        default="",
        description="Repositories that a caller without any grant may see; when empty, nothing as soon as groups, "
        "grants or repositories_claim are set, and everything until then.",
    )

    @field_validator("groups")
    @classmethod
    def _named_groups(cls, values: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        for name, globs in values.items():
            if not _GROUP.fullmatch(name):
                raise ValueError(f"the name {name[:80]!r} of a group: expected 1 to 128 characters, no space or comma")
            _check_globs(f"group {name}", globs)
        return values

    @field_validator("tokens")
    @classmethod
    def _hashed(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        if not all(_CLIENT_TOKEN.fullmatch(value) for value in values):
            raise ValueError("expected NAME:SHA256, as `codequarry token NAME` prints it")
        return values

    @field_validator("jwks_uri")
    @classmethod
    def _fetched_safely(cls, value: str) -> str:
        address = urlsplit(value)
        here = address.scheme == "http" and address.hostname in ("127.0.0.1", "localhost")
        if value and not (address.scheme == "https" and address.hostname) and not here:
            raise ValueError("expected https://…")
        return value

    @model_validator(mode="after")
    def _one_source_of_keys(self) -> Self:
        if self.jwks_uri and self.public_key is not None:
            raise ValueError("give jwks_uri or public_key, not both")
        return self

    @model_validator(mode="after")
    def _grants_of_known_callers(self) -> Self:
        clients = {entry.partition(":")[0] for entry in self.tokens}
        for client, given in self.grants.items():
            if client not in clients:
                raise ValueError(
                    f"grants: {client[:80]!r} is not the NAME of a token, expected one of {sorted(clients)}; add its "
                    "token to `tokens`, or remove the grant"
                )
            names = [each.removeprefix(GROUP_PREFIX) for each in given if each.startswith(GROUP_PREFIX)]
            if unknown := [name for name in names if name not in self.groups]:
                raise ValueError(
                    f"grants of {client}: {unknown[0][:128]!r} is not one of the groups {sorted(self.groups)}; add it "
                    "to [auth.groups], or remove it here"
                )
            _check_globs(f"grants of {client}", [each for each in given if not each.startswith(GROUP_PREFIX)])
        if unknown := sorted(set(self.routers) - clients):
            raise ValueError(
                f"routers: {unknown[0][:80]!r} is not the NAME of a token, expected one of {sorted(clients)}; add its "
                "token to `tokens`, or remove it here"
            )
        if self.restricts and not self.required:
            raise ValueError(
                "who may see what can be told of known callers alone; add tokens, jwks_uri or public_key, or remove "
                "groups, grants, repositories_claim and without_grant"
            )
        return self

    @property
    def required(self) -> bool:
        """True when callers must show a token."""
        return bool(self.tokens or self.jwks_uri or self.public_key)

    @property
    def restricts(self) -> bool:
        """True when not every caller may see every repository."""
        return bool(self.groups or self.grants or self.repositories_claim or self.without_grant == "nothing")

    @property
    def open_to_all(self) -> bool:
        """True when a caller without any grant may see every repository."""
        return self.without_grant == "everything" if self.without_grant else not self.restricts


def _check_globs(where: str, globs: Iterable[str]) -> None:
    for glob in globs:
        if not is_repository_glob(glob):
            raise ValueError(
                f"{where}: {glob[:80]!r} is no glob over names of repositories; write it like 'billing' or 'ledger-*', "
                "and a group in a grant like 'group:GROUP'"
            )


class TelemetrySettings(StrictModel):
    """Records that the service writes of its own work. None of them delays a request."""

    folder: Annotated[Path, Reach.PLACE] = Field(
        default=Path(".codequarry/telemetry"),
        description="Where timeline and pool log are written; outside the bundle.",
    )
    timeline: Literal["off", "stderr", "file"] = Field(
        default="off", description="Start and finish of each request as JSON lines."
    )
    timeline_bytes: int = Field(
        default=16_000_000,
        ge=1_000,
        description="Size at which the timeline's file starts over; one before it is kept.",
    )
    pools: bool = Field(default=False, description="Write candidates of searches as Parquet parts, for judging.")
    pool_sample: float = Field(default=1.0, ge=0, le=1, description="Share of searches whose candidates are written.")
    pool_part_rows: int = Field(default=50_000, ge=1, description="Rows of a part.")
    pool_parts: int = Field(default=20, ge=1, description="Parts kept, the newest.")
    queries: bool = Field(
        default=False, description="Write queries and filters as they were asked; otherwise only how many there were."
    )

    @property
    def pool_folder(self) -> Path:
        """Folder of the parts of the pool log."""
        return self.folder / "pools"

    @property
    def to_disk(self) -> bool:
        """True when anything is written to the folder."""
        return self.timeline == "file" or self.pools


class RouterSettings(StrictModel):
    """Replicas of a fleet that `codequarry route` asks."""

    replicas: Annotated[tuple[str, ...], Reach.ADDRESS] = Field(
        default=(),
        max_length=1_000,
        description="Addresses of the replicas that a router asks, such as http://10.0.0.7:8321.",
    )
    replica_token: Annotated[str, Reach.SECRET] = Field(
        default="CODEQUARRY_REPLICA_TOKEN",
        pattern=ENV_NAME,
        description="Environment variable that holds the router's token, whose NAME the replicas have in auth.routers.",
    )
    replica_timeout_s: float = Field(
        default=5.0,
        gt=0,
        le=600,
        description="How long a replica may take to answer a router; after that, answers name its bundles as missing.",
    )

    @field_validator("replicas")
    @classmethod
    def _addresses(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(map(checked_url, values)))


class ConnectionSettings(StrictModel):
    """Limits on what one client can hold up."""

    max_connections: int = Field(
        default=256, ge=8, le=65_536, description="Open HTTP connections; beyond it the longest silent one is closed."
    )
    header_timeout_s: float = Field(
        default=10.0, gt=0, le=3600, description="How long the headers of an HTTP request may take to arrive."
    )
    body_timeout_s: float = Field(
        default=20.0, gt=0, le=3600, description="How long the body of an HTTP request may take to arrive."
    )
    answer_timeout_s: float = Field(
        default=20.0, gt=0, le=3600, description="How long a client may leave an answer unread before it is cut off."
    )


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

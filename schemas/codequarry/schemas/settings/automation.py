"""Settings of what Dagster does by itself, and of the people it notifies about failures."""

from __future__ import annotations

import zoneinfo
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, field_serializer, field_validator, model_validator

from codequarry.schemas.strict_model import StrictModel
from codequarry.schemas.trust.privileges import Reach


class _UnshownSection(StrictModel):
    """A section whose values no error shows: some are passwords."""

    model_config = ConfigDict(hide_input_in_errors=True)


def _five_fields(value: str) -> str:
    if len(value.split()) != 5:
        raise ValueError("expected five fields such as '0 3 * * *'")
    return value


class ScheduleSettings(_UnshownSection):
    """The Dagster reindex schedule."""

    cron: Annotated[str, Reach.WORDS] = Field(
        default="0 3 * * *", description="When the job REINDEX runs (cron syntax)."
    )
    timezone: Annotated[str, Reach.WORDS] = Field(default="UTC", description="IANA time zone of the cron expressions.")
    enabled: bool = Field(default=False, description="Start the schedule when the code location loads.")

    _cron = field_validator("cron")(_five_fields)

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        try:
            zoneinfo.ZoneInfo(value)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError("expected an IANA name such as 'Europe/Berlin'") from None
        return value


class AutomationSettings(_UnshownSection):
    """Further work that Dagster does by itself: each part starts with the code location when it is
    enabled here, or by its switch in the UI."""

    watch_heads: bool = Field(
        default=False, description="Start the sensor that reindexes repositories whose git head is another."
    )
    watch_interval_s: int = Field(
        default=60, ge=30, le=86_400, description="Shortest time between two looks at the heads."
    )
    deltas: bool = Field(
        default=False,
        description="Let the sensor of heads start the job DELTA, which publishes a delta version where [bundle] "
        "delta_share and delta_hours allow it; a complete version is built where they do not.",
    )
    remote_retries: int = Field(
        default=4, ge=0, le=20, description="How often a step tries again when a remote does not answer."
    )
    remote_wait_s: float = Field(
        default=30.0, ge=0, le=3600, description="Wait before the first of these tries; each next one is twice as long."
    )
    max_carried_hours: float = Field(
        default=72.0, ge=0, description="How long the last snapshot of a repository that cannot be read goes on."
    )
    service_url: Annotated[str, Reach.ADDRESS] = Field(
        default="", description="Address of the service whose version Dagster shows, such as http://localhost:8765."
    )
    retention: bool = Field(default=False, description="Start the schedule that prunes versions and cleans the store.")
    retention_cron: Annotated[str, Reach.WORDS] = Field(default="30 4 * * *", description="When it does (cron syntax).")
    store_days: int = Field(default=30, ge=0, description="What was not used for so many days goes from the store.")
    freshness: bool = Field(default=False, description="Start the schedule that checks the age of CURRENT.")
    freshness_cron: Annotated[str, Reach.WORDS] = Field(default="0 7 * * *", description="When it does (cron syntax).")
    max_age_hours: float = Field(
        default=48.0, gt=0, description="Longest time since a run published CURRENT, or found it up to date."
    )

    notebook: Annotated[Path | None, Reach.CODE] = Field(
        default=None,
        description="Notebook that is executed over each new version and kept as a page beside its verdict; "
        "none when left out.",
    )
    notebook_timeout_s: float = Field(default=1800.0, gt=0, description="Longest time of its execution.")

    _crons = field_validator("retention_cron", "freshness_cron")(_five_fields)

    @field_validator("notebook", mode="before")
    @classmethod
    def _none_when_empty(cls, value: object) -> object:
        return value or None


class NotifySettings(_UnshownSection):
    """Receivers of messages about failed runs."""

    webhook: Annotated[str, Reach.ADDRESS] = Field(
        default="", repr=False, description="URL that gets a POST of JSON; its `text` is what Slack and others show."
    )
    email_to: Annotated[tuple[str, ...], Reach.ADDRESS] = Field(default=(), description="Addresses that get an e-mail.")
    email_from: Annotated[str, Reach.ADDRESS] = Field(default="", description="Sender of the e-mail.")
    smtp_host: Annotated[str, Reach.ADDRESS] = Field(default="", description="Mail server.")
    smtp_port: int = Field(default=587, ge=1, le=65_535, description="Its port.")
    smtp_security: Literal["starttls", "tls", "none"] = Field(
        default="starttls", description="How the connection is protected; none only for a server of this machine."
    )
    smtp_user: Annotated[str, Reach.SECRET] = Field(default="", description="Name to log in with; no login when empty.")
    smtp_password: Annotated[str, Reach.SECRET] = Field(
        default="", repr=False, description="Password; better set by CODEQUARRY__NOTIFY__SMTP_PASSWORD than in a file."
    )
    dagster_url: Annotated[str, Reach.ADDRESS] = Field(
        default="", description="Address of the Dagster UI, for a link to the run."
    )

    @field_validator("webhook", "dagster_url")
    @classmethod
    def _web_address(cls, value: str) -> str:
        if value and not value.startswith(("https://", "http://")):
            raise ValueError("expected https://… or http://…")
        return value

    @model_validator(mode="after")
    def _whole_mail(self) -> Self:
        if self.email_to and not (self.email_from and self.smtp_host):
            raise ValueError("email_to needs email_from and smtp_host too")
        if self.smtp_password and self.smtp_security == "none":
            raise ValueError("a password needs smtp_security starttls or tls")
        return self

    @field_serializer("webhook", "smtp_password")
    def _hidden(self, value: str) -> str:
        return "…" if value else value

    @property
    def has_recipients(self) -> bool:
        """True when there is anybody to notify."""
        return bool(self.webhook or self.email_to)

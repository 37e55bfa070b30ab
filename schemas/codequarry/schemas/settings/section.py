"""The base of every section of the settings: frozen, and without unknown keys."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A section of the settings file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

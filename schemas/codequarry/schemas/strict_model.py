"""The base of settings, records in files and messages: frozen, and without unknown keys."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class StrictModel(BaseModel):
    """A model that refuses unknown keys and changes of its fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")

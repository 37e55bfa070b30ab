"""Required fields of the files that agents read, transcribed by us: nothing is asked of the network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema

_SCHEMAS = json.loads((Path(__file__).parents[3] / "fixtures" / "adoption" / "schemas.json").read_text())


def check_format(name: str, value: Any) -> None:
    """Raise unless a value has the form: of a client's configuration, or of a file of the kit."""
    jsonschema.Draft202012Validator(_SCHEMAS[name]).validate(value)

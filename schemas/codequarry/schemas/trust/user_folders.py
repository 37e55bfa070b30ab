"""The folders of the user's own, after the XDG Base Directory Specification: no repository can put anything there."""

from __future__ import annotations

import os
from pathlib import Path

_NAME = "codequarry"


def config_folder() -> Path:
    """Return the folder of decisions, such as the list of trusted folders."""
    return _base("XDG_CONFIG_HOME", ".config") / _NAME


def data_folder() -> Path:
    """Return the folder of programs that codequarry may start."""
    return _base("XDG_DATA_HOME", ".local/share") / _NAME


def state_folder() -> Path:
    """Return the folder for what codequarry keeps between runs."""
    return _base("XDG_STATE_HOME", ".local/state") / _NAME


def _base(variable: str, default: str) -> Path:
    # The specification: a relative path in the variable is invalid and ignored.
    given = os.environ.get(variable, "")
    return Path(given) if os.path.isabs(given) else Path(os.path.expanduser("~")) / default

"""Folders whose settings file the user read and trusts, by path and content: a changed file needs trust again."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.trust.user_folders import config_folder, read_private, write_private


def trust_file() -> Path:
    """Return the file that keeps the decisions."""
    return config_folder() / "trusted.json"


def trusted_folders() -> dict[str, str]:
    """Return the sha256 of the trusted settings file of each folder.

    Returns:
        Digests by folder.

    Raises:
        UnavailableError: The list is damaged.
    """
    values = read_private(trust_file())
    if not all(isinstance(value, str) for value in values.values()):
        raise UnavailableError(f"{trust_file()} is damaged", suggestion="remove it to begin with none")
    return values


def is_trusted(folder: Path, raw: bytes) -> bool:
    """Tell whether a folder's settings file is trusted as it is now."""
    return trusted_folders().get(_key(folder)) == _digest(raw)


def add_trust(folder: Path, raw: bytes) -> None:
    """Trust a folder's settings file as it is now.

    Args:
        folder: The folder.
        raw: Bytes of its settings file.

    Raises:
        UnavailableError: The decision cannot be kept.
    """
    write_private(trust_file(), trusted_folders() | {_key(folder): _digest(raw)})


def remove_trust(folder: Path) -> bool:
    """Trust a folder no longer; False when nobody did."""
    folders = trusted_folders()
    if folders.pop(_key(folder), None) is None:
        return False
    write_private(trust_file(), folders)
    return True


def _key(folder: Path) -> str:
    return os.path.realpath(folder)


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()

"""The ranking profile that goes into a version."""

from __future__ import annotations

import hashlib

from codequarry.schemas.errors import SettingsError
from codequarry.schemas.ranking import BUILT_IN, RankingProfile, read_profile
from codequarry.schemas.settings import Settings


def profile_of(settings: Settings) -> RankingProfile:
    """The profile of the settings, or the built-in one.

    Raises SettingsError: the file is not there. IntegrityError: it holds no profile.
    """
    file = settings.ranking.profile
    if file is None:
        return BUILT_IN
    try:
        return read_profile(file.read_bytes())
    except OSError as error:
        raise SettingsError(
            f"[ranking] profile: {file} cannot be read: {error.strerror}",
            suggestion="run `codequarry tune ranking`, or leave the setting out",
        ) from error


def profile_bytes(settings: Settings) -> bytes:
    """``ranking.json`` of a version; raises as `profile_of`."""
    return profile_of(settings).model_dump_json(indent=1).encode() + b"\n"


def profile_sha256(settings: Settings) -> str:
    """sha256 hex of ``ranking.json`` as a version of these settings has it; raises as `profile_of`."""
    return hashlib.sha256(profile_bytes(settings)).hexdigest()

"""The ranking profile that goes into a version."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from codequarry.pipelines.store.parts import hashed
from codequarry.schemas.errors import SettingsError
from codequarry.schemas.ranking_profile import BUILT_IN, LateVerdict, RankingProfile, read_profile, without_late
from codequarry.schemas.settings.load import Settings


def profile_of(settings: Settings) -> RankingProfile:
    """Return the profile of the settings, or the built-in one.

    Args:
        settings: Settings that may name a profile's file.

    Returns:
        The profile.

    Raises:
        SettingsError: The file cannot be read.
        IntegrityError: The file holds no profile.
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


def late_file(settings: Settings) -> Path:
    """Return the file of the store that keeps whether late interaction helps, measured with these settings."""
    profile = profile_of(settings).model_dump(mode="json")
    return settings.paths.store / "late" / f"{hashed([settings.index_hash(), profile])[:32]}.json"


def read_late(settings: Settings) -> LateVerdict | None:
    """Return what `codequarry tune late` measured with these settings.

    It is None when nothing was measured or the settings have no late interaction.
    """
    if not settings.late_interaction:
        return None
    try:
        return LateVerdict(**json.loads(late_file(settings).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def profile_bytes(settings: Settings) -> bytes:
    """Return ``ranking.json`` of a version, without late interaction unless that helps.

    Args:
        settings: Settings of the version.

    Returns:
        Bytes of the file.

    Raises:
        CodequarryError: As `profile_of` does.
    """
    profile, late = profile_of(settings), read_late(settings)
    if late is not None and not late.helps:
        profile = without_late(profile)
    return profile.model_dump_json(indent=1).encode() + b"\n"


def profile_sha256(settings: Settings) -> str:
    """Return the sha256 hex of ``ranking.json`` as a version of these settings has it.

    Args:
        settings: Settings of the version.

    Returns:
        The digest.

    Raises:
        CodequarryError: As `profile_of` does.
    """
    return hashlib.sha256(profile_bytes(settings)).hexdigest()

"""The ranking profile that goes into a version."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from codequarry.schemas.errors import SettingsError
from codequarry.schemas.ranking import BUILT_IN, LateVerdict, RankingProfile, read_profile, without_late
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


def late_pointer(settings: Settings) -> Path:
    """The file by which the measurement of late interaction tells later stages what came of it."""
    return settings.paths.work / "late.json"


def read_late(settings: Settings) -> LateVerdict | None:
    """What the last run left for these settings; None when they want no measurement."""
    if not (settings.late_interaction and settings.warp.measure):
        return None
    try:
        return LateVerdict(**json.loads(late_pointer(settings).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def profile_bytes(settings: Settings) -> bytes:
    """``ranking.json`` of a version: without late interaction where it does not help; raises as `profile_of`."""
    profile, late = profile_of(settings), read_late(settings)
    if late is not None and not late.helps:
        profile = without_late(profile)
    return profile.model_dump_json(indent=1).encode() + b"\n"


def profile_sha256(settings: Settings) -> str:
    """sha256 hex of ``ranking.json`` as a version of these settings has it; raises as `profile_of`."""
    return hashlib.sha256(profile_bytes(settings)).hexdigest()

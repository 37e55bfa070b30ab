"""The folder that holds the ``.codequarry`` of another folder: that folder itself, or one in the user's cache.

State lies beside the code as long as it can be written there. A read-only checkout has its state in the cache, and so
has every folder when ``CODEQUARRY_HOME`` names a place. It has the same shape there: nothing but its place differs.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from pathlib import Path

from codequarry.schemas.errors import SettingsError, UntrustedError
from codequarry.schemas.trust.user_folders import cache_folder

HOME_FOLDER = ".codequarry"
HOME_VARIABLE = "CODEQUARRY_HOME"
"""Environment variable: the folder that holds the state of all folders."""
_LONGEST_NAME = 48


def state_base(folder: Path, *, writing: bool) -> Path:
    """Return the folder that holds the ``.codequarry`` of a folder.

    Args:
        folder: Folder with the settings file, or the one in which a command runs.
        writing: The command writes state; one that only reads believes state that it cannot write.

    Returns:
        The folder itself, or its folder in the user's cache: where ``CODEQUARRY_HOME`` is set, and where the state
        cannot be written beside the code.

    Raises:
        SettingsError: ``CODEQUARRY_HOME`` is no absolute path.
    """
    if os.environ.get(HOME_VARIABLE):
        return cached_base(folder)
    own = folder / HOME_FOLDER
    if not os.path.lexists(own):
        return folder if can_write(folder) else cached_base(folder)
    if can_write(own):
        return folder
    cached = cached_base(folder)
    return cached if writing or os.path.lexists(cached / HOME_FOLDER) else folder


def can_write(folder: Path) -> bool:
    """Tell whether this process may make files in a folder; a folder that is not there counts as writable."""
    return os.access(folder, os.W_OK | os.X_OK) or not os.path.lexists(folder)


def cached_base(folder: Path) -> Path:
    """Return the folder in the user's cache that stands for a folder.

    Args:
        folder: Any folder.

    Returns:
        A path that follows from the folder's real path.

    Raises:
        SettingsError: ``CODEQUARRY_HOME`` is no absolute path.
    """
    real = os.path.realpath(folder)
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", os.path.basename(real)).strip(".-")[:_LONGEST_NAME] or "folder"
    return cache_home() / f"{name}-{hashlib.sha256(os.fsencode(real)).hexdigest()[:16]}"


def cache_home() -> Path:
    """Return the folder with one folder for each that has its state elsewhere.

    Returns:
        The value of ``CODEQUARRY_HOME``, or ``codequarry`` in the user's cache folder.

    Raises:
        SettingsError: ``CODEQUARRY_HOME`` is no absolute path.
    """
    given = os.environ.get(HOME_VARIABLE, "")
    if given and not os.path.isabs(given):
        raise SettingsError(f"{HOME_VARIABLE} is {given!r}, expected an absolute path", suggestion="write it in full")
    return Path(given) if given else cache_folder()


def is_cached(place: Path) -> bool:
    """Tell whether a place lies in the user's cache, and not beside the code."""
    cache = cache_home()
    return cache in place.parents or Path(os.path.realpath(cache)) in Path(os.path.realpath(place)).parents


def require_own_cache(base: Path) -> None:
    """Refuse a folder of the cache that another user, or a link, may have put there.

    Args:
        base: A folder as `cached_base` returns it; one that is not there yet is not refused.

    Raises:
        UntrustedError: It is a link or no folder, belongs to another user, or others may write to it; or everybody may
            write to the folder that holds it.
    """
    if base.parent.is_dir() and base.parent.stat().st_mode & stat.S_IWOTH:
        raise _untrusted(base.parent, "everybody may write to it")
    try:
        status = base.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise _untrusted(base, "it is not a folder that its owner alone, this user, may write to")


def _untrusted(folder: Path, reason: str) -> UntrustedError:
    return UntrustedError(
        f"{folder} cannot hold codequarry's state: {reason}",
        suggestion=f"remove it or correct its permissions, or name another place in {HOME_VARIABLE}",
    )

"""The user's own folders, after the XDG Base Directory Specification, and small private JSON files in them.

No repository can put anything there. A file is written whole or not at all.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from pathlib import Path
from typing import Any, cast

from codequarry.schemas.errors import UnavailableError

_NAME = "codequarry"
_MOST_BYTES = 16 << 20


def config_folder() -> Path:
    """Return the folder of decisions, such as the list of trusted folders."""
    return _base("XDG_CONFIG_HOME", ".config") / _NAME


def cache_folder() -> Path:
    """Return the folder of what can be made again, such as the state of folders that cannot be written to."""
    return _base("XDG_CACHE_HOME", ".cache") / _NAME


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


def read_private(file: Path) -> dict[str, Any]:
    """Return the object that a private file holds; an empty one when there is no file.

    Args:
        file: The file.

    Returns:
        The JSON object.

    Raises:
        UnavailableError: Others may have written it, it cannot be read, or it holds no JSON object.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _unusable(file, f"cannot be read: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise _unusable(file, "is not a file that its owner alone, this user, may write")
        raw = stream.read(_MOST_BYTES + 1)
    try:
        value = json.loads(raw) if len(raw) <= _MOST_BYTES else None
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise _unusable(file, "holds no JSON object")
    return cast("dict[str, Any]", value)


def write_private(file: Path, value: dict[str, Any]) -> None:
    """Replace a private file, mode 0600.

    Args:
        file: The file; its folder is created when needed.
        value: JSON object to write.

    Raises:
        UnavailableError: The file cannot be written.
    """
    text = json.dumps(value, indent=1, sort_keys=True) + "\n"
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)  # mode 0600
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(descriptor)
            os.replace(temporary, file)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise UnavailableError(
            f"{file} cannot be written: {error.strerror}", suggestion="check its folder's permissions and disk space"
        ) from error


def _unusable(file: Path, reason: str) -> UnavailableError:
    return UnavailableError(f"{file} {reason}", suggestion="look at it, and remove it to begin with none")

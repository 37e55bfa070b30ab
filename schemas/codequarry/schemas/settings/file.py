"""Choice of the settings file, and reading it: a regular file, never a pipe or a device that waits for somebody."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from codequarry.schemas.errors import SettingsError, UntrustedError
from codequarry.schemas.resources import raise_if_exhausted
from codequarry.schemas.trust.privileges import is_inside, privileged
from codequarry.schemas.trust.state_folders import nearest_home
from codequarry.schemas.trust.trusted_folders import is_trusted
from codequarry.schemas.trust.work_trees import indexed_main_tree

SETTINGS_FILE = "dagster_project.toml"
Look = Literal["here", "above", "up", "nowhere"]
"""Places where a settings file that nobody named is looked for: in the current folder, there and above by commands that
write, the same by commands that only ask, or not at all."""
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class SettingsPlace:
    """Source of the settings."""

    folder: Path
    """Folder at which relative paths start; resolved."""
    file: Path
    """The file, as messages name it."""
    raw: bytes | None
    """Its bytes; None when there is no file."""
    named: bool
    """True when the user named the file, which is trust."""

    def refuse_untrusted(self, model: type[BaseModel], data: Mapping[str, Any]) -> None:
        """Raise UntrustedError when a file that nobody named asks for what only a trusted one may have."""
        if self.raw is None or self.named:
            return
        requests = privileged(model, data, self.folder)
        if requests and not is_trusted(self.folder, self.raw):
            raise UntrustedError(
                f"{self.folder / self.file.name} asks for what only a trusted folder may: "
                + "; ".join(map(str, requests)),
                suggestion=f"read the file, then run `codequarry trust {shlex.quote(str(self.folder))}`, or name it "
                "with --settings",
            )


def find_settings(path: Path | None, look: Look, *, named: bool = True) -> SettingsPlace:
    """Return the place of the settings.

    Args:
        path: Settings file; None to look for one.
        look: Where a file is looked for without a path.
        named: The user gave the path, which makes the file trusted.

    Returns:
        The folder and the file, with the file's bytes when there is one.

    Raises:
        SettingsError: The file is missing or cannot be read.
        UntrustedError: As `nearest_home` does; or the file is a link out of its folder.
    """
    if path is not None and named:
        return SettingsPlace(path.resolve().parent, path, read_settings_file(path), True)
    here = Path.cwd() if path is None else path.absolute().parent
    if look in ("up", "above"):
        here = indexed_main_tree(here) or nearest_home(here, SETTINGS_FILE)
    folder = Path(os.path.realpath(here))
    file = folder / (SETTINGS_FILE if path is None else path.name)
    if look == "nowhere" or (path is None and not os.path.lexists(file)):
        return SettingsPlace(folder, Path(SETTINGS_FILE), None, False)
    if not is_inside(Path(os.path.realpath(file)), folder):
        raise UntrustedError(
            f"{file} is a link out of its folder", suggestion="name the file itself with --settings, or remove the link"
        )
    shown = Path(SETTINGS_FILE) if folder == Path.cwd() else file
    return SettingsPlace(folder, shown, read_settings_file(file), False)


def read_settings_file(file: Path) -> bytes:
    """Return the bytes of a settings file.

    Args:
        file: The file.

    Returns:
        Its bytes.

    Raises:
        SettingsError: The file is missing, not a regular file, larger than a mebibyte, or cannot be read.
    """
    try:
        kind = file.stat().st_mode
        # Looked at before it is opened: opening a device may already do something.
        if not stat.S_ISREG(kind):
            raise _no_file(file, kind)
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(kind := os.fstat(descriptor).st_mode):
                raise _no_file(file, kind)
            raw = stream.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        raise SettingsError(
            f"settings file not found: {file}", suggestion="give an existing file with --settings, or leave it out"
        ) from None
    except (OSError, ValueError) as error:
        if isinstance(error, SettingsError):
            raise
        raise_if_exhausted(error, f"{file} cannot be read now")
        raise SettingsError(f"{file} cannot be read: {error}", suggestion="check its permissions") from error
    if len(raw) > _MOST_BYTES:
        raise SettingsError(f"{file} is larger than {_MOST_BYTES:,} bytes", suggestion="give a settings file")
    return raw


def _no_file(file: Path, kind: int) -> SettingsError:
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
    return SettingsError(
        f"{file} is {kinds.get(stat.S_IFMT(kind), 'a device')}, expected a regular file",
        suggestion="remove or rename it, or name a settings file with --settings",
    )

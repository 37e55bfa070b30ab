"""File permissions of the state folders and of bundles, which hold the code that was indexed.

A repository's files have no recorded readers, so what is made of them is readable by its owner alone unless the
settings say otherwise. Existing folders keep their permissions: somebody may have opened them to others.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.resources import raise_if_exhausted
from codequarry.schemas.settings.bundle import BundleSettings, Readers
from codequarry.schemas.settings.load import Settings
from codequarry.schemas.trust.state_home import HOME_FOLDER, cache_home

_FOLDERS: dict[Readers, int] = {"owner": 0o700, "group": 0o750, "all": 0o755}
_ON_THE_WAY: dict[Readers, int] = {"owner": 0o700, "group": 0o710, "all": 0o711}
"""Modes of folders that others may pass through but not list."""


def make_state_folders(settings: Settings) -> None:
    """Make the work folder and the store, where they are missing.

    Args:
        settings: Settings with the paths and the readers.

    Raises:
        UnavailableError: A folder cannot be made.
    """
    for folder in (settings.paths.work, settings.paths.store):
        _make(folder, 0o700, settings.bundle.readable_by)


def make_bundle_root(bundle: BundleSettings) -> None:
    """Make the bundle root where it is missing.

    Args:
        bundle: Settings with the bundle root and its readers.

    Raises:
        UnavailableError: The bundle root cannot be made.
    """
    root, readers = BundleRoot(bundle.root), bundle.readable_by
    for folder in (root.path, root.versions):
        _make(folder, _FOLDERS[readers], readers)


def make_folder_for(folder: Path, readers: Readers) -> None:
    """Make a folder that its readers may list, where it is missing.

    Args:
        folder: The folder.
        readers: Users who may read what is in it.

    Raises:
        UnavailableError: The folder cannot be made.
    """
    _make(folder, _FOLDERS[readers], readers)


def let_read(version: Path, readers: Readers) -> None:
    """Give the files and folders of a staged version exactly the permissions that its readers need.

    A file that is a hard link to the current version changes there, too.

    Args:
        version: Folder of the staged version.
        readers: Users who may read it.

    Raises:
        OSError: The permissions cannot be changed.
    """
    folder_mode = _FOLDERS[readers]
    for folder, _, names in os.walk(version):
        for name in names:
            _change(os.path.join(folder, name), folder_mode & 0o644)
        _change(folder, folder_mode)


def _change(path: str, mode: int) -> None:
    if stat.S_IMODE(os.stat(path, follow_symlinks=False).st_mode) != mode:
        with suppress(PermissionError):  # a link to a file of another user
            os.chmod(path, mode)


def _make(folder: Path, mode: int, readers: Readers) -> None:
    try:
        _make_with_parents(folder, mode, readers)
    except OSError as error:
        raise_if_exhausted(error, f"{folder} cannot be written now")
        raise UnavailableError(
            f"{folder} cannot be written: {error.strerror}", suggestion="check permissions and disk space"
        ) from error


def _make_with_parents(folder: Path, mode: int, readers: Readers) -> None:
    if folder.is_dir():
        return
    cache = cache_home()
    for above in reversed(folder.parents):
        in_cache = cache in (above, above.parent)
        if (above.name == HOME_FOLDER or in_cache) and not above.is_dir():
            _make_one(above, _ON_THE_WAY[readers])
        elif not above.is_dir():
            above.mkdir(exist_ok=True)
    _make_one(folder, mode)


def _make_one(folder: Path, mode: int) -> None:
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
        folder.chmod(mode)

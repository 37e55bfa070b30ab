"""The hidden folder a version is written into: locked while somebody works on it, removed when nobody will again.

A folder without a manifest is of use only to its writer, who holds its lock: unlocked, it was abandoned. The same holds
for the folder of an import, which publishes what it unpacks. Any other folder with a manifest waits up to a day for a
later process to verify or publish it.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from codequarry.schemas.bundle.layout import IMPORT_PREFIX, STAGING_PREFIX, BundlePaths, BundleRoot
from codequarry.schemas.errors import BusyError
from codequarry.serving.files.lease import sole_user

_ABANDONED_AFTER_S = 24 * 3600
_ATTEMPTS = 3


@contextmanager
def new_staging_folder(root: BundleRoot, prefix: str = STAGING_PREFIX) -> Iterator[Path]:
    """Create an empty folder, and lock it for the block.

    Args:
        root: Bundle root.
        prefix: Prefix of its name: STAGING_PREFIX or IMPORT_PREFIX.

    Yields:
        The folder.

    Raises:
        OSError: The folder cannot be created.
    """
    root.versions.mkdir(parents=True, exist_ok=True)
    for attempt in range(_ATTEMPTS):
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=root.versions))
        with sole_user(folder) as alone:
            # A cleaner may have taken it for abandoned before it was locked. Without working locks nobody is ever
            # alone, and a cleaner never removes.
            if folder.is_dir() and (alone or attempt == _ATTEMPTS - 1):
                yield folder
                return
        _remove(folder)


@contextmanager
def using(folder: Path) -> Iterator[None]:
    """Lock a staged version for the block.

    Args:
        folder: Its folder; nothing is locked when it is absent.

    Yields:
        Nothing.

    Raises:
        BusyError: Another process works on it.
    """
    if not folder.is_dir():
        yield
        return
    with sole_user(folder) as alone:
        if not alone:
            raise BusyError(
                "another process verifies or publishes the staged version",
                suggestion="wait for it to finish, then run again",
            )
        yield


def remove_abandoned(root: BundleRoot, own: Path | None = None) -> list[str]:
    """Remove the staging folders nobody works on or will publish, and what was written beside them.

    Args:
        root: Bundle root.
        own: Folder of the caller that nobody else waits for, however young.

    Returns:
        Names of what was removed.
    """
    removed: list[str] = []
    for path in sorted(root.versions.glob(f"{STAGING_PREFIX}*")):
        folder = path.with_name(staging_name(path))
        if folder != path:
            if path.exists() and not folder.exists():
                _remove(path)
                removed.append(path.name)
            continue
        try:
            with sole_user(folder) as alone:
                if alone and (folder == own or is_abandoned(folder)):
                    for part in (*root.versions.glob(f"{folder.name}.*"), folder):
                        _remove(part)
                    removed.append(folder.name)
        except OSError:
            continue  # somebody else removed it meanwhile
    return removed


def staging_name(path: Path) -> str:
    """Return the name of the staging folder that a path beside it belongs to, `.staging-x` of `.staging-x.bm25`.

    >>> staging_name(Path(".staging-x.bm25")), staging_name(Path(".staging-x"))
    ('.staging-x', '.staging-x')
    """
    return "." + path.name[1:].partition(".")[0]


def is_abandoned(folder: Path) -> bool:
    """Return whether nobody will publish an unlocked folder: it is incomplete, of an import, or a day old."""
    waits = BundlePaths(folder).manifest.is_file() and not folder.name.startswith(IMPORT_PREFIX)
    return not waits or time.time() - folder.stat().st_mtime > _ABANDONED_AFTER_S


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)

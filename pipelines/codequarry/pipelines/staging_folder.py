"""The hidden folder a version is written into: locked while somebody works on it, removed when nobody will again.

A folder without a manifest is of use to its writer alone, who holds its lock: unlocked, it was abandoned. So was that
of an import, which publishes what it unpacks. One with a manifest waits for verification or publication by a later
process, and is given a day.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from codequarry.schemas.errors import BusyError
from codequarry.schemas.holds import sole_user
from codequarry.schemas.layout import IMPORT_PREFIX, STAGING_PREFIX, BundlePaths, BundleRoot

_ABANDONED_AFTER_S = 24 * 3600
_ATTEMPTS = 3


@contextmanager
def new_staging_folder(root: BundleRoot, prefix: str = STAGING_PREFIX) -> Iterator[Path]:
    """An empty folder, locked for the block. prefix: or IMPORT_PREFIX. Raises OSError: it cannot be made."""
    root.versions.mkdir(parents=True, exist_ok=True)
    for attempt in range(_ATTEMPTS):
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=root.versions))
        with sole_user(folder) as alone:
            # Between its making and its lock a cleaner may have taken it for abandoned. Where locks do not work nobody
            # is ever alone, and a cleaner never removes.
            if folder.is_dir() and (alone or attempt == _ATTEMPTS - 1):
                folder.chmod(0o755)
                yield folder
                return
        _remove(folder)


@contextmanager
def using(folder: Path) -> Iterator[None]:
    """Keep a staged version for the block. Raises BusyError: another process works on it."""
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

    own: a folder of the caller's that nobody else waits for, however young.

    Returns their names.
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
    """Name of the staging folder that a path beside it belongs to, `.staging-x` of `.staging-x.bm25`.

    >>> staging_name(Path(".staging-x.bm25")), staging_name(Path(".staging-x"))
    ('.staging-x', '.staging-x')
    """
    return "." + path.name[1:].partition(".")[0]


def is_abandoned(folder: Path) -> bool:
    """Whether nobody will publish an unlocked folder: it is incomplete, of an import, or a day old."""
    waits = BundlePaths(folder).manifest.is_file() and not folder.name.startswith(IMPORT_PREFIX)
    return not waits or time.time() - folder.stat().st_mtime > _ABANDONED_AFTER_S


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)

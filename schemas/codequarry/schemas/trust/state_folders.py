"""The folder ``.codequarry``: finding the right one, and checking that it may be believed.

Codequarry assumes that it wrote what lies there, on this machine. A repository can bring such a folder along:
committed, or with links that make publish, retention and clean-up work somewhere else. Such a folder is refused.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from codequarry.schemas.errors import UntrustedError
from codequarry.schemas.trust.git_index import git_top, tracked_below
from codequarry.schemas.trust.privileges import is_inside
from codequarry.schemas.trust.state_home import HOME_FOLDER, is_cached, require_own_cache, state_base

_BUNDLES = Path(HOME_FOLDER) / "bundles"
_CHILDREN = ("CURRENT", "refs", "versions", "verdicts", ".publishing", ".publish.lock")
"""Entries of a bundle root that are written through."""


def require_own_state(places: Iterable[Path]) -> None:
    """Refuse places below a ``.codequarry`` that git tracks or that links lead out of.

    Args:
        places: Store, work folder, bundles and logs, as absolute paths with their links. Places below no
            ``.codequarry`` were named by somebody and are not checked.

    Raises:
        UntrustedError: A place is refused.
        SourceError: The index of its repository cannot be read.
    """
    homes: set[Path] = set()
    for place in places:
        place = Path(os.path.normpath(place))
        if (home := _home_of(place)) is None:
            continue
        if home not in homes:
            homes.add(home)
            if is_cached(home):
                require_own_cache(home.parent)
            _refuse_link(home, home, only_inside=False)
            require_untracked(home)
        below = [each for each in (place, *place.parents) if home in each.parents]
        for each in (*below, *(place / name for name in _CHILDREN)):
            _refuse_link(each, home)


def require_own_links(places: Iterable[Path]) -> None:
    """Refuse a ``.codequarry`` with a link out of itself anywhere below the places; for commands that write there.

    Args:
        places: Absolute paths, with their links.

    Raises:
        UntrustedError: There is such a link.
    """
    for place in places:
        place = Path(os.path.normpath(place))
        if (home := _home_of(place)) is not None:
            for link in _links(place):
                _refuse_link(link, home)


def require_untracked(place: Path) -> None:
    """Raise UntrustedError when git tracks a place or anything in it."""
    resolved = Path(os.path.realpath(place))
    top = git_top(resolved.parent)
    if top is None or not (name := tracked_below(resolved, top)):
        return
    raise UntrustedError(
        f"{place} is tracked by git ({name!a}), so it came with the repository; state is only used where "
        "codequarry itself made it",
        suggestion=f"remove it with `git rm -r {place.name}` in {place.parent}, or name other places with --root and "
        "--settings",
    )


def nearest_home(here: Path, settings_file: str) -> Path:
    """Return the folder whose settings and bundles answer a question asked in a folder.

    It is the folder itself, or the nearest one above with a settings file or ``.codequarry/bundles``, which may lie in
    the user's cache. The search ends at the top of the git work tree, the home folder or the file system, and below any
    folder that everybody may write.

    Args:
        here: Folder in which the question is asked.
        settings_file: Name of the settings file.

    Returns:
        The folder found, or the folder itself when there is none.

    Raises:
        UntrustedError: The folder found belongs to another user.
        SettingsError: ``CODEQUARRY_HOME`` is no absolute path.
    """
    home, device = Path(os.path.realpath(os.path.expanduser("~"))), here.stat().st_dev
    for folder in (here, *here.parents):
        status = folder.stat()
        if folder != here and (status.st_dev != device or status.st_mode & stat.S_IWOTH):
            break
        bundles = state_base(folder, writing=False) / _BUNDLES
        marks = [mark for mark in (folder / settings_file, bundles) if os.path.lexists(mark)]
        if marks:
            inside = [mark for mark in marks if folder in mark.parents]
            if folder != here and inside:
                _refuse_foreign((folder, *inside))
            return folder
        if folder == home or os.path.lexists(folder / ".git"):
            break
    return here


def _refuse_foreign(paths: Iterable[Path]) -> None:
    for path in paths:
        if path.lstat().st_uid != os.geteuid():
            raise UntrustedError(
                f"{path} belongs to another user, and is only used when it is named",
                suggestion="name it with --root or --settings, or work in its folder",
            )


def _home_of(place: Path) -> Path | None:
    """Return the last ``.codequarry`` that a path leads through; None when it leads through none."""
    return next((each for each in (place, *place.parents) if each.name == HOME_FOLDER), None)


def _refuse_link(path: Path, home: Path, *, only_inside: bool = True) -> None:
    if not path.is_symlink():
        return
    target = Path(os.path.realpath(path))
    if only_inside and is_inside(target, Path(os.path.realpath(home))):
        return
    raise UntrustedError(
        f"{path} is a link to {str(target)!a}, out of the folder that holds codequarry's state",
        suggestion="remove the link, and name the place itself with --root or in a file given by --settings",
    )


def _links(folder: Path) -> Iterator[Path]:
    pending = [os.fspath(folder)]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        yield Path(entry.path)
                    elif entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
        except (FileNotFoundError, NotADirectoryError):  # made later, or removed meanwhile
            continue

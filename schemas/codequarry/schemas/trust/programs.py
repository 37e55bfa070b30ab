"""Places that programs may come from: the user's own data folder, and entries of PATH that no repository controls."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from codequarry.schemas.trust.git_index import git_top
from codequarry.schemas.trust.privileges import is_inside
from codequarry.schemas.trust.user_folders import data_folder


def tools_folder() -> Path:
    """Return the folder into which ``npm install --prefix`` puts indexers that only codequarry uses."""
    return data_folder() / "tools"


def find_program(name: str, repositories: Iterable[Path] = (), *, tools: bool = False) -> Path | None:
    """Find a program by its name.

    Args:
        name: Name of the program.
        repositories: Folders that are being indexed. A relative entry of PATH is not used, nor one inside their
            repositories or the repository of the current folder: somebody else may have put the program there.
        tools: Look into the tools folder first.

    Returns:
        Path of the program; None when there is none.
    """
    own = str(tools_folder() / "node_modules" / ".bin") if tools else ""
    for places in filter(None, (own, safe_path(repositories))):
        if (program := shutil.which(name, path=places)) is not None:
            return Path(program)
    return None


def safe_path(repositories: Iterable[Path] = ()) -> str:
    """Return PATH without relative entries and without those inside of the repositories; see `find_program`."""
    tops = frozenset(map(_top, (*map(_resolved, repositories), _working_folder())))
    entries = filter(os.path.isabs, os.environ.get("PATH", os.defpath).split(os.pathsep))
    return os.pathsep.join(entry for entry in entries if not _is_inside_any(_resolved(Path(entry)), tops))


def _is_inside_any(folder: Path, tops: frozenset[Path | None]) -> bool:
    return any(top is not None and is_inside(folder, top) for top in tops)


def _top(folder: Path | None) -> Path | None:
    """Return the repository that a folder belongs to, or the folder itself; None when the user's home lies in it."""
    if folder is None:
        return None
    top = git_top(folder) or folder
    return None if is_inside(_resolved(Path(os.path.expanduser("~"))), top) else top


def _working_folder() -> Path | None:
    try:
        folder = Path.cwd()
    except FileNotFoundError:
        return None
    return folder if git_top(folder) else None


def _resolved(path: Path) -> Path:
    return Path(os.path.realpath(path))

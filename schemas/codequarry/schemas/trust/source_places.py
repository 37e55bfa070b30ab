"""Places that the repositories of a bundle root were read from, in the user's state folder.

They are remembered there and not in the bundle: a bundle names no path of a machine, and a folder that came with a
repository must not decide what is read.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, cast

from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.trust.user_folders import read_private, state_folder, write_private


def read_places(root: Path) -> dict[str, dict[str, Any]]:
    """Return what was remembered of each repository, by name; nothing when nothing was.

    Args:
        root: Bundle root.

    Returns:
        Fields ``path``, ``url``, ``ref`` and ``scip`` of each repository; a field that was not given is empty.

    Raises:
        UnavailableError: The record cannot be read, or others may have written it.
    """
    found = read_private(_record(root)).get("repositories", {})
    return cast("dict[str, dict[str, Any]]", found)


def remember_places(root: Path, places: dict[str, dict[str, Any]]) -> None:
    """Remember the places of a bundle root's repositories.

    Args:
        root: Bundle root.
        places: Fields of each repository, as `read_places` returns them.

    Raises:
        UnavailableError: The record cannot be written.
    """
    _remember(root, {"repositories": places})


def read_ref_places(root: Path) -> dict[str, dict[str, Any]]:
    """Return what was remembered of each further ref, by the name of its file; as `read_places` returns it."""
    return cast("dict[str, dict[str, Any]]", read_private(_record(root)).get("refs", {}))


def remember_ref_places(root: Path, places: dict[str, dict[str, Any]]) -> None:
    """Remember the places of further refs, by the name of the file of each; raises as `remember_places`."""
    _remember(root, {"refs": places})


def _remember(root: Path, fields: dict[str, Any]) -> None:
    before = read_private(_record(root))
    value = {**before, "root": str(root), **fields}
    if before != value:
        write_private(_record(root), value)


def local_folders(root: Path) -> dict[str, Path]:
    """Return the folders of repositories that were read as they are on this machine, not at a ref of theirs.

    Args:
        root: Bundle root.

    Returns:
        Folders by repository; none where the record cannot be read.
    """
    try:
        places = read_places(root)
    except UnavailableError:
        return {}
    return {
        name: Path(str(place["path"])) for name, place in places.items() if place.get("path") and not place.get("ref")
    }


def _record(root: Path) -> Path:
    digest = hashlib.sha256(os.fsencode(os.path.realpath(root))).hexdigest()
    return state_folder() / "sources" / f"{digest[:32]}.json"

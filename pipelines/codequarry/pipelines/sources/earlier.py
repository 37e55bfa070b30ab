"""Repositories of the published version: indexing a further one keeps them.

The places they were read from are remembered by `schemas.trust.source_places`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from codequarry.pipelines.sources.sources import repositories_by_name
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.settings.load import RepositorySettings, Settings
from codequarry.schemas.trust.git_head import head_branch_of
from codequarry.schemas.trust.source_places import read_places, remember_places
from codequarry.serving.files.integrity import current_manifest

Repositories = dict[str, RepositorySettings]

KEPT = "kept, read again from"
"""Beginning of the message of a repository that stays without being named."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Repositories that a run indexes, and what becomes of each one because of it."""

    settings: Settings
    fates: dict[str, str]
    """Message, by name, for each repository that is added, kept without being named, moved or dropped."""


def selected(settings: Settings, listed: tuple[RepositorySettings, ...], *, whole: bool, only: bool) -> Selection:
    """Return the repositories of the next version.

    Args:
        settings: Settings with the repositories that were asked for.
        listed: Repositories of the settings file.
        whole: The request is the settings file's list, which names all that the version holds.
        only: No other repository stays.

    Returns:
        The repositories to index, and messages about changes.

    Raises:
        InvalidArgumentError: A repository of CURRENT would stay and its place is unknown or gone, or another place has
            its name.
    """
    asked = repositories_by_name(settings.sources.repositories)
    manifest = current_manifest(BundleRoot(settings.bundle.root))
    before = [source.name for source in manifest.sources] if manifest is not None else []
    known = repositories_by_name(listed) | _recorded(settings.bundle.root)
    fates = {name: "added" for name in asked if before and name not in before}
    for name in (name for name in before if name in asked and name in known):
        fates |= _map_moved_repository(name, asked[name], known[name], by_name=bool(_given_name(settings, asked[name])))
    gone = [name for name in before if name not in asked]
    if whole or only:
        reason = "the settings file lists it no longer" if whole else "--only leaves it out"
        return Selection(settings, fates | dict.fromkeys(gone, f"dropped: {reason}"))
    kept = {name: _still_there(name, known.get(name), asked) for name in gone}
    fates |= {name: f"{KEPT} {each.place}" for name, each in kept.items()}
    together = {name: {**asked, **kept}[name] for name in dict.fromkeys((*before, *asked))}
    sources = settings.sources.model_copy(update={"repositories": tuple(together.values())})
    return Selection(settings.model_copy(update={"sources": sources}), fates)


def remember(settings: Settings) -> None:
    """Store the places that the repositories of a bundle root were read from.

    Args:
        settings: Settings with the repositories and the bundle root.

    Raises:
        UnavailableError: The record cannot be written.
    """
    listed = {
        name: {
            "path": str(_absolute(each.path)) if each.path is not None else "",
            "url": each.model_dump()["url"],  # without credentials
            "ref": each.ref,
            "branch": head_branch_of(each.path) if each.path is not None and not each.ref else "",
            "scip": [str(_absolute(file)) for file in each.scip],
        }
        for name, each in repositories_by_name(settings.sources.repositories).items()
    }
    remember_places(settings.bundle.root, listed)


def _recorded(root: Path) -> Repositories:
    read = {name: remembered_repository(name, value) for name, value in read_places(root).items()}
    return {name: each for name, each in read.items() if each is not None}


def remembered_repository(name: str, value: dict[str, Any]) -> RepositorySettings | None:
    """Return a repository from what was remembered of it; None when that is of another format."""
    given = {key: each for key, each in value.items() if each not in ("", []) and key != "branch"}
    try:
        return RepositorySettings.model_validate({"name": name, **given})
    except ValidationError:  # written by a version with another format: treated as not remembered
        return None


def _given_name(settings: Settings, repository: RepositorySettings) -> str:
    """Return the name that somebody gave the repository; "" when its name comes from its place."""
    return next(
        (each.name for each in settings.sources.repositories if each.place == repository.place and each.name), ""
    )


def _map_moved_repository(
    name: str, new: RepositorySettings, old: RepositorySettings, *, by_name: bool
) -> dict[str, str]:
    if (_where(new), new.ref) == (_where(old), old.ref):
        return {}
    another = _where(new) != _where(old)
    if another and not by_name and old.path is not None and old.path.is_dir():
        raise InvalidArgumentError(
            f"{name!r} is {old.place} in the published version, and {new.place} has the same name",
            suggestion=f"write `{name}=PATH` to replace it, or `another-name=PATH` to have both",
        )
    return {name: f"now read from {new.place}, before from {old.place}"}


def _where(repository: RepositorySettings) -> str:
    return str(_absolute(repository.path)) if repository.path is not None else repository.model_dump()["url"]


def _absolute(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _still_there(name: str, repository: RepositorySettings | None, asked: Repositories) -> RepositorySettings:
    if repository is not None and (repository.path is None or repository.path.is_dir()):
        return repository
    reason = f"{repository.path} is not there any more" if repository is not None else "its place is not known here"
    raise InvalidArgumentError(
        f"the published version holds the repository {name!r}, which was not named, and {reason}",
        suggestion=f"name it too, as in `codequarry index {' '.join(asked)} {name}=PATH`, or leave it out with --only",
    )

"""The repositories that a watch is about, and the folder whose settings it reads."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from codequarry.pipelines.cli.first_index import repository_around
from codequarry.pipelines.cli.repositories import over
from codequarry.pipelines.cli.watch.watched_tree import WatchedTree
from codequarry.pipelines.sources.earlier import selected
from codequarry.pipelines.sources.sources import repositories_by_name
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.errors import InvalidArgumentError, SourceError
from codequarry.schemas.settings.load import SETTINGS_FILE, RepositorySettings, Settings
from codequarry.schemas.trust.state_folders import nearest_home
from codequarry.serving.files.integrity import current_manifest


@dataclass(frozen=True, slots=True)
class Plan:
    """A watch before it begins."""

    settings: Settings
    """Settings with all repositories of a version."""
    trees: tuple[WatchedTree, ...]
    """The repositories that are watched."""
    notes: tuple[str, ...]
    """A sentence for each repository that is not watched."""


def folder_around(here: Path) -> Path:
    """Return the folder whose settings and index a watch without any name is about.

    Args:
        here: Current folder.

    Returns:
        The nearest folder with a settings file or bundles, else the top of the git work tree, else the folder itself.

    Raises:
        UntrustedError: The folder belongs to another user.
    """
    home = nearest_home(here, SETTINGS_FILE)
    if os.path.lexists(home / SETTINGS_FILE) or BundleRoot(home / ".codequarry" / "bundles").current.exists():
        return home
    return repository_around(here) or here


def plan_watch(own: Settings, given: list[str], here: Path) -> Plan:
    """Choose what is watched: what is given, else the settings' list, else what is published, else the work tree here.

    Args:
        own: The settings.
        given: Repositories of the command line.
        here: Folder that is watched when nothing else is named.

    Returns:
        The plan.

    Raises:
        InvalidArgumentError: Nothing can be watched, or what was given cannot.
        SourceError: A folder is missing.
    """
    listed = own.sources.repositories
    if given:
        asked = over(own, given)
        for each in asked.sources.repositories:
            if reason := _unwatchable(each):
                raise InvalidArgumentError(
                    f"{each.place} cannot be watched: {reason}",
                    suggestion="give a folder of this machine without #REF; `codequarry index` reads the others",
                )
    elif listed or current_manifest(BundleRoot(own.bundle.root)) is not None:
        asked = own
    else:
        if repository_around(here) is None:
            raise InvalidArgumentError(
                "nothing is published or listed here, and this folder is in no git work tree of yours",
                suggestion="name what to watch, as in `codequarry watch PATH`",
            )
        asked = over(own, [])
    settings = selected(asked, listed, whole=bool(listed) and not given, only=False).settings
    return _plan(settings)


def _plan(settings: Settings) -> Plan:
    root = BundleRoot(settings.bundle.root)
    own = [settings.paths.store, settings.paths.work, root.path, settings.telemetry.folder]
    trees: list[WatchedTree] = []
    notes: list[str] = []
    for name, each in repositories_by_name(settings.sources.repositories).items():
        if reason := _unwatchable(each):
            notes.append(f"{name} is not watched: {reason}; each version reads it again")
            continue
        assert each.path is not None
        if not each.path.is_dir():
            raise SourceError(f"{each.path} is no folder", suggestion="check the path of the repository")
        resolved = [Path(os.path.realpath(place)) for place in own]
        trees.append(WatchedTree(name, each.path, resolved, settings.sources.exclude))
    if not trees:
        raise InvalidArgumentError(
            "; ".join(notes) or "there is no repository to watch",
            suggestion="name a folder of this machine, as in `codequarry watch PATH`",
        )
    return Plan(settings, tuple(trees), tuple(notes))


def _unwatchable(repository: RepositorySettings) -> str:
    """Return why a repository cannot be watched; "" when it can."""
    if repository.path is None:
        return "it is fetched from a URL"
    return f"it is read at the ref {repository.ref}" if repository.ref else ""

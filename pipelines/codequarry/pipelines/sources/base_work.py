"""Outputs of the stages of a complete version, kept for the delta versions over it while a run changes the work folder.

A run that ends without a new complete version leaves the work folder ahead of the published one: it was killed, a gate
stopped it, or the delta version that is current holds these sources already. The next delta version needs the outputs
that belong to its base, so they are kept as links. Files of the work folder are replaced and never written into.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from codequarry.pipelines.sources.snapshot import Snapshot, read_snapshot
from codequarry.pipelines.store.parts import MENTIONS, MODULE_FACTS, plan_parts
from codequarry.pipelines.store.workspace import RepositoryWork, repository_work
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.bundle.manifest import Manifest, SourceEntry
from codequarry.schemas.errors import SourceError
from codequarry.schemas.settings.load import Settings
from codequarry.serving.files.integrity import base_of

_KEPT = "base"
"""Folder of the work folder with what is kept."""


def keep_base_work(current: Manifest | None, settings: Settings) -> None:
    """Keep the outputs that belong to the base of a delta version, before a run changes the work folder.

    What is kept already stays where the work folder is not that of the base any more.

    Args:
        current: Manifest of CURRENT; nothing is kept below a complete version.
        settings: Settings of the run, which holds the lock of the work folder.
    """
    if current is None or current.stack is None:
        return
    for source in base_of(BundleRoot(settings.bundle.root), current).sources:
        work = repository_work(settings.paths.work, source.name)
        if read_base_snapshot(work, source, settings) is None:
            continue
        kept = _kept_folder(settings) / source.name
        aside = kept.with_name(f".{source.name}.new")
        shutil.rmtree(aside, ignore_errors=True)
        shutil.copytree(work.path, aside, copy_function=_link_or_copy)
        shutil.rmtree(kept, ignore_errors=True)
        os.rename(aside, kept)


def drop_base_work(settings: Settings) -> None:
    """Remove what is kept, once a complete version is published that the work folder belongs to.

    Args:
        settings: Settings of the run.
    """
    shutil.rmtree(settings.paths.work / _KEPT, ignore_errors=True)


def find_base_work(source: SourceEntry, settings: Settings) -> tuple[RepositoryWork, Snapshot] | None:
    """Return the outputs of the stages that made a repository of a complete version.

    Args:
        source: The repository in the manifest of that version.
        settings: Settings of the run.

    Returns:
        A work folder of the repository, and its snapshot; None when a later run changed it and nothing is kept.
    """
    for work in base_work_folders(source.name, settings):
        if (snapshot := read_base_snapshot(work, source, settings)) is not None:
            return work, snapshot
    return None


def base_work_folders(name: str, settings: Settings) -> tuple[RepositoryWork, RepositoryWork]:
    """Return the folders that may hold the outputs of a base: the work folder of a repository, and what is kept."""
    return repository_work(settings.paths.work, name), RepositoryWork(_kept_folder(settings) / name)


def read_base_snapshot(work: RepositoryWork, source: SourceEntry, settings: Settings) -> Snapshot | None:
    """Return the snapshot of a work folder, if its stages made a repository of a version and are complete.

    Args:
        work: The work folder.
        source: The repository in the manifest of that version.
        settings: Settings of the run.

    Returns:
        The snapshot; None when the stages read something else, or did not end.
    """
    try:
        snapshot = read_snapshot(work)
        parts = plan_parts(work, settings)
        for part in parts:
            part.chunked()
    except SourceError:
        return None
    same = (snapshot.tree_sha256, snapshot.commit, snapshot.skipped) == (
        source.tree_sha256, source.commit, source.skipped,
    )  # fmt: skip
    whole = all(part.table(name).is_file() for part in parts for name in (MENTIONS, MODULE_FACTS))
    return snapshot if same and whole else None


def _kept_folder(settings: Settings) -> Path:
    return settings.paths.work / _KEPT / "repositories"


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # a file system without links
        shutil.copy2(source, target, follow_symlinks=False)

"""Which versions go after a publish, and how one is removed so that nobody ever sees half of it."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from codequarry.pipelines.durable import ASIDE, sync
from codequarry.pipelines.staging_folder import remove_abandoned
from codequarry.schemas.holds import sole_user
from codequarry.schemas.integrity import is_whole, unique_bytes
from codequarry.schemas.layout import REMOVED_PREFIX, BundleRoot
from codequarry.schemas.settings import BundleSettings

MIN_VERSIONS = 2


@dataclass(frozen=True, slots=True)
class Pruned:
    """What a prune did, or would do."""

    removed: tuple[str, ...]
    """Versions, oldest first."""
    held: tuple[str, ...]
    """Versions whose time has come, but which a reader holds."""
    leftovers: tuple[str, ...]
    """Folders that killed runs left."""
    freed_bytes: int
    """Bytes of the removed versions that no other version shares."""


def prune(root: BundleRoot, settings: BundleSettings, *, dry_run: bool = False) -> Pruned:
    """Remove the versions that retention does not keep. The caller holds the publish lock.

    Raises NoBundleError or IntegrityError: CURRENT names nothing, so that nothing may be removed. OSError: the disk
    refuses; versions are whole or gone.
    """
    leftovers = () if dry_run else tuple(settle(root))
    current = root.read_current().version
    removed: list[str] = []
    held: list[str] = []
    freed = 0
    for name in superfluous(root, current, settings):
        size = unique_bytes(root.version(name))
        if remove_version(root, name, dry_run=dry_run):
            removed.append(name)
            freed += size
        else:
            held.append(name)
    return Pruned(tuple(removed), tuple(held), leftovers, freed)


def superfluous(root: BundleRoot, current: str, settings: BundleSettings, now: datetime | None = None) -> list[str]:
    """Versions that neither count nor age keeps, oldest first; whether they are held is not asked.

    CURRENT stays, and so does the newest other whole version, to roll back to.
    """
    oldest = (now or datetime.now(UTC)) - timedelta(days=settings.keep_days)
    others = [name for name in reversed(root.version_names()) if name != current]
    kept = [name for name in others[: settings.keep_versions - 1] if settings.keep_days == 0 or created(name) >= oldest]
    if not any(is_whole(root.version(name)) for name in kept):
        kept += [name for name in others if is_whole(root.version(name))][: MIN_VERSIONS - 1]
    return [name for name in reversed(others) if name not in kept]


def created(version: str) -> datetime:
    """When a version was built, by its name.

    >>> created("20261121T120000Z-0123abcd").isoformat()
    '2026-11-21T12:00:00+00:00'
    """
    try:
        return datetime.strptime(version[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        return datetime.max.replace(tzinfo=UTC)  # no date at all: nothing says that it is old


def remove_version(root: BundleRoot, name: str, *, dry_run: bool = False) -> bool:
    """Remove a version, unless a reader holds it. Returns False when one does. Raises OSError: it cannot be renamed.

    The folder is renamed first, and the rename is on the disk before the first file goes: whatever dies in between, no
    half-removed version is ever listed.
    """
    paths = root.version(name)
    hidden = paths.path.with_name(f"{REMOVED_PREFIX}{name}")
    if paths.manifest.is_file():
        with sole_user(paths.manifest) as alone:
            if not alone:
                return False
            if not dry_run:
                os.rename(paths.path, hidden)
    elif not dry_run:
        os.rename(paths.path, hidden)
    if not dry_run:
        sync(root.versions)
        shutil.rmtree(hidden, ignore_errors=True)
    return True


def settle(root: BundleRoot) -> list[str]:
    """Clean up after runs that were killed. The caller holds the publish lock.

    A version whose publish began and never flipped CURRENT was never acknowledged, and goes. One that CURRENT names was
    published but for the acknowledgement, and stays: its flip is made durable before its mark is taken away.

    Returns the names of what was removed. Raises IntegrityError: CURRENT is damaged, so that nobody can say what was
    published. OSError: the disk refuses.
    """
    removed: list[str] = []
    if root.publishing.exists():
        if (begun := _never_published(root)) is not None and remove_version(root, begun):
            removed.append(begun)
        sync(root.path)
        root.publishing.unlink()
        sync(root.path)
    for file in root.path.glob(f".*{ASIDE}"):
        file.unlink()
    for folder in sorted(root.versions.glob(f"{REMOVED_PREFIX}*")):
        shutil.rmtree(folder, ignore_errors=True)
        removed.append(folder.name)
    return removed + remove_abandoned(root)


def _never_published(root: BundleRoot) -> str | None:
    """The version whose publish was cut off before its flip."""
    begun = root.read_publishing()
    if begun is None or not root.version(begun.version).path.exists():
        return None
    if os.path.lexists(root.current) and root.read_current().version == begun.version:
        return None
    return begun.version

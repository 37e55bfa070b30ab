"""Retention: the choice of versions to remove after a publish, and a removal that never shows half a version."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from codequarry.pipelines.bundle.folder import remove_abandoned
from codequarry.pipelines.store.durable import ASIDE, sync
from codequarry.schemas.bundle.layout import REMOVED_PREFIX, BundleRoot
from codequarry.schemas.bundle.refs import left_file, left_versions, read_refs
from codequarry.schemas.errors import CodequarryError
from codequarry.schemas.settings.load import BundleSettings
from codequarry.schemas.times import build_time
from codequarry.serving.files.integrity import is_whole, read_manifest, unique_bytes
from codequarry.serving.files.lease import sole_user
from codequarry.serving.files.version_order import ordered_versions

MIN_VERSIONS = 2


@dataclass(frozen=True, slots=True)
class Pruned:
    """Result of a prune, or of a dry run."""

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

    Args:
        root: Bundle root.
        settings: Number and age of versions to keep.
        dry_run: Only say what would be removed.

    Returns:
        Versions removed and held, leftovers, and freed bytes.

    Raises:
        NoBundleError: CURRENT is missing, so that nothing may be removed.
        IntegrityError: CURRENT or the file of a ref is damaged, so that nothing may be removed.
        OSError: The disk refuses; versions are whole or gone.
    """
    leftovers = () if dry_run else tuple(settle(root))
    current = root.read_current().version
    if not dry_run:
        _remove_marks(root, current)
    removed: list[str] = []
    held: list[str] = []
    freed = 0
    bases = bases_of(root, root.version_names())
    # What lies over a base goes before it.
    for name in sorted(superfluous(root, current, settings), key=lambda name: name in bases.values()):
        if name in {base for over, base in bases.items() if over not in removed}:
            held.append(name)
            continue
        size = unique_bytes(root.version(name))
        if remove_version(root, name, dry_run=dry_run):
            removed.append(name)
            freed += size
        else:
            held.append(name)
    return Pruned(tuple(removed), tuple(held), leftovers, freed)


def _remove_marks(root: BundleRoot, current: str) -> None:
    """Remove the marks of versions that are gone, and of those that a ref or CURRENT names after all."""
    named = {current, *(each.version for each in read_refs(root).values())}
    for version in left_versions(root) - (set(root.version_names()) - named):
        left_file(root, version).unlink(missing_ok=True)


def superfluous(root: BundleRoot, current: str, settings: BundleSettings, now: datetime | None = None) -> list[str]:
    """Return the versions that neither count nor age keeps, oldest first, including those that readers hold.

    CURRENT stays, and so does the newest other whole version, to roll back to, and so do the versions of refs, which do
    not count, and the bases of all that stay. The order is that of `version_order`:
    when a clock was set back, the last builds do not become the oldest.
    """
    now = now or datetime.now(UTC)
    since_year_1 = now - datetime.min.replace(tzinfo=UTC)
    oldest = now - timedelta(days=min(settings.keep_days, since_year_1.days))
    named = {current, *(each.version for each in read_refs(root).values())}
    others = [name for name in reversed(ordered_versions(root)) if name not in named]
    left = left_versions(root)
    own = [name for name in others if name not in left]
    kept = [name for name in own[: settings.keep_versions - 1] if settings.keep_days == 0 or created(name) >= oldest]
    if not any(is_whole(root.version(name)) for name in kept):
        kept += [name for name in own if is_whole(root.version(name))][: MIN_VERSIONS - 1]
    kept += bases_of(root, [*kept, *named]).values()
    return [name for name in reversed(others) if name not in kept]


def bases_of(root: BundleRoot, names: Iterable[str]) -> dict[str, str]:
    """Return the names of bases, by the name of each delta version over one.

    Args:
        root: Bundle root.
        names: Versions; one whose manifest cannot be read is left out, and so is a name of none.

    Returns:
        Bases by version.
    """
    found: dict[str, str] = {}
    for name in names:
        with suppress(CodequarryError):
            if (stack := read_manifest(root.version(name)).stack) is not None:
                found[name] = stack.base
    return found


def created(version: str) -> datetime:
    """Return the time at which a version was built, from its name.

    >>> created("20261121T120000Z-0123abcd").isoformat()
    '2026-11-21T12:00:00+00:00'
    """
    return build_time(version) or datetime.max.replace(tzinfo=UTC)  # no date at all: nothing says that it is old


def remove_version(root: BundleRoot, name: str, *, dry_run: bool = False) -> bool:
    """Remove a version, unless a reader holds it.

    The folder is renamed first, and the rename is on the disk before the first file goes: after a crash in between, no
    half-removed version is ever listed.

    Args:
        root: Bundle root.
        name: Name of the version.
        dry_run: Only ask whether a reader holds it.

    Returns:
        False when a reader holds it.

    Raises:
        OSError: The folder cannot be renamed.
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
        for file in (root.provenance(name), left_file(root, name)):
            if file.exists():
                with suppress(OSError):
                    file.unlink()
    return True


def settle(root: BundleRoot) -> list[str]:
    """Clean up after runs that were killed. The caller holds the publish lock.

    A version whose publish began and never flipped CURRENT was never acknowledged, and is removed. A version that
    CURRENT names lacks only the acknowledgement, and stays: its flip is made durable before its mark is removed.

    Args:
        root: Bundle root.

    Returns:
        Names of what was removed.

    Raises:
        IntegrityError: CURRENT is damaged, so that nobody can say what was published.
        OSError: The disk refuses.
    """
    removed: list[str] = []
    if root.publishing.exists():
        if (begun := _never_published(root)) is not None and remove_version(root, begun):
            removed.append(begun)
        sync(root.path)
        root.publishing.unlink()
        sync(root.path)
    for file in (*root.path.glob(f".*{ASIDE}"), *root.refs.glob(f".*{ASIDE}")):
        file.unlink()
    for folder in sorted(root.versions.glob(f"{REMOVED_PREFIX}*")):
        shutil.rmtree(folder, ignore_errors=True)
        removed.append(folder.name)
    return removed + remove_abandoned(root)


def _never_published(root: BundleRoot) -> str | None:
    """Return the version whose publish was cut off before its flip."""
    begun = root.read_publishing()
    if begun is None or not root.version(begun.version).path.exists():
        return None
    if os.path.lexists(root.current) and root.read_current().version == begun.version:
        return None
    return begun.version

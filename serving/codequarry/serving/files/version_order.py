"""Order of versions: by the number that each got when it was built, so that a clock set back cannot change it.

The number is that of the version before plus one, or the second of the build if that is more. So a number from another
bundle root, which an import brings, says when its version was built. A version without a number, or without a readable
manifest, counts as if the time in its name were its number.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.bundle.manifest import MAX_SEQUENCE, Manifest
from codequarry.schemas.bundle.refs import left_versions, sound_refs
from codequarry.schemas.errors import ResourcesError, UnavailableError
from codequarry.serving.files.integrity import read_manifest


def ordered_versions(root: BundleRoot) -> list[str]:
    """List the published versions, oldest first.

    Args:
        root: Bundle root.

    Returns:
        Names of the versions.

    Raises:
        ResourcesError: Manifests cannot be read now.
    """
    return [version for _, version in _places(root)]


def versions_before(root: BundleRoot, version: str) -> list[str]:
    """List versions built before this one, which may be gone; order and errors are those of `ordered_versions`.

    Versions of refs are left out: they hold other code.
    """
    place, other = (sequence_of(root, version), version), only_of_refs(root)
    return [each[1] for each in _places(root) if each < place and each[1] not in other]


def only_of_refs(root: BundleRoot) -> set[str]:
    """Return the versions that refs name or left, and CURRENT does not name, without those that others lie over."""
    named = {*left_versions(root), *(each.version for each in sound_refs(root).values())}
    with suppress(UnavailableError):
        named.discard(root.read_current().version)
    for name in root.version_names() if named else ():
        with suppress(UnavailableError):
            if (stack := read_manifest(root.version(name)).stack) is not None:
                named.discard(stack.base)
    return named


def next_sequence(root: BundleRoot, built: datetime) -> int:
    """Return the number of a version that is built now; raises as `ordered_versions`."""
    newest = max((number for number, _ in _places(root)), default=0)
    return min(max(newest + 1, int(built.timestamp())), MAX_SEQUENCE)


def sequence_of(root: BundleRoot, version: str) -> int:
    """Return the number of a version; raises as `ordered_versions`."""
    try:
        return place_of(version, read_manifest(root.version(version)))[0]
    except ResourcesError:
        raise
    except UnavailableError:
        return place_of(version, None)[0]  # one that is damaged or gone still has its place


def place_of(version: str, manifest: Manifest | None) -> tuple[int, str]:
    """Return what a version is sorted by, where its folder may be elsewhere.

    Args:
        version: Name of the version.
        manifest: Its manifest; None when it cannot be read.

    Returns:
        Its number, and its name for versions of one number.
    """
    number = manifest.sequence if manifest is not None else 0
    return number or _second_of(version), version


def _places(root: BundleRoot) -> list[tuple[int, str]]:
    return sorted((sequence_of(root, name), name) for name in root.version_names())


def _second_of(version: str) -> int:
    try:
        return int(datetime.strptime(version[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp())
    except (ValueError, OverflowError):
        return 0

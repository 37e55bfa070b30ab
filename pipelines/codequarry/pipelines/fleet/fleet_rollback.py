"""Rollback of a fleet, or of one bundle: what an earlier generation named becomes a new generation."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from pydantic import ValidationError

from codequarry.pipelines.fleet.fleet_store import FleetStore, KnownGeneration, time_now
from codequarry.schemas.bundle.manifest import Manifest, from_json
from codequarry.schemas.errors import (
    CodequarryError,
    IntegrityError,
    InvalidArgumentError,
    NotFoundError,
    PublishError,
)
from codequarry.schemas.fleet.generation import BundleEntry, FleetManifest, OriginEntry
from codequarry.schemas.wording import counted

_ROUNDS = 5
_WORKERS = 16


def roll_back_fleet(fleet: FleetStore, generation: int = 0) -> FleetManifest:
    """Put all bundles of an earlier generation back, as a new generation.

    Args:
        fleet: Place of the fleet.
        generation: The earlier generation; 0 for the one that was current before.

    Returns:
        The new generation.

    Raises:
        NotFoundError: There is no such generation, or a version or object of it is gone.
        IntegrityError: The generation, or a manifest it names, is damaged.
        InvalidArgumentError: It is current already.
        PublishError: Others replace the generation all the time.
        RemoteError: The store does not answer.
        UnavailableError: It refuses.
    """

    def make(known: KnownGeneration) -> FleetManifest:
        number = generation or known.manifest.origin.parent
        if not number:
            raise NotFoundError(
                "there is no generation before the current one",
                suggestion="name one of `codequarry fleet status --generations`",
            )
        if number == known.manifest.generation and known.sha256:
            raise InvalidArgumentError(
                f"generation {number} is current", suggestion="name an earlier one, or leave the number out"
            )
        old = fleet.read_generation(number)
        return _after(
            known, dict(old.bundles), OriginEntry(act="rollback", parent=known.manifest.generation, of=number), old
        )

    return _make_current(fleet, make, generation)


def roll_back_bundle(fleet: FleetStore, bundle: str, version: str = "") -> FleetManifest:
    """Put an earlier version of one bundle back, as a new generation.

    Args:
        fleet: Place of the fleet.
        bundle: Name of the bundle.
        version: The version; "" for the one that the newest earlier generation with another one names.

    Returns:
        The new generation.

    Raises:
        NotFoundError: No generation that is kept names it so, or an object of it is gone.
        InvalidArgumentError: It is current already, or a repository would be lost or lie in two bundles.
        IntegrityError: A generation, or the version's manifest, is damaged.
        PublishError: Others replace the generation all the time.
        RemoteError: The store does not answer.
        UnavailableError: It refuses.
    """

    def make(known: KnownGeneration) -> FleetManifest:
        held = known.manifest.bundles.get(bundle)
        if held is not None and held.version == version:
            raise InvalidArgumentError(
                f"{bundle} is at {version} already", suggestion="name another version, or leave it out"
            )
        old, entry = _earlier(fleet, known.manifest, bundle, version)
        bundles = {**known.manifest.bundles, bundle: entry}
        if held is not None and (lost := sorted(held.repositories.keys() - entry.repositories.keys())):
            raise InvalidArgumentError(
                f"{lost[0]} is not in {bundle} at {entry.version}, and would be lost",
                suggestion=f"roll the whole fleet back: `codequarry fleet rollback {old.generation}`",
            )
        origin = OriginEntry(act="rollback", parent=known.manifest.generation, of=old.generation, bundle=bundle)
        return _after(known, bundles, origin, known.manifest)

    return _make_current(fleet, make)


def _earlier(fleet: FleetStore, current: FleetManifest, bundle: str, version: str) -> tuple[FleetManifest, BundleEntry]:
    held = current.bundles.get(bundle)
    known: list[str] = []
    for number in reversed(fleet.generations()):
        if number >= current.generation:
            continue
        old = fleet.read_generation(number)
        entry = old.bundles.get(bundle)
        if entry is None or (held is not None and entry.version == held.version):
            continue
        if version in ("", entry.version):
            return old, entry
        known.append(entry.version)
    raise NotFoundError(
        f"no generation that is kept has {bundle} at {version or 'another version'}",
        suggestion=f"there are: {', '.join(dict.fromkeys(known)) or 'none'}",
    )


def _after(
    known: KnownGeneration, bundles: dict[str, BundleEntry], origin: OriginEntry, old: FleetManifest
) -> FleetManifest:
    manifest = known.manifest
    try:
        return FleetManifest(
            generation=manifest.generation + 1,
            created=time_now(),
            origin=origin,
            next_bundle=max(manifest.next_bundle, old.next_bundle),
            bundles=bundles,
            left_out={
                name: each
                for name, each in old.left_out.items()
                if not any(name in entry.repositories for entry in bundles.values())
            },
            statistics=old.statistics,
        )
    except ValidationError as error:
        message = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
        raise InvalidArgumentError(
            f"the bundles would not fit together: {message}", suggestion="roll the whole fleet back"
        ) from error


def _make_current(
    fleet: FleetStore, make: Callable[[KnownGeneration], FleetManifest], instead: int = 0
) -> FleetManifest:
    """Make a generation over the current one, and again when that is replaced meanwhile.

    Args:
        fleet: Place of the fleet.
        make: Makes the generation.
        instead: Generation to go on from when the current one is damaged; 0 for none.

    Returns:
        The new generation.
    """
    for _ in range(_ROUNDS):
        known = fleet.require_current(instead)
        manifest = make(known)
        back = [
            entry for name, entry in manifest.bundles.items()
            if not known.sha256 or (held := known.manifest.bundles.get(name)) is None or held.version != entry.version
        ]  # fmt: skip
        for entry in back:
            _require_whole(fleet, entry)
        if (made := fleet.make_current(manifest, known, [entry.version for entry in back])) is not None:
            return made
    raise PublishError(
        f"the generation could not be made current at {fleet.store.url}: others replace it all the time",
        suggestion="stop the builders, then roll back again",
    )


def _require_whole(fleet: FleetStore, entry: BundleEntry) -> None:
    """Raise when the manifest of a version is another one, or an object of it or of its base is not there."""
    manifest = _manifest(fleet, entry.version, entry.manifest_sha256)
    parts = [manifest]
    if (stack := manifest.stack) is not None:
        parts.append(_manifest(fleet, stack.base, stack.base_sha256))
    sizes = {each.sha256: each.size_bytes for part in parts for each in part.files}
    with ThreadPoolExecutor(_WORKERS, "rollback") as pool:
        found = dict(zip(sizes, pool.map(fleet.store.object_size, sizes), strict=True))
    if lost := [digest for digest, size in sizes.items() if found[digest] != size]:
        raise NotFoundError(
            f"{counted(len(lost), 'object')} of {entry.version} are gone from {fleet.store.url}",
            suggestion="roll back to another generation",
        )


def _manifest(fleet: FleetStore, version: str, sha256: str) -> Manifest:
    raw = fleet.store.read_manifest(version)
    if (found := hashlib.sha256(raw).hexdigest()) != sha256:
        raise IntegrityError(
            f"the manifest of {version} at {fleet.store.url} has sha256 {found[:12]}…, expected {sha256[:12]}…",
            suggestion="roll back to another generation",
        )
    try:
        return from_json(raw)
    except CodequarryError as error:
        raise IntegrityError(f"{version}: {error.message}", suggestion="roll back to another generation") from error

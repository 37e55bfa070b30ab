"""Retention of a fleet: generations, then versions that none names, then objects that no version names.

Objects of the versions that go are looked at each time, and every object now and then: what builds that ended early
left is in no version.
"""

from __future__ import annotations

from codequarry.pipelines.fleet.fleet_store import FleetStore
from codequarry.pipelines.publish.remote.push import is_young, manifests_in, remove_unnamed_objects
from codequarry.schemas.errors import NotFoundError
from codequarry.schemas.fleet.generation import generation_path

_SWEEP_EVERY = 50
"""Generations from one look at every object to the next."""


def remove_old_generations(fleet: FleetStore, keep: int) -> tuple[int, ...]:
    """Remove the generations beyond the newest ones, and what only they named.

    Young things stay: a builder may be about to name them. A generation that cannot be read stops the removal.

    Args:
        fleet: Place of the fleet.
        keep: Generations that stay, the current one included.

    Returns:
        The removed generations, oldest first.

    Raises:
        IntegrityError: A generation that stays is damaged, so that nobody knows what it names.
        FormatError: A program with another format wrote it.
        PublishError: The manifest of a version cannot be read.
        RemoteError: The store does not answer.
        UnavailableError: It refuses.
    """
    current = fleet.require_current().manifest.generation
    generations = fleet.generations()
    earlier = [number for number in generations if number <= current]
    never_current = [number for number, put in generations.items() if number > current and not is_young(put)]
    removed = (*earlier[:-keep], *never_current)
    if not removed:
        return ()
    _named_versions(fleet, set(removed))  # all that stay can be read
    fleet.store.delete_paths([generation_path(number) for number in removed])
    by_hand = fleet.store.read_current()  # a version that was pushed there by itself
    times = {version: put for version, put in fleet.store.version_times().items() if not is_young(put)}
    named = _named_versions(fleet) | ({by_hand.current.version} if by_hand is not None else set())
    unnamed = times.keys() - named
    manifests = manifests_in(fleet.store, unnamed)
    unnamed -= _named_versions(fleet)  # read anew: a builder may have named one meanwhile
    for version in sorted(unnamed):
        fleet.store.delete_version(version)
    digests = {entry.sha256 for version in unnamed & manifests.keys() for entry in manifests[version].files}
    remove_unnamed_objects(fleet.store, lambda: _statistics(fleet), None if current % _SWEEP_EVERY == 0 else digests)
    return removed


def _named_versions(fleet: FleetStore, but: set[int] | None = None) -> set[str]:
    """Return the versions that generations name, and their bases."""
    found: set[str] = set()
    for number in fleet.generations():
        if number not in (but or ()):
            try:
                bundles = fleet.read_generation(number).bundles.values()
            except NotFoundError:
                continue  # removed meanwhile
            found |= {name for entry in bundles for name in (entry.version, entry.base) if name is not None}
    return found


def _statistics(fleet: FleetStore) -> set[str]:
    found: set[str] = set()
    for number in fleet.generations():
        try:
            statistics = fleet.read_generation(number).statistics
        except NotFoundError:
            continue
        found |= {statistics.sha256} if statistics is not None else set()
    return found

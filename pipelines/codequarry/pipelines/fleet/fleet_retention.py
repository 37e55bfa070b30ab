"""Retention of a fleet: generations, then versions that none names, then objects that no version names."""

from __future__ import annotations

from codequarry.pipelines.fleet.fleet_store import FleetStore
from codequarry.pipelines.publish.remote.push import is_young, remove_unnamed_objects
from codequarry.schemas.errors import NotFoundError
from codequarry.schemas.fleet.generation import generation_path


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
    times = fleet.generations()
    earlier = [number for number in times if number <= current]
    never_current = [number for number, put in times.items() if number > current and not is_young(put)]
    removed = (*earlier[:-keep], *never_current)
    if not removed:
        return ()
    _named_versions(fleet, set(removed))  # all that stay can be read
    fleet.store.delete_paths([generation_path(number) for number in removed])
    by_hand = fleet.store.read_current()  # a version that was pushed there by itself
    named = _named_versions(fleet) | ({by_hand.current.version} if by_hand is not None else set())
    for version, put in fleet.store.version_times().items():
        if version not in named and not is_young(put) and version not in _named_versions(fleet):
            fleet.store.delete_version(version)
    remove_unnamed_objects(fleet.store, lambda: _statistics(fleet))
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

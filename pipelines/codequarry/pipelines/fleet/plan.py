"""Assignment of repositories to bundles: a table that is carried on, not a hash.

Every repository stays where it is. One moves only when its bundle has grown beyond the largest size, and then the
largest ones go, so that few are built anew. A large repository has a bundle of its own, and small ones share: a new one
goes to the fullest bundle that it still fits into, so that at most a few bundles are small.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from codequarry.schemas.fleet.generation import bundle_name, bundle_number


@dataclass(frozen=True, slots=True)
class BundleLimits:
    """Sizes of bundles."""

    aim: int
    """Chunks that a bundle is filled to; a repository with as many stands alone."""
    largest: int
    """Chunks beyond which a bundle gives up repositories; not below the aim."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The bundle of a repository, and why."""

    bundle: str
    chunks: int
    reason: str
    before: str = ""
    """Bundle it was in; "" for a new one."""


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """An assignment."""

    placements: Mapping[str, Placement]
    """Placements by repository, sorted."""
    gone: Mapping[str, str]
    """Bundle by name of each repository that is listed no longer."""
    next_bundle: int
    """Number of the next new bundle."""

    @property
    def bundles(self) -> dict[str, tuple[str, ...]]:
        """Repositories by bundle, both sorted."""
        found: dict[str, list[str]] = {}
        for name, placement in sorted(self.placements.items()):
            found.setdefault(placement.bundle, []).append(name)
        return {bundle: tuple(found[bundle]) for bundle in sorted(found, key=bundle_number)}


@dataclass
class _Bundles:
    """Bundles while they are filled."""

    limits: BundleLimits
    next_bundle: int
    chunks: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    """Chunks by bundle and repository."""

    def total(self, bundle: str) -> int:
        return sum(self.chunks[bundle].values())

    def add_new(self, name: str, size: int) -> str:
        bundle = bundle_name(self.next_bundle)
        self.next_bundle += 1
        self.chunks[bundle] = {name: size}
        return bundle

    def add_to_fullest(self, name: str, size: int) -> str:
        """Put a repository into the fullest bundle that is below the aim and has room; "" when there is none."""
        totals = {bundle: self.total(bundle) for bundle in self.chunks}
        fitting = [
            (-total, bundle_number(bundle), bundle)
            for bundle, total in totals.items()
            if total < self.limits.aim and total + size <= self.limits.largest
        ]
        if not fitting:
            return ""
        bundle = min(fitting)[2]
        self.chunks[bundle][name] = size
        return bundle

    def give_up(self, bundle: str) -> dict[str, int]:
        """Remove the largest repositories of a bundle until it is small enough, or one is left."""
        removed: dict[str, int] = {}
        while len(held := self.chunks[bundle]) > 1 and self.total(bundle) > self.limits.largest:
            name = min(held, key=lambda name: (-held[name], name))
            removed[name] = held.pop(name)
        return removed


def plan_fleet(
    sizes: Mapping[str, int], before: Mapping[str, str], limits: BundleLimits, next_bundle: int = 1
) -> FleetPlan:
    """Assign repositories to bundles.

    >>> plan_fleet({"a": 10, "b": 300, "c": 20}, {}, BundleLimits(100, 200)).bundles
    {'b0001': ('b',), 'b0002': ('a', 'c')}

    Args:
        sizes: Chunks by repository, measured or estimated.
        before: Bundle by repository, of the assignment before.
        limits: Sizes of bundles.
        next_bundle: Number of the next new bundle.

    Returns:
        The assignment: the same for the same arguments, in whatever order.
    """
    numbers = [bundle_number(bundle) for bundle in before.values()]
    bundles = _Bundles(limits, max([next_bundle, *(number + 1 for number in numbers)]))
    for name in sorted(sizes):
        if name in before:
            bundles.chunks.setdefault(before[name], {})[name] = sizes[name]
    placed = {
        name: Placement(bundle, size, "stays", bundle)
        for bundle, held in bundles.chunks.items()
        for name, size in held.items()
    }
    waiting = {name: "is new" for name in sizes if name not in before}
    for bundle in sorted(bundles.chunks, key=bundle_number):
        total = bundles.total(bundle)
        for name in bundles.give_up(bundle):
            waiting[name] = f"leaves {bundle}, which would have {total:,} chunks, more than {limits.largest:,}"
    for name in sorted(waiting, key=lambda name: (-sizes[name], name)):
        size, reason = sizes[name], waiting[name]
        bundle = "" if size >= limits.aim else bundles.add_to_fullest(name, size)
        if bundle:
            reason += ", and shares a bundle"
        else:
            bundle = bundles.add_new(name, size)
            reason += ", and is large enough for its own bundle" if size >= limits.aim else ", and begins a bundle"
        placed[name] = Placement(bundle, size, reason, before.get(name, ""))
    gone = {name: bundle for name, bundle in sorted(before.items()) if name not in sizes}
    return FleetPlan(dict(sorted(placed.items())), gone, bundles.next_bundle)

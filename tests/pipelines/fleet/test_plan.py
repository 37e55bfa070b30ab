"""Promises of the planner, for any fleet."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from codequarry.pipelines.fleet.plan import BundleLimits, FleetPlan, plan_fleet
from codequarry.schemas.fleet.generation import bundle_name

NAMES = st.sampled_from([f"r{number}" for number in range(25)])
SIZES = st.dictionaries(NAMES, st.integers(0, 300), max_size=25)
BEFORE = st.dictionaries(NAMES, st.integers(1, 6).map(bundle_name), max_size=25)
LIMITS = st.tuples(st.integers(1, 120), st.integers(0, 150)).map(lambda two: BundleLimits(two[0], two[0] + two[1]))


def totals(plan: FleetPlan, sizes: dict[str, int]) -> dict[str, int]:
    return {bundle: sum(sizes[name] for name in names) for bundle, names in plan.bundles.items()}


@given(SIZES, BEFORE, LIMITS)
def test_no_repository_is_lost_or_doubled(sizes: dict[str, int], before: dict[str, str], limits: BundleLimits) -> None:
    plan = plan_fleet(sizes, before, limits)
    assert Counter(name for names in plan.bundles.values() for name in names) == Counter(list(sizes))
    assert plan.gone == {name: bundle for name, bundle in before.items() if name not in sizes}


@given(SIZES, BEFORE, LIMITS)
def test_a_repository_moves_only_out_of_a_bundle_that_overflows(
    sizes: dict[str, int], before: dict[str, str], limits: BundleLimits
) -> None:
    plan = plan_fleet(sizes, before, limits)
    held = Counter(dict.fromkeys(before.values(), 0))
    for name, bundle in before.items():
        held[bundle] += sizes.get(name, 0)
    for name, placement in plan.placements.items():
        if name in before and held[before[name]] <= limits.largest:
            assert (placement.bundle, placement.reason) == (before[name], "stays")
        if placement.reason == "stays":
            assert placement.bundle == before[name]


@given(SIZES, BEFORE, LIMITS)
def test_bounds_hold(sizes: dict[str, int], before: dict[str, str], limits: BundleLimits) -> None:
    plan = plan_fleet(sizes, before, limits)
    for bundle, total in totals(plan, sizes).items():
        assert total <= limits.largest or len(plan.bundles[bundle]) == 1
    for name, placement in plan.placements.items():
        if placement.reason != "stays" and sizes[name] >= limits.aim:
            assert plan.bundles[placement.bundle] == (name,)


@given(SIZES, st.integers(1, 100))
def test_a_new_fleet_has_at_most_one_small_bundle(sizes: dict[str, int], aim: int) -> None:
    plan = plan_fleet(sizes, {}, BundleLimits(aim, 2 * aim))
    assert sum(total < aim for total in totals(plan, sizes).values()) <= 1


@given(SIZES, BEFORE, LIMITS, st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(
    sizes: dict[str, int], before: dict[str, str], limits: BundleLimits, random: st.DataObject
) -> None:
    def shuffled(items: dict[str, object]) -> dict[str, object]:
        pairs = list(items.items())
        random.shuffle(pairs)  # type: ignore[attr-defined]
        return dict(pairs)

    one, two = plan_fleet(sizes, before, limits), plan_fleet(shuffled(sizes), shuffled(before), limits)  # type: ignore[arg-type]
    assert (one, list(one.placements), one.bundles) == (two, list(two.placements), two.bundles)


@given(SIZES, BEFORE, LIMITS)
def test_a_plan_that_is_carried_on_changes_nothing(
    sizes: dict[str, int], before: dict[str, str], limits: BundleLimits
) -> None:
    first = plan_fleet(sizes, before, limits)
    again = plan_fleet(sizes, {name: each.bundle for name, each in first.placements.items()}, limits, first.next_bundle)
    assert again.bundles == first.bundles
    assert {each.reason for each in again.placements.values()} <= {"stays"}


@given(SIZES, BEFORE, LIMITS)
def test_the_name_of_a_new_bundle_was_never_given(
    sizes: dict[str, int], before: dict[str, str], limits: BundleLimits
) -> None:
    plan = plan_fleet(sizes, before, limits, next_bundle=5)
    new = plan.bundles.keys() - set(before.values())
    assert all(bundle_name(5) <= name < bundle_name(plan.next_bundle) for name in new)

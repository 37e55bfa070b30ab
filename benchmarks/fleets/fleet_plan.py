"""A plan for 5,000 repositories and 100 million chunks, simulated with the planner itself and measured costs.

Sizes of repositories are drawn from a lognormal distribution, pushes in proportion to the square root of the size over
the ten hours of a working day. Tasks are scheduled longest first, one core each. Everything else is arithmetic on the
costs of `benchmarks.fleets.fleet_costs`. The network, and machines that differ from this one, are not simulated.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable, Iterator
from dataclasses import astuple

import numpy as np

from benchmarks.fleets.fleet_costs import Costs, measure_costs
from benchmarks.report import Figure, percentile, print_figures
from codequarry.pipelines.fleet.plan import BundleLimits, FleetPlan, plan_fleet
from codequarry.schemas.settings.load import FleetSettings, ServingSettings

REPOSITORIES, CHUNKS = 5_000, 100_000_000
SPREAD = 2.0
"""Standard deviation of the logarithm of a size: half have fewer than 2,700 chunks, the largest millions."""
PUSHES_A_DAY, DAY_S, PUSHED_CHUNKS = 20_000, 36_000.0, 20
"""Pushes, the seconds over which they come, and the chunks that one changes."""
GROWTH_A_YEAR, NEW_A_YEAR = 1.3, 500
CORES = 16
"""Cores of a machine that builds or serves."""


def run() -> None:
    """Measure, simulate and print."""
    costs = measure_costs()
    print("\n## Costs of a bundle\n\n| chunks | first index, CPU-s | largest process, MB | version, MB | push, CPU-s "
          "| push, MB | look, ms | search, ms | reader, MB |\n|" + "---|" * 9)  # fmt: skip
    for each in costs.measured:
        print(
            "| "
            + " | ".join(f"{value:,}" if isinstance(value, int) else f"{value:,.2f}" for value in astuple(each))
            + " |"
        )
    random = np.random.default_rng(1)
    drawn = random.lognormal(0.0, SPREAD, REPOSITORIES)
    sizes = {f"r{n:04d}": int(size) for n, size in enumerate(np.maximum(1, drawn * CHUNKS / drawn.sum()))}
    started = time.perf_counter()
    plan = plan_fleet(sizes, {}, _limits())
    seconds = time.perf_counter() - started
    bundles = np.array([sum(sizes[name] for name in names) for names in plan.bundles.values()], np.float64)
    print_figures("Bundles", _bundles(sizes, plan, bundles, seconds, random))
    print_figures("First build", _first_build(sizes, bundles, costs))
    print_figures(f"A day of {PUSHES_A_DAY:,} pushes", _pushes(sizes, plan, bundles, costs, random))
    print_figures("Serving", _serving(bundles, costs))


def _limits() -> BundleLimits:
    fleet = FleetSettings()
    return BundleLimits(fleet.bundle_chunks, fleet.bundle_chunks_max)


def _bundles(
    sizes: dict[str, int], plan: FleetPlan, bundles: np.ndarray, seconds: float, random: np.random.Generator
) -> Iterable[Figure]:
    ordered = sorted(sizes.values())
    yield Figure("repositories, chunks", f"{len(sizes):,}, {sum(ordered):,}")
    yield Figure("chunks of a repository: median, 99th percentile, largest",
                 f"{percentile(ordered, 0.5):,}, {percentile(ordered, 0.99):,}, {ordered[-1]:,}")  # fmt: skip
    yield Figure("bundles, of which with one repository",
                 f"{len(bundles):,}, {sum(len(names) == 1 for names in plan.bundles.values()):,}")  # fmt: skip
    yield Figure("chunks of a bundle: median, largest", f"{np.median(bundles):,.0f}, {bundles.max():,.0f}")
    yield Figure("time of the planner", f"{seconds:.1f} s")
    grown = {name: int(size * random.lognormal(np.log(GROWTH_A_YEAR), 0.2)) for name, size in sizes.items()}
    grown |= {f"n{n:04d}": int(size) for n, size in enumerate(random.choice(list(sizes.values()), NEW_A_YEAR))}
    before = {name: placement.bundle for name, placement in plan.placements.items()}
    after = plan_fleet(grown, before, _limits(), plan.next_bundle)
    moved = [name for name in before if after.placements[name].bundle != before[name]]
    yield Figure(f"a year later, {GROWTH_A_YEAR:g} times the size, {NEW_A_YEAR} new: bundles, repositories moved",
                 f"{len(after.bundles):,}, {len(moved):,} of {len(before):,}")  # fmt: skip


def _first_build(sizes: dict[str, int], bundles: np.ndarray, costs: Costs) -> Iterable[Figure]:
    work = costs.at("index_cpu_s", bundles)
    yield Figure("CPU", f"{work.sum() / 3600:.0f} hours")
    for machines in (1, 4, 16):
        yield Figure(f"on {machines} machines of {CORES} cores, a bundle a core",
                     f"{_makespan(work, machines * CORES) / 3600:.1f} hours")  # fmt: skip
    yield Figure("the bundle that takes longest", f"{work.max() / 3600:.1f} hours")
    yield Figure("memory of a process: median, largest bundle",
                 f"{np.median(costs.at('index_mb', bundles)) / 1e3:.1f}, "
                 f"{costs.at('index_mb', bundles).max() / 1e3:.1f} GB")  # fmt: skip
    yield Figure("bytes of all versions", f"{costs.at('version_mb', bundles).sum() / 1e3:.0f} GB")


def _makespan(work: np.ndarray, cores: int) -> float:
    """Return the seconds that tasks take, each on one core, the longest first."""
    free = [0.0] * cores
    for seconds in sorted(work.tolist(), reverse=True):
        heapq.heapreplace(free, free[0] + seconds)
    return max(free)


def _pushes(
    sizes: dict[str, int], plan: FleetPlan, bundles: np.ndarray, costs: Costs, random: np.random.Generator
) -> Iterable[Figure]:
    places = {name: place for place, names in enumerate(plan.bundles.values()) for name in names}
    weights = np.sqrt(np.array(list(sizes.values()), np.float64))
    pushed = random.choice(np.array([places[name] for name in sizes]), PUSHES_A_DAY, p=weights / weights.sum())
    arrivals = list(zip(np.sort(random.uniform(0, DAY_S, PUSHES_A_DAY)).tolist(), pushed.tolist(), strict=True))
    service, whole = costs.at("push_cpu_s", bundles), costs.at("index_cpu_s", bundles) / 2
    yield Figure("chunks that pushes change in a day", f"{PUSHES_A_DAY * PUSHED_CHUNKS / bundles.sum():.2%} of all")
    for cores in (4, CORES, 4 * CORES):
        delays, builds = _queue(arrivals, service, cores)
        ordered = sorted(delays)
        yield Figure(f"{cores} cores: builds, from push to generation p50, p95, longest",
                     f"{sum(builds.values()):,}; {percentile(ordered, 0.5):.0f}, {percentile(ordered, 0.95):.0f}, "
                     f"{ordered[-1]:.0f} s")  # fmt: skip
    spent = sum(service[place] * count for place, count in builds.items())
    yield Figure(f"CPU of delta versions with {4 * CORES} cores", f"{spent / 3600:.0f} hours a day")
    sent = sum(costs.at("push_mb", bundles)[place] * count for place, count in builds.items())
    yield Figure("bytes of delta versions that are put", f"{sent / 1e3:.1f} GB a day")
    compactions = np.bincount(pushed, minlength=len(bundles)) * PUSHED_CHUNKS / (0.1 * bundles)
    yield Figure("complete versions where a tenth has changed (half the CPU of a first index each)",
                 f"{compactions.sum():.1f} and {(compactions * whole).sum() / 3600:.1f} CPU-hours a day")  # fmt: skip


def _queue(arrivals: list[tuple[float, int]], service: np.ndarray, cores: int) -> tuple[list[float], dict[int, int]]:
    """Simulate builders: pushes to one bundle that come before its build begins share it, one build of it at a time.

    Args:
        arrivals: Seconds and bundle of each push, in order.
        service: Seconds of a build by bundle, (b,).
        cores: Builds that run side by side.

    Returns:
        The seconds from each push to the end of its build, and the builds by bundle.
    """
    delays: list[float] = []
    builds: dict[int, int] = {}
    queue: dict[int, list[float]] = {}
    running: dict[int, list[float]] = {}
    ends: list[tuple[float, int]] = []
    pending: Iterator[tuple[float, int]] = iter([*arrivals, (float("inf"), -1)])
    arrival = next(pending)
    while arrival[1] >= 0 or ends:
        if not ends or arrival[0] < ends[0][0]:
            now, bundle = arrival
            queue.setdefault(bundle, []).append(now)
            arrival = next(pending)
        else:
            now, bundle = heapq.heappop(ends)
            delays.extend(now - pushed for pushed in running.pop(bundle))
        for ready in [name for name in queue if name not in running][: cores - len(running)]:
            running[ready] = queue.pop(ready)
            builds[ready] = builds.get(ready, 0) + 1
            heapq.heappush(ends, (now + float(service[ready]), ready))
    return delays, builds


def _serving(bundles: np.ndarray, costs: Costs) -> Iterable[Figure]:
    chosen = ServingSettings().fleet_bundles
    look, search = costs.at("choose_ms", bundles), costs.at("search_ms", bundles)
    whole = look.sum() + chosen * search.mean()
    yield Figure(f"CPU of a search without a filter: a look at every bundle, {chosen} searched",
                 f"{look.sum():.0f} + {chosen * search.mean():.0f} ms")  # fmt: skip
    yield Figure("CPU of a search in one repository", f"{search.mean():.1f} ms")
    for replicas in (8, 16, 32):
        shares = [slice(number, None, replicas) for number in range(replicas)]
        slowest = max(look[share].sum() for share in shares) + -(-chosen // replicas) * search.max()
        disk = max(costs.at("version_mb", bundles[share]).sum() for share in shares) / 1e3
        memory = max(costs.at("open_mb", bundles[share]).sum() for share in shares) / 1e3
        yield Figure(f"{replicas} replicas: disk and memory of the largest share", f"{disk:.0f} GB, {memory:.0f} GB")
        yield Figure(f"{replicas} replicas: slowest part of a search without a filter", f"{slowest:.0f} ms")
        rates = (1000 * replicas * CORES / cost for cost in (whole, float(search.mean())))
        yield Figure(f"{replicas} replicas of {CORES} cores: searches a second without a filter, in one repository",
                     ", ".join(f"{rate:,.0f}" for rate in rates))  # fmt: skip

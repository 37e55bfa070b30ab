"""The building of a fleet: plan, bundles that changed, and one generation that names all.

A build that ended early goes on where it was: bundles that were indexed are unchanged, and what was put does not travel
again. Of two builders at once, the one that comes second starts over from the generation of the first, which costs it
what that generation lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from codequarry.pipelines.fleet.bundle_builds import BuildMode, BuiltBundle, BundleTask, carry_bundle
from codequarry.pipelines.fleet.bundle_units import build_bundles
from codequarry.pipelines.fleet.fleet_retention import remove_old_generations
from codequarry.pipelines.fleet.fleet_store import FleetStore, KnownGeneration, time_now
from codequarry.pipelines.fleet.plan import BundleLimits, FleetPlan, plan_fleet
from codequarry.pipelines.fleet.repository_state import ask_heads, estimate_chunks, reason_to_build
from codequarry.pipelines.sources.sources import Heads, repositories_to_index
from codequarry.pipelines.store.access import make_folder_for
from codequarry.pipelines.store.workspace import Progress, exclusive, replacing, silent
from codequarry.schemas.errors import CodequarryError, InvalidArgumentError, PublishError, SourceError
from codequarry.schemas.fleet.generation import (
    BundleEntry,
    FailedAttempt,
    FleetManifest,
    OriginEntry,
    bundle_number,
    unlike_encoders,
)
from codequarry.schemas.settings.load import RepositorySettings, Settings
from codequarry.schemas.trust.state_folders import require_own_links

_ROUNDS = 5
"""Builds from generations that others made current meanwhile."""

_COMPLETE = BuildMode()

Tell = Callable[[str], None]
"""Called with a sentence about what happened."""


@dataclass(frozen=True, slots=True)
class PlannedFleet:
    """Work that lies before a build."""

    plan: FleetPlan
    reasons: Mapping[str, str]
    """Reason to look at each bundle, by name; "" for one that nothing can have changed."""
    left_out: Mapping[str, FailedAttempt]
    """New repositories that cannot be measured."""
    repositories: Mapping[str, RepositorySettings]
    heads: Heads


@dataclass(frozen=True, slots=True)
class FleetBuild:
    """Result of a build."""

    manifest: FleetManifest
    """The generation that is current now."""
    unchanged: bool
    """True when it was current before, and nothing was put."""
    bundles: tuple[BuiltBundle, ...]
    """Bundles that were looked at."""
    removed: tuple[int, ...] = ()
    """Generations that retention removed."""
    warnings: tuple[str, ...] = ()
    """Sentences about problems that did not stop the build."""

    @property
    def sent_bytes(self) -> int:
        """Bytes of objects that travelled."""
        return sum(each.pushed.sent_bytes for each in self.bundles if each.pushed is not None)

    @property
    def failures(self) -> dict[str, FailedAttempt]:
        """Failures that the generation names, by bundle or repository."""
        found = {name: entry.failed for name, entry in self.manifest.bundles.items() if entry.failed is not None}
        for entry in self.manifest.bundles.values():
            found |= {name: each.failed for name, each in entry.repositories.items() if each.failed is not None}
        return found | dict(self.manifest.left_out)


def plan_build(
    settings: Settings,
    parent: FleetManifest | None,
    progress: Progress = silent,
    *,
    all_bundles: bool = False,
    asked: Collection[str] | None = None,
) -> PlannedFleet:
    """Assign the repositories of the settings to bundles, and say which bundles have to be looked at.

    Args:
        settings: Settings of the fleet.
        parent: The generation that is current; None for none.
        progress: Told of the work done.
        all_bundles: Look at every bundle, as after an upgrade.
        asked: Names of the repositories that are asked for their heads, beside new ones; None for all. Failures of
            others are not tried again.

    Returns:
        The assignment with its reasons.

    Raises:
        InvalidArgumentError: There is no repository, two have the same name, or the encoder would be fitted to each
            bundle.
    """
    if settings.embedding.adapt:
        raise InvalidArgumentError(
            "[embedding] adapt fits the encoder to each bundle, so that the scores of a fleet would not compare",
            suggestion="set it to false, or take an encoder that was fitted before by [embedding] folder",
        )
    repositories = repositories_to_index(settings)
    before = parent.bundle_of if parent is not None else {}
    sizes: dict[str, int] = {}
    left_out: dict[str, FailedAttempt] = {}
    for number, (name, repository) in enumerate(repositories.items()):
        if parent is not None and name in before:
            sizes[name] = parent.bundles[before[name]].repositories[name].chunks
            continue
        if parent is not None and name in parent.left_out and asked is not None and name not in asked:
            left_out[name] = parent.left_out[name]
            continue
        try:
            sizes[name] = estimate_chunks(repository, settings)
        except SourceError as error:
            since = parent.left_out[name].since if parent is not None and name in parent.left_out else time_now()
            left_out[name] = FailedAttempt(since=since, error=error.message)
        progress("measuring new repositories", number + 1, len(repositories))
    limits = BundleLimits(settings.fleet.bundle_chunks, settings.fleet.bundle_chunks_max)
    plan = plan_fleet(sizes, before, limits, parent.next_bundle if parent is not None else 1)
    wanted = [name for name in sizes if asked is None or name in asked or name not in before]
    heads = ask_heads((repositories[name] for name in wanted), settings, progress)
    reasons = {
        bundle: reason_to_build(
            parent.bundles.get(bundle) if parent is not None else None,
            {name: repositories[name] for name in names},
            heads,
            settings,
        )
        or ("all are looked at" if all_bundles else "")
        for bundle, names in plan.bundles.items()
    }
    return PlannedFleet(plan, reasons, left_out, repositories, heads)


def build_fleet(
    settings: Settings,
    progress: Progress = silent,
    tell: Tell = lambda _sentence: None,
    *,
    mode: BuildMode = _COMPLETE,
    all_bundles: bool = False,
    asked: Collection[str] | None = None,
) -> FleetBuild:
    """Build the bundles whose repositories changed, put them into the store, and make a new generation current.

    Args:
        settings: Settings of the fleet.
        progress: Told of the work done.
        tell: Told of each bundle, and of generations that others make.
        mode: Kind of the versions, and regressions that are accepted.
        all_bundles: Look at every bundle, as after an upgrade.
        asked: As for `plan_build`.

    Returns:
        The generation that is current now.

    Raises:
        InvalidArgumentError: As `plan_build` does, or the settings do not say where the fleet lives.
        PublishError: Bundles have different encoders, no bundle could be built, or others replace the generation all
            the time.
        BusyError: Another process builds in this folder.
        IntegrityError: The generation that is current is damaged.
        RemoteError: The store does not answer.
        UnavailableError: The store or the disk refuses.
    """
    fleet = FleetStore.open(settings, create=True)
    folder = make_fleet_folder(settings)
    with exclusive(folder / ".lock", "building the fleet"):
        for _ in range(_ROUNDS):
            known = fleet.read_current()
            parent = known.manifest if known is not None else None
            planned = plan_build(settings, parent, progress, all_bundles=all_bundles, asked=asked)
            done = _build_over(known, planned, fleet, settings, progress, tell, mode)
            if done is not None:
                return done if done.unchanged else _with_retention(done, fleet, settings.fleet.keep_generations)
            tell("another builder made a generation current meanwhile; the build goes on from there")
    raise PublishError(
        f"the generation could not be made current at {fleet.store.url}: others replace it all the time",
        suggestion="build again; the bundles are there",
    )


def make_fleet_folder(settings: Settings) -> Path:
    """Make the folder of the bundles that are built here, and return it.

    Args:
        settings: Settings of the fleet.

    Returns:
        The folder.

    Raises:
        UnavailableError: It cannot be made, or a link leads to it that is not of this user.
    """
    folder = settings.fleet.folder
    require_own_links([folder])
    make_folder_for(folder, settings.bundle.readable_by)
    with replacing(folder / ".gitignore") as temporary:
        temporary.write_text("*\n", encoding="ascii")
    return folder


def _build_over(
    known: KnownGeneration | None,
    planned: PlannedFleet,
    fleet: FleetStore,
    settings: Settings,
    progress: Progress,
    tell: Tell,
    mode: BuildMode,
) -> FleetBuild | None:
    """Build a generation over the current one; None when that was replaced meanwhile."""
    parent = known.manifest if known is not None else None
    attempts = parent.left_out if parent is not None else {}
    tasks = {
        bundle: BundleTask(
            bundle,
            {name: planned.repositories[name] for name in names},
            parent.bundles.get(bundle) if parent is not None else None,
            attempts,
        )
        for bundle, names in planned.plan.bundles.items()
        if planned.reasons[bundle]
    }
    built = build_bundles(tasks, settings, fleet.store, progress, mode)
    for group in _linked_by_moves(planned.plan):
        _carry_together([bundle for bundle in group if bundle in built], tasks, built, planned.plan)
    for bundle, result in built.items():
        tell(describe_bundle(result, planned.reasons[bundle]))
    warnings = tuple(f"{bundle}: {text}" for bundle, result in built.items() for text in result.warnings)
    manifest = _compose(parent, planned, built)
    if parent is not None and manifest.same_contents(parent):
        return FleetBuild(parent, True, tuple(built.values()), warnings=warnings)
    if not manifest.bundles:
        first = next(iter(manifest.left_out.values()), None)
        raise PublishError(
            f"no bundle of the fleet could be built{f': {first.error}' if first else ''}",
            suggestion="see the messages about its repositories",
        )
    new = [each.pushed.manifest.version for each in built.values() if each.pushed is not None]
    made = fleet.make_current(manifest, known, new)
    return None if made is None else FleetBuild(made, False, tuple(built.values()), warnings=warnings)


def _with_retention(done: FleetBuild, fleet: FleetStore, keep: int) -> FleetBuild:
    """Remove old generations; what stops that is a warning, as the new one is current."""
    try:
        return replace(done, removed=remove_old_generations(fleet, keep))
    except CodequarryError as error:
        return replace(done, warnings=(*done.warnings, f"old generations are not removed: {error.message}"))


def _linked_by_moves(plan: FleetPlan) -> list[set[str]]:
    """Return the groups of bundles between which repositories move: all of a group change, or none."""
    groups: list[set[str]] = []
    for placement in plan.placements.values():
        if placement.before in ("", placement.bundle):
            continue
        linked = {placement.before, placement.bundle}
        apart = [group for group in groups if not group & linked]
        groups = [*apart, linked.union(*(group for group in groups if group & linked))]
    return groups


def _carry_together(
    group: Sequence[str], tasks: Mapping[str, BundleTask], built: dict[str, BuiltBundle], plan: FleetPlan
) -> None:
    """Let all bundles of a group go on as they were when one of them could not be built as planned."""
    moved = {name for name, placement in plan.placements.items() if placement.before not in ("", placement.bundle)}
    for bundle in group:
        entry = built[bundle].entry
        lacking = sorted((moved & tasks[bundle].repositories.keys()) - (entry.repositories.keys() if entry else set()))
        if built[bundle].outcome == "carried" or lacking:
            break
    else:
        return
    reason = built[bundle].error or next(
        (each.error for each in built[bundle].failed.values()), "it could not be built"
    )
    for other in group:
        built[other] = carry_bundle(tasks[other], f"repositories move together with those of {bundle}: {reason}")


def _compose(parent: FleetManifest | None, planned: PlannedFleet, built: Mapping[str, BuiltBundle]) -> FleetManifest:
    bundles: dict[str, BundleEntry] = {}
    left_out = dict(planned.left_out)
    for bundle in planned.plan.bundles:
        result = built.get(bundle)
        entry = result.entry if result is not None else parent.bundles[bundle] if parent is not None else None
        if entry is not None:
            bundles[bundle] = entry
        if result is not None:
            left_out |= {
                name: each for name, each in result.failed.items() if not entry or name not in entry.repositories
            }
    # What was to move away and could not is where it was.
    held = {name for entry in bundles.values() for name in entry.repositories}
    left_out = {name: each for name, each in sorted(left_out.items()) if name not in held}
    if different := unlike_encoders(bundles):
        raise PublishError(
            different,
            suggestion="`codequarry fleet build --all` builds every bundle with the encoder of the settings; "
            "nothing is current that was not before",
        )
    next_bundle = max([parent.next_bundle if parent is not None else 1, *(bundle_number(name) + 1 for name in bundles)])
    return FleetManifest(
        generation=parent.generation + 1 if parent is not None else 1,
        created=time_now(),
        origin=OriginEntry(act="build", parent=parent.generation if parent is not None else 0),
        next_bundle=next_bundle,
        bundles=bundles,
        left_out=left_out,
    )


def describe_bundle(result: BuiltBundle, reason: str) -> str:
    """Return a sentence about a bundle that was looked at.

    Args:
        result: Result of its building.
        reason: Why it was looked at.

    Returns:
        The sentence.
    """
    because = f" because {reason}" if reason else ""
    if result.entry is None:
        message = next((each.error for each in result.failed.values()), "")
        return f"{result.name} could not be built: {message}"
    if result.outcome == "carried":
        return f"{result.name} goes on as it was, {result.entry.version}: {result.error}"
    sent = f", {result.pushed.sent_bytes / 1e6:.2f} MB travelled" if result.pushed is not None else ""
    what = {"built": "is built anew", "delta": "gets a delta version", "unchanged": "is unchanged"}[result.outcome]
    return f"{result.name} {what}{because}: {result.entry.chunks:,} chunks, {result.entry.version}{sent}"

"""Bundles of a fleet that are built one by one, each in a run of its own, before one generation names them all.

The plan is kept beside the bundles, so that each of these runs need not measure and ask every repository again.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from codequarry.pipelines.fleet.bundle_builds import BuildMode, BuiltBundle, BundleTask, build_bundle
from codequarry.pipelines.fleet.fleet_build import PlannedFleet, make_fleet_folder, plan_build
from codequarry.pipelines.fleet.fleet_store import FleetStore
from codequarry.pipelines.sources.sources import repositories_to_index
from codequarry.pipelines.store.workspace import Progress, replacing, silent
from codequarry.schemas.errors import NotFoundError
from codequarry.schemas.fleet.generation import FleetManifest
from codequarry.schemas.settings.load import Settings
from codequarry.schemas.strict_model import StrictModel

_FILE = "plan.json"
_COMPLETE = BuildMode()


class _KeptPlan(StrictModel):
    """The repositories of each bundle, as planned over a generation."""

    generation: int
    bundles: dict[str, tuple[str, ...]]


def plan_bundles(
    settings: Settings, progress: Progress = silent, *, asked: Collection[str] | None = None
) -> tuple[FleetManifest | None, PlannedFleet]:
    """Plan the next generation, and keep the plan for `build_planned_bundle`.

    Args:
        settings: Settings of the fleet.
        progress: Told of the work done.
        asked: Names of the repositories that are asked for their heads, beside new ones; None for all.

    Returns:
        The current generation, None for none, and the plan.

    Raises:
        InvalidArgumentError: As `plan_build` does, or the settings do not say where the fleet lives.
        IntegrityError: The generation that is current is damaged.
        RemoteError: The store does not answer.
        UnavailableError: The store or the disk refuses.
    """
    folder = make_fleet_folder(settings)
    known = FleetStore.open(settings, create=True).read_current()
    parent = known.manifest if known is not None else None
    planned = plan_build(settings, parent, progress, asked=asked)
    kept = _KeptPlan(generation=_number(parent), bundles=planned.plan.bundles)
    with replacing(folder / _FILE) as temporary:
        temporary.write_text(kept.model_dump_json() + "\n", encoding="utf-8")
    return parent, planned


def build_planned_bundle(
    settings: Settings, bundle: str, progress: Progress = silent, *, mode: BuildMode = _COMPLETE
) -> BuiltBundle:
    """Index one bundle of the fleet and put its version into the store; the generation stays as it is.

    `build_fleet` finds the version in this folder and in the store, and names it in the next generation. Bundles may be
    built side by side.

    Args:
        settings: Settings of the fleet.
        bundle: Name of the bundle.
        progress: Told of the work done.
        mode: Kind of the version, and regressions that are accepted.

    Returns:
        The result.

    Raises:
        BusyError: Another process builds it.
        InvalidArgumentError: As `plan_bundles` does.
        NotFoundError: No repository of the settings is planned for a bundle of this name.
        RemoteError: The store does not answer.
        UnavailableError: The store or the disk refuses.
    """
    folder, fleet = make_fleet_folder(settings), FleetStore.open(settings, create=True)
    repositories = repositories_to_index(settings)
    known = fleet.read_current()
    parent = known.manifest if known is not None else None
    bundles = _kept_plan(folder / _FILE, parent)
    if not repositories.keys() >= {*bundles.get(bundle, ("",))}:
        parent, planned = plan_bundles(settings, progress, asked=())
        bundles = planned.plan.bundles
    if bundle not in bundles:
        raise NotFoundError(
            f"the fleet has no bundle {bundle}", suggestion=f"it has {', '.join(bundles) or 'no repository'}"
        )
    task = BundleTask(
        bundle,
        {name: repositories[name] for name in bundles[bundle]},
        parent.bundles.get(bundle) if parent is not None else None,
        parent.left_out if parent is not None else {},
    )
    return build_bundle(task, settings, fleet.store, progress, mode)


def _kept_plan(file: Path, parent: FleetManifest | None) -> dict[str, tuple[str, ...]]:
    """Return the repositories by bundle of the plan over a generation; empty when none is kept."""
    with suppress(OSError, ValidationError):
        kept = _KeptPlan.model_validate_json(file.read_bytes())
        if kept.generation == _number(parent):
            return kept.bundles
    return {}


def _number(parent: FleetManifest | None) -> int:
    return parent.generation if parent is not None else 0

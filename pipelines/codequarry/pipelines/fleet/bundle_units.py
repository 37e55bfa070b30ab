"""The bundles of a fleet as units of work: one after the other here, or beside each other on the nodes of Ray.

A node indexes a bundle in a folder of its own and puts it into the store itself, with the credentials of its own
environment. Only the entry of the generation comes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter

from codequarry.pipelines.compute.ray_cluster import NodeUnit, RayCluster
from codequarry.pipelines.fleet.bundle_builds import BuildMode, BuiltBundle, BundleTask, build_bundle
from codequarry.pipelines.fleet.fleet_store import FleetStore
from codequarry.pipelines.publish.remote.store import RemoteStore
from codequarry.pipelines.repository_units import settings_of_nodes
from codequarry.pipelines.sources.sources import repositories_by_name
from codequarry.pipelines.store.workspace import Progress
from codequarry.schemas.settings.load import RepositorySettings, Settings

_TASK = TypeAdapter(BundleTask)
_MODE = TypeAdapter(BuildMode)
_BUILT = TypeAdapter(BuiltBundle)


def build_bundles(
    tasks: Mapping[str, BundleTask], settings: Settings, store: RemoteStore, progress: Progress, mode: BuildMode
) -> dict[str, BuiltBundle]:
    """Build bundles and put them into the store.

    Args:
        tasks: The bundles by name.
        settings: Settings of the fleet.
        store: Place of the fleet.
        progress: Told of the work done.
        mode: Kind of the versions, and regressions that are accepted.

    Returns:
        Results by name, in the order of the tasks.

    Raises:
        BusyError: Another process builds one of them.
        InvalidArgumentError: No node has what a task asks for.
        MissingExtraError: Ray is asked for and not installed.
        RemoteError: The store does not answer.
        UnavailableError: The store refuses, or the cluster does not answer.
    """
    if not settings.compute.by_nodes or not tasks:
        return {name: build_bundle(task, settings, store, progress, mode) for name, task in tasks.items()}
    largest_first = sorted(tasks.values(), key=_size, reverse=True)
    units = [_unit_of(task, settings, mode) for task in largest_first]
    with closing(RayCluster(settings.compute, progress)) as cluster:
        answers = cluster.map(bundle_unit, units)
    built = {task.name: _BUILT.validate_python(each) for task, each in zip(largest_first, answers, strict=True)}
    return {name: built[name] for name in tasks}


def bundle_unit(common: str, item: dict[str, Any], progress: Progress) -> Any:
    """Build a bundle and put it into the store; a unit of work.

    Args:
        common: Settings as JSON, whose repositories are those of the bundle.
        item: The bundle without its repositories, and the mode.
        progress: Told of the work done.

    Returns:
        The result, as JSON can hold it.
    """
    settings = Settings.model_validate_json(common)
    task = replace(
        _TASK.validate_python(item["task"]), repositories=repositories_by_name(settings.sources.repositories)
    )
    store = FleetStore.open(settings, create=True).store
    built = build_bundle(task, settings, store, progress, _MODE.validate_python(item["mode"]))
    return _BUILT.dump_python(built, mode="json")


def _size(task: BundleTask) -> int:
    """Return the chunks of a bundle before; one that is new comes first."""
    return task.before.chunks if task.before is not None else 1 << 62


def _unit_of(task: BundleTask, settings: Settings, mode: BuildMode) -> NodeUnit:
    own = settings.model_copy(
        update={
            "sources": settings.sources.model_copy(
                update={"repositories": tuple(_with_whole_paths(each) for each in task.repositories.values())}
            ),
            "compute": settings.compute.model_copy(update={"engine": "processes"}),
        }
    )
    item = {"task": _TASK.dump_python(replace(task, repositories={}), mode="json"), "mode": _MODE.dump_python(mode)}
    return NodeUnit(item, settings_of_nodes(own), here=_needs_files_of_here(task, settings))


def _with_whole_paths(repository: RepositorySettings) -> RepositorySettings:
    """Return a repository whose path means the same in the folder of another process."""
    if repository.path is None:
        return repository
    return repository.model_copy(update={"path": repository.path.absolute()})


def _needs_files_of_here(task: BundleTask, settings: Settings) -> bool:
    """Return whether a bundle is made of files of this machine, or put into a folder of it."""
    second = settings.second_encoder
    return (
        settings.fleet.url.startswith("file:")
        or settings.embedding.folder is not None
        or (second is not None and second.folder is not None)
        or any(each.path is not None or each.scip for each in task.repositories.values())
    )

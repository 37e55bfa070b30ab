"""One partition per repository of the settings."""

from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg

from codequarry.assets.project import Project
from codequarry.pipelines.sources.sources import repositories_by_name
from codequarry.schemas.settings.load import Settings

PARTITIONS = "repos"
repositories = dg.DynamicPartitionsDefinition(name=PARTITIONS)


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """Differences between the registered partition keys and the settings."""

    missing: tuple[str, ...]
    """Repositories without a key, in settings order."""
    obsolete: tuple[str, ...]
    """Keys that the settings no longer name."""


def partition_change(registered: Sequence[str], settings: Settings) -> PartitionChange:
    """Compare the registered keys with the repositories of the settings."""
    wanted = repositories_by_name(settings.sources.repositories)
    return PartitionChange(
        missing=tuple(name for name in wanted if name not in registered),
        obsolete=tuple(key for key in registered if key not in wanted),
    )


def sync_partitions(instance: dg.DagsterInstance, settings: Settings) -> tuple[str, ...]:
    """Make the registered keys those of the settings, and return them in the order that ranges of keys follow."""
    change = partition_change(instance.get_dynamic_partitions(PARTITIONS), settings)
    if change.missing:
        instance.add_dynamic_partitions(PARTITIONS, list(change.missing))
    for key in change.obsolete:
        instance.delete_dynamic_partition(PARTITIONS, key)
    return tuple(instance.get_dynamic_partitions(PARTITIONS))


@dg.sensor(
    description="Keeps the partitions equal to the repositories of the settings: adds new ones, deletes removed ones.",
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def repository_partitions(
    context: dg.SensorEvaluationContext, project: dg.ResourceParam[Project]
) -> dg.SensorResult | dg.SkipReason:
    change = partition_change(context.instance.get_dynamic_partitions(PARTITIONS), project.settings())
    requests: list[dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest] = []
    if change.missing:
        requests.append(repositories.build_add_request(list(change.missing)))
    if change.obsolete:
        requests.append(repositories.build_delete_request(list(change.obsolete)))
    if not requests:
        return dg.SkipReason("the partitions are the repositories of the settings")
    return dg.SensorResult(dynamic_partitions_requests=requests)

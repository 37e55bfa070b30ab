"""The part of a run that concerns one repository alone, done here or as units of work in further processes.

A unit touches the folder of its repository and the store, and nothing else. So units of several repositories may run
beside each other: the store takes several writers. On a node of Ray they have a store and a folder of that node.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from time import monotonic, perf_counter
from typing import Any, Self, TypeVar

from pydantic import TypeAdapter

from codequarry.pipelines.compute.ray_cluster import NodeUnit, RayCluster
from codequarry.pipelines.compute.unit_processes import ToldUnit, UnitProcesses
from codequarry.pipelines.compute.work_units import processes_for
from codequarry.pipelines.embed.overlap import WriteBehind
from codequarry.pipelines.embed.stage import EmbeddingReport, RepositoryEmbedding, embed_repository
from codequarry.pipelines.modules.stage import ModuleReport, module_repository
from codequarry.pipelines.scip.stage import ScipReport, scip_repository
from codequarry.pipelines.sources.snapshot import Snapshot, snapshot_repository, snapshot_source
from codequarry.pipelines.sources.sources import open_source, repositories_by_name
from codequarry.pipelines.store.device_use import is_gpu
from codequarry.pipelines.store.parts import Part, unfinished_share
from codequarry.pipelines.store.stage_clock import StageClock
from codequarry.pipelines.store.workspace import Progress, in_unit, repository_work
from codequarry.pipelines.syntax.stage import ChunkReport, chunk_repository
from codequarry.schemas.resources import available_cores
from codequarry.schemas.settings.automation import NotifySettings
from codequarry.schemas.settings.embedding import EncoderSettings
from codequarry.schemas.settings.load import Settings
from codequarry.schemas.settings.service import AuthSettings
from codequarry.schemas.settings.sources import RepositorySettings

_PATIENCE_S = 1.0
"""Seconds of reading repositories in this process before others help: nobody knows yet how much there is to read."""
_BYTES_A_PROCESS = 2_000_000
"""Bytes of changed repositories that are worth a process: 5 CPU-seconds, of which its start takes one."""
_Report = TypeVar("_Report")


@dataclass(frozen=True, slots=True)
class RepositoryReports:
    """Results of the stages of one repository."""

    chunks: ChunkReport
    modules: ModuleReport
    scip: ScipReport
    embeddings: EmbeddingReport


class RepositoryEngine:
    """The stages of repositories, done in this process or in several, as ``[compute]`` says.

    Args:
        settings: Settings of the run.
        progress: Told of the work done.
        clock: Told of the time of each stage. The wall time of what went on side by side is divided among the stages
            by their work.
    """

    def __init__(self, settings: Settings, progress: Progress, clock: StageClock) -> None:
        self._settings = settings
        self._progress = progress
        self._clock = clock
        self._processes: UnitProcesses | None = None
        self._cluster = RayCluster(settings.compute, progress) if settings.compute.by_nodes else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the further processes; new ones are started when they are needed."""
        if self._processes is not None:
            self._processes.__exit__()
            self._processes = None
        if self._cluster is not None:
            self._cluster.close()

    def read(
        self, names: Sequence[str], stand_ins: Mapping[str, RepositorySettings] | None = None
    ) -> tuple[Snapshot, ...]:
        """Take the snapshot of each repository.

        Args:
            names: Names of repositories of the settings.
            stand_ins: Places that are read instead of those of the settings, by name; this process reads them.

        Returns:
            The snapshots in this order.

        Raises:
            SourceError: As `snapshot_repository` does.
        """
        repositories, instead = repositories_by_name(self._settings.sources.repositories), stand_ins or {}
        # Nodes fetch what has a URL; what lies on this machine is read here.
        fetched = [name for name in names if repositories[name].url and name not in instead] if self._cluster else []
        by_name = dict[str, Snapshot]()
        if fetched:
            done = self._map_nodes(read_unit, [self._unit(name) for name in fetched])
            by_name = {name: _from_json(Snapshot, each["snapshot"]) for name, each in zip(fetched, done, strict=True)}
        local = [name for name in names if name not in by_name]
        by_name |= zip(local, self._read_here(local, repositories, instead), strict=True)
        return tuple(by_name[name] for name in names)

    def _read_here(
        self,
        names: Sequence[str],
        repositories: Mapping[str, RepositorySettings],
        instead: Mapping[str, RepositorySettings],
    ) -> tuple[Snapshot, ...]:
        """Take the snapshots of repositories in processes of this machine."""
        here, started = list[Snapshot](), monotonic()
        most = processes_for(len(names), len(names), self._settings.compute)
        patience_s = 0.0 if self._settings.compute.processes else _PATIENCE_S
        patience_s = math.inf if instead else patience_s
        with self._clock.time("census"):
            for left, name in zip(range(len(names), 0, -1), names, strict=True):
                if min(left, most) > 1 and monotonic() - started >= patience_s:
                    break
                source = open_source(instead.get(name, repositories[name]), self._settings)
                here.append(snapshot_source(repositories[name], source, self._settings, self._progress))
        if not (elsewhere := names[len(here) :]):
            return tuple(here)
        done = self._map(read_unit, elsewhere, min(most, len(elsewhere)))
        return (*here, *(_from_json(Snapshot, each["snapshot"]) for each in done))

    def index(self, snapshots: Sequence[Snapshot]) -> tuple[RepositoryReports, ...]:
        """Run the stages from chunks to vectors for each repository.

        Args:
            snapshots: Their snapshots.

        Returns:
            Results in the order of the snapshots.

        Raises:
            CodequarryError: As the stages do.
        """
        names = [each.name for each in snapshots]
        new = self._new_bytes(snapshots)
        reports: dict[str, RepositoryReports] = {}
        largest_first = sorted(names, key=lambda name: -new.get(name, 0.0))
        if self._cluster is not None:
            repositories = repositories_by_name(self._settings.sources.repositories)
            # Indexes made elsewhere lie on this machine; what is unchanged is not worth the way.
            elsewhere = [name for name in largest_first if new[name] and not repositories[name].scip]
            units = [self._unit(name, sends=True) for name in elsewhere]
            done = self._map_nodes(index_unit, units) if units else []
        elif (count := self._processes_for_bytes(list(new.values()))) > 1:
            elsewhere = largest_first
            done = self._map(index_unit, elsewhere, count)
        else:
            elsewhere, done = [], []
        for name, each in zip(elsewhere, done, strict=True):
            reports[name] = self._with_vectors(name, each["reports"])
        for name in names:
            if name not in reports:
                reports[name] = _index_repository(name, self._settings, self._progress, self._clock)
        return tuple(reports[name] for name in names)

    def _new_bytes(self, snapshots: Sequence[Snapshot]) -> dict[str, float]:
        """Return about how many bytes of each repository are new; nothing is looked up where nothing is divided."""
        compute = self._settings.compute
        if not compute.by_nodes and (len(snapshots) < 2 or not compute.divides):
            return {}
        work = self._settings.paths.work
        return {
            each.name: each.size_bytes * unfinished_share(repository_work(work, each.name), self._settings)
            for each in snapshots
        }

    def _with_vectors(self, name: str, reports: dict[str, Any]) -> RepositoryReports:
        """Return the reports of a unit, after embedding what it left to this process."""
        if reports["embeddings"] is None:
            with self._clock.time("embed"):
                reports["embeddings"] = _to_json(embed_repository(name, self._settings, self._progress, whole=False))
        return _from_json(RepositoryReports, reports)

    def _processes_for_bytes(self, sizes: Sequence[float]) -> int:
        """Return the number of processes for repositories of which these bytes are new."""
        changed = [size for size in sizes if size]
        if len(changed) < 2:
            return 1
        count = processes_for(len(changed), sum(changed) / _BYTES_A_PROCESS, self._settings.compute)
        # Where one of them is most of the work, it gets all cores.
        return count if self._settings.compute.processes else min(count, int(sum(changed) / max(changed) + 0.5))

    def _unit(self, name: str, *, sends: bool = False) -> NodeUnit:
        only = repositories_by_name(self._settings.sources.repositories)[name]
        sources = self._settings.sources.model_copy(update={"repositories": (only,)})
        settings = settings_of_nodes(self._settings.model_copy(update={"sources": sources}))
        return NodeUnit(name, settings, repository_work(self._settings.paths.work, name).path, sends=sends)

    def _map_nodes(self, unit: ToldUnit, units: Sequence[NodeUnit]) -> list[dict[str, Any]]:
        """Do units on the nodes of the cluster, and add their seconds to the clock."""
        assert self._cluster is not None
        started = perf_counter()
        done = self._cluster.map(unit, units)
        return self._with_times(done, perf_counter() - started)

    def _map(self, unit: ToldUnit, names: Sequence[str], count: int) -> list[dict[str, Any]]:
        """Do a unit for each repository, and add its seconds to the clock."""
        self._processes = self._processes or UnitProcesses(self._progress)
        started = perf_counter()
        done = self._processes.map(unit, settings_of_units(self._settings, available_cores() // count), names, count)
        return self._with_times(done, perf_counter() - started)

    def _with_times(self, done: list[dict[str, Any]], wall_s: float) -> list[dict[str, Any]]:
        """Divide wall time among the stages of units by their seconds; return the units."""
        seconds, cpu_seconds = Counter[str](), Counter[str]()
        for each in done:
            seconds.update(each["seconds"])
            cpu_seconds.update(each["cpu_seconds"])
        share = wall_s / max(sum(seconds.values()), 1e-9)
        for stage, its in seconds.items():
            self._clock.add(stage, its * share, cpu_seconds[stage])
        return done


def read_unit(common: str, name: str, progress: Progress) -> dict[str, Any]:
    """Take the snapshot of a repository; a unit of work.

    Args:
        common: Settings as JSON.
        name: Name of the repository.
        progress: Told of the files read.

    Returns:
        The snapshot, and the seconds it took.
    """
    settings, clock = _settings(common), StageClock()
    repository = repositories_by_name(settings.sources.repositories)[name]
    with in_unit(settings), clock.time("census"):
        snapshot = snapshot_repository(repository, settings, progress)
    return {"snapshot": _to_json(snapshot), **_times(clock)}


def index_unit(common: str, name: str, progress: Progress) -> dict[str, Any]:
    """Run the stages from chunks to vectors for a repository; a unit of work.

    Args:
        common: Settings as JSON.
        name: Name of the repository.
        progress: Told of the work done.

    Returns:
        The reports, and the seconds by stage.
    """
    settings, clock = _settings(common), StageClock()
    with in_unit(settings):
        if _embeds_in_units(settings):
            reports = _to_json(_index_repository(name, settings, progress, clock))
        else:
            made = _understand(name, settings, progress, clock)
            reports = {**{stage: _to_json(report) for stage, report in made.items()}, "embeddings": None}
    return {"reports": reports, **_times(clock)}


def _index_repository(name: str, settings: Settings, progress: Progress, clock: StageClock) -> RepositoryReports:
    """Run the stages from chunks to vectors.

    Where there is a second core, a thread makes the vectors of the parts that are chunked: the chunk stage waits for
    its workers most of the time.
    """
    embedding = RepositoryEmbedding(name, settings)
    several = (settings.compute.processes or available_cores()) > 1
    with WriteBehind(overlap=several, finishes=False) as behind:
        made = _understand(
            name, settings, progress, clock, lambda parts: behind.put(partial(embedding.embed_early, parts))
        )
    with clock.time("embed"):
        embeddings = embedding.finish(progress, whole=False)
    clock.add("chunk", 0.0, -embedding.early_cpu_s)
    clock.add("embed", 0.0, embedding.early_cpu_s)
    return RepositoryReports(**made, embeddings=embeddings)


def _understand(
    name: str,
    settings: Settings,
    progress: Progress,
    clock: StageClock,
    complete: Callable[[Sequence[Part]], None] = lambda _: None,
) -> dict[str, Any]:
    """Return the reports of the stages before the vectors; ``complete`` is told of parts that are chunked."""
    with clock.time("chunk"):
        chunks = chunk_repository(name, settings, progress, whole=False, complete=complete)
    with clock.time("module"):
        modules = module_repository(name, settings, progress)
    with clock.time("scip"):
        scip = scip_repository(name, settings, progress)
    return {"chunks": chunks, "modules": modules, "scip": scip}


def _embeds_in_units(settings: Settings) -> bool:
    """Return whether units make vectors: not by a GPU or a server, which one process keeps busy, nor by torch.

    Nodes have no encoder of the user's own either, which lies on the machine of the run.
    """
    encoders: list[EncoderSettings | None] = [settings.embedding, settings.second_encoder]
    by_nodes = settings.compute.by_nodes
    return not (by_nodes and settings.embedding.adapt) and not any(
        each.endpoint or is_gpu(each.device) or each.by_transformers or (by_nodes and each.folder is not None)
        for each in encoders
        if each is not None
    )


def settings_of_units(settings: Settings, cores: int) -> str:
    """Return the settings for units as JSON.

    Addresses of repositories are whole, with the credentials that a dump leaves out: they go through a pipe, or to
    nodes, and to no disk.

    Args:
        settings: Settings of the run.
        cores: Cores that a unit uses; at least one.

    Returns:
        The settings.
    """
    cores = max(1, cores)
    values = settings.model_dump(mode="json")
    values["compute"]["processes"] = cores
    values["embedding"]["threads"] = settings.embedding.threads or cores
    for each, repository in zip(values["sources"]["repositories"], settings.sources.repositories, strict=True):
        each["url"] = repository.url
    return json.dumps(values)


def settings_of_nodes(settings: Settings) -> str:
    """Return the settings for units on nodes as JSON, without what is of no use there, as passwords.

    Args:
        settings: Settings of the run.

    Returns:
        The settings, as `settings_of_units` returns them.
    """
    bare = settings.model_copy(update={"notify": NotifySettings(), "auth": AuthSettings()})
    return settings_of_units(bare, settings.compute.task_cpus)


@lru_cache(maxsize=1)
def _settings(common: str) -> Settings:
    return Settings.model_validate_json(common)


def _times(clock: StageClock) -> dict[str, dict[str, float]]:
    return {"seconds": clock.seconds, "cpu_seconds": clock.cpu_seconds}


def _to_json(report: object) -> Any:
    return TypeAdapter(type(report)).dump_python(report, mode="json")


def _from_json(kind: type[_Report], value: Any) -> _Report:
    return TypeAdapter(kind).validate_python(value)

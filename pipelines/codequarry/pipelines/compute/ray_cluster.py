"""Nodes of a Ray cluster that do units of work, and the process that hands them out.

A unit is a task of Ray Core: when its node or its worker is lost, Ray does it again on another one. What fails for good
in that way is done by this process at the end, as with `unit_processes`. The work folder of a repository travels as an
object, so that nodes and this machine share no file system.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import signal
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from codequarry.pipelines.compute.portable_folder import apply_changes, pack_changes
from codequarry.pipelines.compute.unit_errors import error_of
from codequarry.pipelines.compute.unit_processes import ToldUnit, name_unit
from codequarry.pipelines.store.workspace import Progress
from codequarry.schemas.errors import InvalidArgumentError, UnavailableError
from codequarry.schemas.install_hints import missing_extra
from codequarry.schemas.resources import available_cores
from codequarry.schemas.settings.compute import ComputeSettings

_LOOK_S = 0.2
"""Seconds between two looks at the progress."""
_RETRIES = 3
"""Times that Ray does a task again whose node or worker was lost."""
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",  # it would report to its makers
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # otherwise it warns about its next version
}


@dataclass(frozen=True, slots=True)
class NodeUnit:
    """An item of a unit, and what travels with it."""

    item: Any
    settings: str
    """Settings as JSON, with the folders of this machine; a node puts its own in."""
    folder: Path | None = None
    """Work folder of the repository, into which the changes come; None where nothing travels."""
    sends: bool = False
    """The folder travels to the node as it is; otherwise the node starts with an empty one."""
    here: bool = False
    """It must be done on this machine, whose files it reads."""


class RayCluster:
    """Nodes that do large units while this process waits. It connects when there is the first unit.

    Args:
        compute: Settings of the cluster, and of the tasks.
        progress: Told of the work done.

    Raises:
        MissingExtraError: Ray is not installed.
    """

    def __init__(self, compute: ComputeSettings, progress: Progress) -> None:
        if find_spec("ray") is None:
            raise missing_extra('[compute] engine = "ray"', "ray", missing="ray")
        self._compute = compute
        self._progress = progress
        self._stack = ExitStack()
        self._connected: _Connection | None = None

    def close(self) -> None:
        """Leave the cluster; one that was started for this run ends."""
        self._connected = None
        self._stack.close()

    def map(self, unit: ToldUnit, units: Sequence[NodeUnit]) -> list[Any]:
        """Do a unit of work for each item, the first ones first.

        Args:
            unit: Its common value are the settings as JSON. What it raises is raised here.
            units: Items of the units.

        Returns:
            Results in the order of the items, through JSON in every case.

        Raises:
            InvalidArgumentError: No node has the cores and the memory of a task.
            UnavailableError: The cluster does not answer, or a node has other versions of what decides the result.
        """
        connection = self._connected = self._connected or self._stack.enter_context(_connected(self._compute))
        results: dict[int, Any] = {}
        running: dict[Any, int] = {}
        undone: list[int] = []
        left = iter(range(len(units)))
        most = 2 * connection.count_slots()
        while True:
            while len(running) < most and (number := next(left, None)) is not None:
                running[connection.submit(name_unit(unit), units[number])] = number
            for what, done, total in connection.take_progress():
                self._progress(what, done, total)
            if not running:
                break
            for reference in connection.wait(list(running)):
                number = running.pop(reference)
                if (answer := connection.receive(reference, units[number].folder)) is None:
                    undone.append(number)
                else:
                    results[number] = answer["result"]
        for number in sorted(undone):
            results[number] = json.loads(json.dumps(unit(units[number].settings, units[number].item, self._progress)))
        return [results[number] for number in range(len(units))]


class _Connection:
    """A cluster that this process is a driver of."""

    def __init__(self, compute: ComputeSettings) -> None:
        ray: Any = import_module("ray")
        strategies: Any = import_module("ray.util.scheduling_strategies")
        from codequarry.pipelines.compute import ray_node

        self._ray, self._node = ray, ray_node
        self._compute = compute
        self._slots = 0
        self._here = ray.get_runtime_context().get_node_id()
        needed: dict[str, Any] = {"num_cpus": compute.task_cpus, "memory": compute.task_memory_mb * 1_000_000}
        self._task = ray.remote(**needed, num_returns=2, max_retries=_RETRIES)(ray_node.do_task)
        beside = strategies.NodeAffinitySchedulingStrategy(self._here, soft=False)
        self._board = ray.remote(num_cpus=0, scheduling_strategy=beside)(ray_node.ProgressBoard).remote()
        self._tools, self._host = ray_node.describe_tools(), ray_node.describe_host()
        self._archives: dict[Any, Any] = {}

    def count_slots(self) -> int:
        """Count the tasks for which the nodes have cores and memory.

        Returns:
            Number of tasks, at least one.

        Raises:
            InvalidArgumentError: There is none.
        """
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        cpus, memory = self._compute.task_cpus, self._compute.task_memory_mb * 1_000_000
        slots = [
            int(min(node.get("CPU", 0) / cpus, node.get("memory", 0) / memory if memory else node.get("CPU", 0)))
            for node in nodes
        ]
        if not any(slots):
            largest = ", ".join(
                f"{node.get('CPU', 0):g} cores and {node.get('memory', 0) / 1e6:,.0f} MB" for node in nodes
            )
            raise InvalidArgumentError(
                f"no node of Ray has the {cpus} cores and {self._compute.task_memory_mb:,} MB of a task; they have: "
                f"{largest}",
                suggestion="set [compute] task_cpus and task_memory_mb to what a node has",
            )
        return sum(slots)

    def submit(self, unit: str, each: NodeUnit) -> Any:
        """Hand a unit to Ray.

        Args:
            unit: Function, as ``module:name``.
            each: Item of the unit, with its settings and folder.

        Returns:
            Reference of the answer.
        """
        repository = each.folder.name if each.folder is not None else ""
        folder = str(self._compute.node_folder or "")
        host = self._host if each.here else ""
        task = self._node.NodeTask(unit, each.settings, each.item, self._tools, folder, repository, host)
        archive = None
        if each.sends and each.folder is not None:
            archive = self._ray.put(np.frombuffer(pack_changes(each.folder, {}).archive, np.uint8))
        call = self._task.options(label_selector=self._labels_here()) if each.here else self._task
        answer, changes = call.remote(task, archive, self._board)
        self._archives[answer] = changes
        return answer

    def _labels_here(self) -> dict[str, str]:
        """Return the labels of nodes on this machine."""
        nodes = [node for node in self._ray.nodes() if node["Alive"]]
        own = next(node["NodeManagerHostname"] for node in nodes if node["NodeID"] == self._here)
        return {"ray.io/node-id": f"in({','.join(n['NodeID'] for n in nodes if n['NodeManagerHostname'] == own)})"}

    def wait(self, references: list[Any]) -> list[Any]:
        """Return the references whose answers are there; waits a moment for the first one."""
        return self._ray.wait(references, num_returns=1, timeout=_LOOK_S)[0]

    def take_progress(self) -> list[tuple[str, int, int]]:
        """Return what nodes said about their work since the last call."""
        try:
            return self._ray.get(self._board.take.remote())
        except self._ray.exceptions.RayError as error:
            raise _unreachable(self._compute, str(error)) from error

    def receive(self, reference: Any, folder: Path | None) -> dict[str, Any] | None:
        """Return an answer, and bring what changed into the folder.

        Args:
            reference: Reference of the answer.
            folder: Work folder of the repository; None where nothing travels.

        Returns:
            The answer; None when the task was lost with its node or worker, more often than Ray repeats it.

        Raises:
            UnavailableError: The node cannot do units.
            BaseException: What the unit raised.
        """
        errors = self._ray.exceptions
        changes = self._archives.pop(reference)
        try:
            answer, archive = self._ray.get([reference, changes])
        except (errors.RayTaskError, errors.RuntimeEnvSetupError) as error:
            raise UnavailableError(
                f"a node of Ray cannot do a task: {str(error).strip().splitlines()[-1]}",
                suggestion="install the same codequarry on each node, with the extras of this one",
            ) from error
        except errors.RayError:
            return None
        if "crashed" in answer:
            return None
        if "error" in answer:
            raise error_of(answer["error"])
        if folder is not None:
            apply_changes(folder, memoryview(archive), answer["removed"])
        return answer


@contextlib.contextmanager
def _connected(compute: ComputeSettings) -> Iterator[_Connection]:
    """Connect to the cluster of the settings, or start one on this machine, until the block ends."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    if not compute.address and "RAY_AUTH_MODE" not in os.environ:
        # A token of this process; otherwise Ray puts one into the home of the user, which later clusters would ask for.
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(16)}
    ray: Any = import_module("ray")
    given: dict[str, Any] = {"address": compute.address or "local"}
    if not compute.address:
        cores = compute.processes or available_cores()
        given |= {"num_cpus": max(cores, compute.task_cpus), "include_dashboard": False}
    main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM)
    # Ray lets its workers import modules from the current folder, which may be a repository that is being indexed.
    with tempfile.TemporaryDirectory() as empty, contextlib.chdir(empty):
        try:
            ray.init(**given, namespace="codequarry", log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, OSError, RuntimeError, ValueError) as error:
            raise _unreachable(compute, str(error)) from error
        finally:
            if main:
                signal.signal(signal.SIGTERM, handler)
    try:
        yield _Connection(compute)
    finally:
        ray.shutdown()


def _unreachable(compute: ComputeSettings, reason: str) -> UnavailableError:
    first = reason.strip().splitlines()[0] if reason.strip() else "no answer"
    if not compute.address:
        return UnavailableError(
            f"Ray cannot be started on this machine: {first}",
            suggestion='look into /tmp/ray/session_latest/logs, or set [compute] engine = "processes"',
        )
    return UnavailableError(
        f"no Ray cluster answers at [compute] address {compute.address!r}: {first}",
        suggestion="start its head with `ray start --head`, and on this machine `ray start --address HOST:PORT`; or "
        "leave the address empty for a Ray on this machine",
    )

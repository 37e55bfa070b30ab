"""The part of Ray's tasks that runs on a node: a unit in a process of its own, over folders of the node.

The process reads nothing of the current folder, and a crash of it is no crash of Ray's worker. It stays for the next
task of the worker. A node keeps its clones and its store from run to run. Scratch folders of tasks that were killed are
removed by later ones.
"""

from __future__ import annotations

import json
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from codequarry.pipelines.compute.portable_folder import apply_changes, list_states, pack_changes
from codequarry.pipelines.compute.unit_errors import describe_error
from codequarry.pipelines.compute.unit_processes import UnitProcess
from codequarry.pipelines.store.library_versions import tool_versions
from codequarry.pipelines.store.workspace import exclusive, repository_work
from codequarry.schemas.errors import BusyError, UnavailableError
from codequarry.schemas.trust.state_home import cache_home

_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class NodeTask:
    """A unit as it travels to a node."""

    unit: str
    """Function, as ``module:name``."""
    settings: str
    """Settings as JSON; the node puts its own folders in."""
    item: Any
    """Item of the unit."""
    tools: str
    """Versions of all that decides the result, as JSON: the node must have the same."""
    node_folder: str
    """Folder on each node; "" for one in the cache of the user."""
    repository: str = ""
    """Repository whose work folder travels; "" for none."""
    host: str = ""
    """Machine on which it must run, as `describe_host` returns it; "" for any."""


class ProgressBoard:
    """Progress of units on all nodes; an actor beside the process that shows it."""

    def __init__(self) -> None:
        self._lines: dict[str, tuple[int, int]] = {}

    def show(self, what: str, done: int, total: int) -> None:
        """Note the progress of a piece of work."""
        self._lines[what] = (done, total)

    def take(self) -> list[tuple[str, int, int]]:
        """Return what was noted since the last call."""
        lines, self._lines = self._lines, {}
        return [(what, *counts) for what, counts in lines.items()]


def describe_host() -> str:
    """Return a text that differs between machines, and between containers of a machine."""
    boot = _BOOT.read_text(encoding="ascii").strip() if _BOOT.exists() else ""
    return f"{socket.gethostname()} {boot}".strip()


def describe_tools() -> str:
    """Return the versions of all that decides the result of a unit, as JSON."""
    return json.dumps(tool_versions(), sort_keys=True)


def do_task(task: NodeTask, archive: Any, board: Any) -> tuple[dict[str, Any], Any]:
    """Do a unit on this node.

    Args:
        task: The unit.
        archive: Work folder of the repository as it is where the run is, uint8; None for an empty one.
        board: Actor that is told of the progress.

    Returns:
        ``result``, ``error`` or ``crashed``, and ``removed``; and the files of the work folder that changed, uint8, or
        None without a repository.
    """
    try:
        _require_fit(task)
        node = _node_folder(task.node_folder)
        with _scratch_folder(node) as scratch:
            work = repository_work(scratch, task.repository).path if task.repository else None
            if work is not None and archive is not None:
                apply_changes(work, memoryview(archive))
            before = list_states(work) if work is not None and archive is not None else {}
            result = _run(task, _with_folders(task.settings, node, scratch), board.show.remote)
            if work is None:
                return {"result": result}, None
            changes = pack_changes(work, before)
            return {"result": result, "removed": changes.removed}, np.frombuffer(changes.archive, np.uint8)
    except EOFError:
        return {"crashed": True}, None
    except Exception as error:  # noqa: BLE001 - raised where the run is
        where = f"on the node {_node_address()}\n{''.join(getattr(error, '__notes__', ()))}"
        return {"error": describe_error(error, where)}, None


def _require_fit(task: NodeTask) -> None:
    if task.host and task.host != describe_host():
        raise UnavailableError(
            f"the node {_node_address()} has the host name of this machine and is another one",
            suggestion="give each machine a host name of its own",
        )
    if task.tools != (here := describe_tools()):
        there, own = json.loads(task.tools), json.loads(here)
        names = [name for name in sorted(there.keys() | own.keys()) if there.get(name) != own.get(name)]
        different = ", ".join(f"{name} {own.get(name)} instead of {there.get(name)}" for name in names[:3])
        raise UnavailableError(
            f"the node {_node_address()} has {different}: its results would differ",
            suggestion="install the same versions on each node, and start it again",
        )


def _node_address() -> str:
    ray: Any = import_module("ray.util")
    return ray.get_node_ip_address()


def _node_folder(given: str) -> Path:
    folder = (Path(given).expanduser() if given else cache_home() / "nodes") / _node_address().replace(":", "_")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


@contextmanager
def _scratch_folder(node: Path) -> Iterator[Path]:
    """Yield an empty folder, and remove those of tasks that were killed."""
    scratch = node / "scratch"
    scratch.mkdir(mode=0o700, exist_ok=True)
    with ExitStack() as stack:
        with exclusive(scratch / ".lock", "making a scratch folder", wait=True):
            for other in scratch.glob("*/.lock"):
                with suppress(BusyError), exclusive(other, "using it"):
                    shutil.rmtree(other.parent)
            folder = tempfile.TemporaryDirectory(dir=scratch, ignore_cleanup_errors=True)
            path = Path(stack.enter_context(folder))
            stack.enter_context(exclusive(path / ".lock", "using it"))
        yield path


def _with_folders(settings: str, node: Path, scratch: Path) -> str:
    values = json.loads(settings)
    values["paths"] = {"store": str(node / "store"), "work": str(scratch)}
    values["fleet"]["folder"] = str(node / "fleet")
    (node / "store").mkdir(mode=0o700, exist_ok=True)
    return json.dumps(values)


@lru_cache(maxsize=1)
def _process() -> UnitProcess:
    """Return the process of this worker; it ends when the worker does, whose pipe it reads."""
    return UnitProcess()


def _run(task: NodeTask, common: str, show: Callable[[str, int, int], Any]) -> Any:
    process = _process()
    try:
        process.set_common(common)
        process.send(task.unit, 0, task.item, told=True)
        while process.items:
            for _, result in process.receive(show):
                return result
    except EOFError:
        _process.cache_clear()
        raise
    raise EOFError("the other process has ended")

"""Dagster runs of a project in processes of their own, which can be killed, and the run that follows them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import dagster as dg

from codequarry.assets.automation import whole
from codequarry.assets.definitions import build_definitions
from codequarry.assets.project import SETTINGS_VARIABLE, sync_partitions
from codequarry.assets.project import Project as DagsterProject
from tests.assets.instance import instance_in, prepared_home
from tests.faults.scenes.project import Project

LOCATION = ("-m", "codequarry.assets.definitions")
_STARTED = re.compile(r" - (\w+) - STEP_START - ")
_NOTED = re.compile(r" - INFO - REINDEX - \S+ - (\w+) - (\w+): ")


def is_check(step: str) -> bool:
    """Whether a step judges an asset, instead of making one."""
    return "_rows_of_" in step or "_gx_" in step


def home(project: Project) -> Path:
    """DAGSTER_HOME, made as `make dagster` makes it."""
    return prepared_home(project.base / "dagster")


def resource(project: Project) -> DagsterProject:
    return DagsterProject(settings_file=str(project.settings_file))


@contextmanager
def instance(project: Project) -> Iterator[dg.DagsterInstance]:
    with instance_in(home(project)) as made:
        yield made


def environment(project: Project) -> dict[str, str]:
    return {**os.environ, "DAGSTER_HOME": str(home(project)), SETTINGS_VARIABLE: str(project.settings_file)}


def dagster(project: Project, *arguments: str) -> list[str]:
    """A Dagster command over all repositories of the project, whose partitions it registers."""
    with instance(project) as made:
        keys = sync_partitions(made, resource(project).settings())
    return [sys.executable, "-m", "dagster", *arguments, *LOCATION, "-j", "REINDEX", "--tags", json.dumps(whole(keys))]


def daemon() -> list[str]:
    """What launches queued runs and tries failed ones again."""
    return [str(Path(sys.executable).with_name("dagster-daemon")), "run", *LOCATION]


@contextmanager
def started(project: Project, command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A process that logs to its pipe `stdout`; it and all that it started are gone when the block ends."""
    with subprocess.Popen(
        command, cwd=project.base, env=environment(project), text=True, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            kill_all(process)


def kill_all(process: subprocess.Popen[str]) -> None:
    """Kill a process and all that it started, at once, as when the machine stops."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


class Log:
    """What a run wrote to its log so far."""

    def __init__(self, stream: IO[str] | None) -> None:
        assert stream is not None
        self._stream = stream
        self.lines: list[str] = []

    def until(self, seen: Callable[[str], object]) -> str:
        """Read up to a line. Fails when the log ends before."""
        for line in self._stream:
            self.lines.append(line)
            if seen(line):
                return line
        raise AssertionError("the run ended before: " + "".join(self.lines[-20:]))

    def rest(self) -> None:
        """Read to the end."""
        self.lines.extend(self._stream)

    @property
    def steps(self) -> list[str]:
        """Steps that began, of assets and not of their checks."""
        began = [match[1] for line in self.lines if (match := _STARTED.search(line))]
        return [step for step in began if not is_check(step)]

    def finished(self, step: str) -> set[str]:
        """Repositories, or parts of the bundle, that a step said it was done with."""
        return {match[2] for line in self.lines if (match := _NOTED.search(line)) and match[1] == step}


def rerun(project: Project) -> dg.ExecuteInProcessResult:
    """The run that comes next, in this process."""
    with instance(project) as made:
        keys = sync_partitions(made, resource(project).settings())
        job = build_definitions(resource(project)).resolve_job_def("REINDEX")
        return job.execute_in_process(instance=made, tags=whole(keys), raise_on_error=False)


def statuses(project: Project) -> list[str]:
    """Statuses of all runs, oldest first."""
    with instance(project) as made:
        return [run.status.value for run in reversed(made.get_runs())]


def metadata(result: dg.ExecuteInProcessResult, asset: str) -> dict[str | None, dict[str, object]]:
    """Metadata of an asset by partition."""
    events = [event.materialization for event in result.get_asset_materialization_events()]
    return {
        event.partition: {key: value.value for key, value in event.metadata.items()}
        for event in events
        if event.asset_key == dg.AssetKey(asset)
    }

"""Dagster as `make dagster` starts it, with webserver and daemon, driven by the requests that its pages send."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import dagster as dg

from codequarry.assets.automation import whole
from codequarry.assets.project import PARTITIONS, SETTINGS_VARIABLE
from tests.assets.conftest import Workbench

ROOT = Path(__file__).parents[2]
REPOSITORY = {"repositoryLocationName": "codequarry", "repositoryName": "__repository__"}
_WAIT_S = 300.0
_ENDED = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)
_LAUNCH = """mutation Launch($params: ExecutionParams!) { launchPipelineExecution(executionParams: $params) {
    __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""
_BACKFILL = """mutation Backfill($params: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $params) {
    __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }"""
_START_SCHEDULE = """mutation Start($selector: ScheduleSelector!) { startSchedule(scheduleSelector: $selector) {
    __typename ... on ScheduleStateResult { scheduleState { id } } } }"""
_STOP_SCHEDULE = "mutation Stop($id: String!) { stopRunningSchedule(id: $id) { __typename } }"


@dataclass(frozen=True)
class Site:
    """A project whose webserver and daemon run."""

    bench: Workbench
    url: str
    server: subprocess.Popen[bytes]

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        """Send a GraphQL request; return its one answer, which must not be an error."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.url}/graphql", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as answered:
            answer = json.loads(answered.read())
        assert "errors" not in answer, answer
        (one,) = answer["data"].values()
        assert "Error" not in one["__typename"], answer
        return one

    def launch(self, assets: Sequence[str], *, job: str = "__ASSET_JOB", over: Sequence[str] = ()) -> dg.DagsterRun:
        """Launch a run and wait for its end.

        Args:
            assets: Assets to materialize.
            job: Job of the run.
            over: Partitions, which are neighbours; none for assets without.

        Returns:
            The run.
        """
        tags = [{"key": key, "value": value} for key, value in (whole(tuple(over)) if over else {}).items()]
        selection = [{"path": [asset]} for asset in assets]
        selector = {**REPOSITORY, "pipelineName": job, "assetSelection": selection, "assetCheckSelection": None}
        params = {"mode": "default", "executionMetadata": {"tags": tags}, "runConfigData": "{}", "selector": selector}
        run_id = self.ask(_LAUNCH, params=params)["run"]["runId"]
        return self.wait(lambda: next((run for run in self.ended() if run.run_id == run_id), None))

    def backfill(self, assets: Sequence[str], *, partitions: Sequence[str] = (), job: str = "") -> str:
        """Ask for a backfill as the page of the lineage does, or with `job` as the page of a job; return its id."""
        params: dict[str, Any] = {"tags": [], "assetSelection": [{"path": [asset]} for asset in assets]}
        params |= {"partitionNames": list(partitions), "fromFailure": False} if partitions else {"allPartitions": True}
        if job:
            selector = {"repositoryName": "__repository__", "repositoryLocationName": "codequarry"}
            params["selector"] = {"partitionSetName": f"{job}_partition_set", "repositorySelector": selector}
        return self.ask(_BACKFILL, params=params)["backfillId"]

    def backfilled(self, backfill: str) -> list[dg.DagsterRun]:
        """Wait for the end of a backfill; return its runs, oldest first."""

        def finished() -> bool:
            held = self.bench.instance.get_backfill(backfill)
            return held is not None and held.status.value.startswith(("COMPLETED", "FAILED", "CANCELED"))

        self.wait(finished)
        tagged = dg.RunsFilter(tags={"dagster/backfill": backfill})
        return list(reversed(self.bench.instance.get_runs(tagged)))

    @contextmanager
    def schedule(self, name: str) -> Iterator[None]:
        """Let a schedule run for the block."""
        started = self.ask(_START_SCHEDULE, selector={**REPOSITORY, "scheduleName": name})
        try:
            yield
        finally:
            self.ask(_STOP_SCHEDULE, id=started["scheduleState"]["id"])

    def ended(self, **tags: str) -> list[dg.DagsterRun]:
        """Return the runs with these tags that ended, oldest first; a name's ``__`` stands for a slash."""
        wanted = {key.replace("__", "/"): value for key, value in tags.items()}
        runs = self.bench.instance.get_runs(dg.RunsFilter(tags=wanted or None, statuses=list(_ENDED)))
        return list(reversed(runs))

    def wait(self, seen: Callable[[], Any]) -> Any:
        """Wait until something is true; return it. Fails when the server ends or it never is."""
        end = time.monotonic() + _WAIT_S
        while time.monotonic() < end:
            assert self.server.poll() is None, "dagster ended"
            if found := seen():
                return found
            time.sleep(0.25)
        raise AssertionError(f"nothing happened in {_WAIT_S:.0f} s")

    @property
    def version(self) -> str:
        """Version that CURRENT names; empty when nothing is published."""
        return self.bench.root.read_current().version if self.bench.root.current.is_file() else ""

    def failed_checks(self, run: dg.DagsterRun) -> dict[str, str]:
        """Return the descriptions of the checks of a run that did not pass, by name."""
        kind = dg.DagsterEventType.ASSET_CHECK_EVALUATION
        entries = self.bench.instance.all_logs(run.run_id, of_type=kind)
        found = [each.dagster_event.asset_check_evaluation_data for each in entries if each.dagster_event is not None]
        return {each.check_name: each.description or "" for each in found if not each.passed}


@contextmanager
def serving(folder: Path, bench: Callable[[dg.DagsterInstance], Workbench]) -> Iterator[Site]:
    """Start Dagster for a project, and stop it with all that it started.

    Args:
        folder: Folder of the project.
        bench: Makes the project, given its instance.

    Yields:
        The site, as soon as it answers and the sensor has registered the partitions.
    """
    home = folder / "dagster"
    home.mkdir()
    shutil.copy(str(files("codequarry.assets") / "dagster.yaml"), home / "dagster.yaml")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with dg.DagsterInstance.from_config(str(home)) as instance:
        made = bench(instance)
        instance.get_dynamic_partitions(PARTITIONS)  # the tables are there before several processes look for them
        instance.get_runs()
        command = [str(Path(sys.executable).with_name("dagster")), "dev", "-w", str(ROOT / "workspace.yaml")]
        own = {"DAGSTER_HOME": str(home), SETTINGS_VARIABLE: made.project.settings_file}
        with (folder / "dagster.log").open("wb") as log:
            server = subprocess.Popen(
                [*command, "-h", "127.0.0.1", "-p", str(port)], cwd=folder, env={**os.environ, **own},
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        try:
            site = Site(made, f"http://127.0.0.1:{port}", server)
            site.wait(lambda: _answers(site.url))
            names = len(made.project.settings().sources.repositories)
            site.wait(lambda: len(instance.get_dynamic_partitions(PARTITIONS)) == names)
            yield site
        finally:
            _stop(server)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/server_info", timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    with suppress(subprocess.TimeoutExpired):
        server.wait(30)
    with suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()

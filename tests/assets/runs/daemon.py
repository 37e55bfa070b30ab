"""Dagster as `make dagster` starts it, with webserver and daemon, driven by the requests that its pages send."""

from __future__ import annotations

import json
import os
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
from pathlib import Path
from typing import Any

import dagster as dg

from codequarry.assets.project import PARTITIONS, SETTINGS_VARIABLE
from tests.assets.conftest import Workbench
from tests.assets.instance import instance_in

ROOT = Path(__file__).parents[3]
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
_REQUIRED = "query Required($keys: [AssetKeyInput!]!) { assetNodeAdditionalRequiredKeys(assetKeys: $keys) { path } }"
_NODES = """query Nodes($keys: [AssetKeyInput!]!) { assetNodes(assetKeys: $keys) { assetKey { path } jobNames
    partitionDefinition { name } assetChecksOrError { ... on AssetChecks { checks { name jobNames } } } } }"""
_BY_THE_PAGES = [{"key": "dagster/from_ui", "value": "true"}]
_BACKFILL_TICK = '''"""Let the daemon look for backfills every two seconds instead of thirty; no setting does."""
import sys
if "dagster._daemon" in sys.orig_argv:
    import dagster._daemon.controller
    dagster._daemon.controller.DEFAULT_DAEMON_INTERVAL_SECONDS = 2
'''


@dataclass(frozen=True)
class Request:
    """What a page asked for: a backfill, or a run alone."""

    run: str = ""
    backfill: str = ""


@dataclass(frozen=True)
class Site:
    """A project whose webserver and daemon run."""

    bench: Workbench
    url: str
    server: subprocess.Popen[bytes]

    def query(self, query: str, **variables: Any) -> Any:
        """Send a GraphQL request of one field; return its value."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.url}/graphql", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as answered:
            answer = json.loads(answered.read())
        assert "errors" not in answer, answer
        (one,) = answer["data"].values()
        return one

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        """Send a GraphQL request; return its one answer, which must not be an error."""
        one = self.query(query, **variables)
        assert "Error" not in one["__typename"], one
        return one

    def materialize(self, assets: Sequence[str], *, over: Sequence[str] = (), job: str = "") -> Request:
        """Press *Materialize* or *Materialize all* on a page, and confirm its dialogs.

        As the pages do, it adds the assets that the same step makes, and asks for the job of the page. Where that does
        not have all of them, or the page has none, it asks for the first job that does.

        Args:
            assets: Assets that the page shows.
            over: Partitions to choose in the dialog, at least two; it is shown where an asset has some.
            job: Job of the page.

        Returns:
            The request, whose runs `runs` waits for.
        """
        keys = [{"path": [asset]} for asset in assets]
        keys += self.query(_REQUIRED, keys=keys)
        nodes = self.query(_NODES, keys=keys)
        common = [name for name in nodes[0]["jobNames"] if all(name in node["jobNames"] for node in nodes)]
        chosen = job if job in common else common[0]
        if not any(node["partitionDefinition"] for node in nodes):
            return Request(run=self._launch(chosen, nodes))
        assert len(over) > 1, "with one partition, the pages launch a run"
        params = {"tags": _BY_THE_PAGES, "assetSelection": keys, "partitionNames": list(over), "fromFailure": False}
        if not chosen.startswith("__"):
            params["selector"] = {"partitionSetName": f"{chosen}_partition_set", "repositorySelector": REPOSITORY}
        return Request(backfill=self.ask(_BACKFILL, params=params)["backfillId"])

    def _launch(self, job: str, nodes: list[dict[str, Any]]) -> str:
        keys = [node["assetKey"] for node in nodes]
        checks = [
            {"name": check["name"], "assetKey": node["assetKey"]}
            for node in nodes
            for check in node["assetChecksOrError"].get("checks", [])
            if job in check["jobNames"]
        ]
        selector = {**REPOSITORY, "pipelineName": job, "assetSelection": keys, "assetCheckSelection": checks}
        params = {"mode": "default", "executionMetadata": {"tags": _BY_THE_PAGES}, "runConfigData": "{}"}
        return self.ask(_LAUNCH, params={**params, "selector": selector})["run"]["runId"]

    def runs(self, request: Request) -> list[dg.DagsterRun]:
        """Wait for the end of a request; return its runs, oldest first."""
        if request.run:
            return [self.wait(lambda: next((run for run in self.ended() if run.run_id == request.run), None))]
        self.wait(lambda: self.outcome(request).startswith(("COMPLETED", "FAILED", "CANCELED")))
        tagged = dg.RunsFilter(tags={"dagster/backfill": request.backfill})
        return list(reversed(self.bench.instance.get_runs(tagged)))

    def outcome(self, request: Request) -> str:
        """Return the status of a backfill, as Dagster names it."""
        held = self.bench.instance.get_backfill(request.backfill)
        return held.status.value if held is not None else ""

    @contextmanager
    def schedule(self, name: str) -> Iterator[None]:
        """Let a schedule run for the block."""
        started = self.ask(_START_SCHEDULE, selector={**REPOSITORY, "scheduleName": name})
        try:
            yield
        finally:
            # A tick under way writes back the state that it began with, so that this request would be lost.
            self.wait(lambda: not self._ticking(name))
            self.ask(_STOP_SCHEDULE, id=started["scheduleState"]["id"])

    def _ticking(self, name: str) -> bool:
        instance = self.bench.instance
        (state,) = [each for each in instance.all_instigator_state() if each.instigator_name == name]
        ticks = instance.get_ticks(state.instigator_origin_id, state.selector_id, limit=1)
        return any(tick.status.value == "STARTED" for tick in ticks)

    def started(self, **tags: str) -> list[dg.DagsterRun]:
        """Return the runs with these tags, oldest first; a name's ``__`` stands for a slash."""
        wanted = {key.replace("__", "/"): value for key, value in tags.items()}
        return list(reversed(self.bench.instance.get_runs(dg.RunsFilter(tags=wanted or None))))

    def ended(self, **tags: str) -> list[dg.DagsterRun]:
        """Return those of the runs that ended."""
        return [run for run in self.started(**tags) if run.status in _ENDED]

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
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with instance_in(home) as instance:
        made = bench(instance)
        instance.get_dynamic_partitions(PARTITIONS)  # the tables are there before several processes look for them
        instance.get_runs()
        command = [str(Path(sys.executable).with_name("dagster")), "dev", "-w", str(ROOT / "workspace.yaml")]
        (home / "sitecustomize.py").write_text(_BACKFILL_TICK, encoding="utf-8")
        path = os.pathsep.join(each for each in (str(home), os.environ.get("PYTHONPATH", "")) if each)
        own = {"DAGSTER_HOME": str(home), SETTINGS_VARIABLE: made.project.settings_file, "PYTHONPATH": path}
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
    """Ask Dagster to end, then the code servers that would wait for it; kill what is left after some time."""
    server.terminate()
    with suppress(subprocess.TimeoutExpired):
        server.wait(30)
    with suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGTERM)
        end = time.monotonic() + 20
        while time.monotonic() < end:
            os.killpg(server.pid, 0)
            time.sleep(0.1)
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()

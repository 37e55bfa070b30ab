"""F16: a Dagster run is killed in any of its steps, alone or with all of Dagster; the next puts all right."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import dagster as dg
import pytest

from codequarry.assets import automation as dead_runs
from codequarry.assets.checks import statistics_checks, suite_checks
from codequarry.assets.definitions import build_definitions
from tests.faults.scenes import dagster_runs as runs
from tests.faults.scenes.project import Project

LONG = pytest.mark.faults_long
STEPS = ("repository_snapshot", "repository_pass", "repository_modules", "repository_scip", "repository_embeddings")
STEPS += ("index_version", "coverage_report")
BEGINS, GOES_ON, ENDS = r" - {} - STEP_START - ", r" - INFO - REINDEX - \S+ - {} - ", r" - {} - STEP_SUCCESS - "
"""Moments of a step: what is read in the log before the kill. GOES_ON: a repository, or part of the bundle, is done;
repository_scip has no such moment where no indexer is installed."""

MOMENTS = [
    pytest.param("repository_embeddings", GOES_ON, id="an embedded repository"),
    pytest.param("index_version", GOES_ON, id="a staged table"),
    *(pytest.param(step, BEGINS, id=f"{step} begins", marks=LONG) for step in STEPS),
    *(pytest.param(step, GOES_ON, id=f"{step} goes on", marks=LONG) for step in STEPS[:3]),
    *(pytest.param(step, ENDS, id=f"{step} ends", marks=LONG) for step in STEPS[5:]),
]


def test_every_step_of_the_job_has_its_moments(project_template: Project) -> None:
    job = build_definitions(runs.resource(project_template)).resolve_job_def("REINDEX")
    names = {node.name for node in job.nodes}
    assert {name for name in names if not runs.is_check(name)} == set(STEPS)
    assert sum(map(runs.is_check, names)) == len(suite_checks) + len(statistics_checks)


@pytest.mark.parametrize(("step", "moment"), MOMENTS)
def test_a_killed_run_changes_nothing_and_the_next_resumes(
    project: Project, changed_digest: str, step: str, moment: str
) -> None:
    before = project.served()
    with runs.started(project, runs.dagster(project, "job", "execute")) as run:
        log = runs.Log(run.stdout)
        log.until(re.compile(moment.format(step)).search)
        os.kill(run.pid, signal.SIGKILL)
        log.rest()
    assert run.returncode == -signal.SIGKILL
    assert step in log.steps
    after = project.check_current()
    assert after == before or "index_version" in log.steps

    result = runs.rerun(project)
    assert result.success
    assert (project.check_current() == after) == (after != before), "published twice, or not at all"
    assert project.digest() == changed_digest
    embedded = {name: found["embedded"] for name, found in runs.metadata(result, "repository_embeddings").items()}
    assert embedded.keys() == {"app", "lib"}
    for name, count in embedded.items():
        assert count == 0 or name not in log.finished("repository_embeddings"), "embedded twice"
        assert count != 0 or "repository_embeddings" in log.steps
    project.check_healthy()


def children(pid: int) -> list[int]:
    """Processes of the pipeline that a process started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == pid and b"codequarry.pipelines" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except (OSError, ValueError):
            continue
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="children are found in /proc, which is not here")
def test_a_killed_chunk_worker_costs_no_file_its_syntax(project: Project) -> None:
    """The steps of a run share its process (ADR 6); these are the only workers. A fresh one takes the file."""
    with runs.started(project, runs.dagster(project, "job", "execute")) as run:
        log = runs.Log(run.stdout)
        log.until(re.compile(BEGINS.format("repository_pass")).search)
        while not (workers := children(run.pid)):
            assert run.poll() is None
        os.kill(workers[0], signal.SIGKILL)
        log.rest()
    assert run.returncode == 0, "".join(log.lines[-20:])
    with runs.instance(project) as instance:
        made = instance.fetch_materializations(dg.AssetKey("repository_syntax"), limit=2).records
    syntax = [record.asset_materialization.metadata for record in made if record.asset_materialization]
    assert sorted(each["files"].value - each["parsed_files"].value for each in syntax) == [0, 0]
    project.check_healthy()


def launch(project: Project) -> None:
    """Queue a run, for the daemon to start."""
    command = runs.dagster(project, "job", "launch")
    subprocess.run(command, cwd=project.base, env=runs.environment(project), check=True, capture_output=True)


def process_that_stages(log: runs.Log) -> int:
    """The process of a run that has just begun to stage."""
    line = log.until(re.compile(BEGINS.format("index_version")).search)
    return int(line.split(" - ")[5])


@LONG
def test_dagster_starts_a_run_again_whose_process_was_killed(project: Project, changed_digest: str) -> None:
    """From its first step on: what later steps would read may be another run's by then."""
    before = project.served()
    launch(project)
    with runs.started(project, runs.daemon()) as daemon:
        log = runs.Log(daemon.stdout)
        os.kill(process_that_stages(log), signal.SIGKILL)
        assert project.check_current() == before
        seen = len(log.steps)
        log.until(lambda line: " - RUN_SUCCESS - " in line)
    assert log.steps[seen:] == [*log.steps[:seen], "coverage_report"]
    assert runs.statuses(project) == ["FAILURE", "SUCCESS"]
    assert project.digest() == changed_digest
    project.check_healthy()


@LONG
def test_a_run_that_died_together_with_dagster_is_found_and_started_again(
    project: Project, changed_digest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = project.served()
    launch(project)
    with runs.started(project, runs.daemon()) as daemon:
        log = runs.Log(daemon.stdout)
        process_that_stages(log)
        runs.kill_all(daemon)
    assert project.check_current() == before
    assert runs.statuses(project) == ["STARTED"], "nobody was there to see it die"

    monkeypatch.setattr(dead_runs, "QUIET_S", 0.0)
    sensor = build_definitions(runs.resource(project)).resolve_sensor_def("dead_runs")
    with (
        runs.instance(project) as instance,
        dg.build_sensor_context(instance=instance, resources={"project": runs.resource(project)}) as context,
    ):
        sensor(context)
    assert runs.statuses(project) == ["FAILURE"]
    with runs.started(project, runs.daemon()) as daemon:
        runs.Log(daemon.stdout).until(lambda line: " - RUN_SUCCESS - " in line)
    assert runs.statuses(project) == ["FAILURE", "SUCCESS"]
    assert project.digest() == changed_digest
    project.check_healthy()

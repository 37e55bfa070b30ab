"""Repositories in several processes: the same version as in one, whatever becomes of a process, and nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from codequarry.pipelines.run import index_repositories
from codequarry.schemas.errors import SourceError
from codequarry.schemas.settings.load import PathsSettings, Settings
from tests.pipelines.conftest import MAIN, MakeSettings, Run
from tests.pipelines.repositories import commit

NAMES = ("alpha", "beta", "gamma", "delta")
_UNIT_PROCESS = "compute.unit_process"
_PATIENCE_S = 60.0


@pytest.fixture
def repositories(tmp_path: Path) -> list[Path]:
    """Four repositories of different sizes, some of whose files are the same."""
    for size, name in enumerate(NAMES, start=1):
        files = {
            f"part_{number}.py": f'"""Part {number} of {name}."""\n\n\ndef {name}_{number}(value):\n    return value\n'
            for number in range(30 * size)
        }
        commit(
            tmp_path / name, {**files, "common.py": "def common_to_all():\n    return 1\n", "web.ts": f"// {name}\n"}
        )
    return [tmp_path / name for name in NAMES]


def in_one_process(make_settings: MakeSettings, repositories: list[Path], tmp_path: Path) -> str:
    """Digest of the version that one process makes, with a store of its own."""
    settings = with_store(make_settings(*repositories, home=tmp_path / "one", compute={"engine": "in_process"}))
    return index_repositories(settings).manifest.digest


def with_store(settings: Settings) -> Settings:
    """The settings with a store beside the work folder, which is empty at first."""
    work = settings.paths.work
    return settings.model_copy(update={"paths": PathsSettings(store=work.parent / "store", work=work)})


def unit_processes(parent: int) -> list[int]:
    """Processes that do units for a process."""
    listed = subprocess.run(["ps", "-eww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    return [int(row[0]) for row in rows if int(row[1]) == parent and _UNIT_PROCESS in row[2]]


def test_several_processes_make_the_version_of_one(
    tmp_path: Path, make_settings: MakeSettings, repositories: list[Path]
) -> None:
    shown: set[str] = set()
    settings = with_store(make_settings(*repositories, compute={"processes": 3}))
    report = index_repositories(settings, lambda what, *_: shown.add(what))
    assert report.manifest.digest == in_one_process(make_settings, repositories, tmp_path)
    assert {f"{name}: {what}" for name in NAMES for what in ("reading", "chunking", "embedding")} <= shown
    assert [each.name for each in report.chunks] == sorted(NAMES, key=NAMES.index)
    assert [each.chunks for each in report.embeddings] == [each.chunks for each in report.chunks]
    assert {"census", "chunk", "module", "scip", "embed", "stage"} <= report.seconds.keys()
    assert unit_processes(os.getpid()) == []
    # What was made in several processes is whole: another engine finds nothing to do.
    alone = settings.model_copy(update={"compute": settings.compute.model_copy(update={"engine": "in_process"})})
    assert index_repositories(alone).unchanged


@pytest.mark.parametrize("stage", ["reading", "chunking"])
def test_a_killed_process_costs_its_unit(
    stage: str, tmp_path: Path, make_settings: MakeSettings, repositories: list[Path]
) -> None:
    killed: list[int] = []

    def kill(what: str, _done: int, _total: int) -> None:
        if what.endswith(stage) and not killed:
            for process in unit_processes(os.getpid())[:1]:
                os.kill(process, signal.SIGKILL)
                killed.append(process)

    report = index_repositories(with_store(make_settings(*repositories, compute={"processes": 2})), kill)
    assert len(killed) == 1
    assert report.manifest.digest == in_one_process(make_settings, repositories, tmp_path)


def test_one_process_does_the_rest_when_all_others_are_killed(
    tmp_path: Path, make_settings: MakeSettings, repositories: list[Path]
) -> None:
    def kill(what: str, _done: int, _total: int) -> None:
        if what.endswith("chunking"):
            for process in unit_processes(os.getpid()):
                os.kill(process, signal.SIGKILL)

    report = index_repositories(with_store(make_settings(*repositories, compute={"processes": 2})), kill)
    assert report.manifest.digest == in_one_process(make_settings, repositories, tmp_path)


def test_one_process_and_one_repository_start_no_others(
    make_settings: MakeSettings, repositories: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr("codequarry.pipelines.compute.unit_processes.UnitProcess.__init__", refuse)
    index_repositories(make_settings(*repositories, compute={"engine": "in_process", "processes": 4}))
    index_repositories(make_settings(repositories[0]))


def test_the_error_of_a_unit_names_repository_cause_and_remedy(
    tmp_path: Path, make_settings: MakeSettings, repositories: list[Path]
) -> None:
    (tmp_path / "hollow").mkdir()
    settings = make_settings(*repositories, tmp_path / "hollow", compute={"processes": 2})
    with pytest.raises(SourceError, match="hollow: no file") as caught:
        index_repositories(settings)
    assert caught.value.suggestion.startswith("check the path")
    assert unit_processes(os.getpid()) == []


def test_the_settings_choose_the_engine(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "compute.engine" not in run("settings").stdout, "it is as by default"
    assert 'compute.engine = "processes"' in run("settings", "compute.engine").stdout
    monkeypatch.setenv("CODEQUARRY__COMPUTE__ENGINE", "in_process")
    assert "in_process" in run("settings").stdout
    monkeypatch.setenv("CODEQUARRY__COMPUTE__ENGINE", "threads")
    refused = run("index", ".")
    assert refused.returncode == 2
    assert "in_process" in refused.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_all_processes(number: signal.Signals, tmp_path: Path, repositories: list[Path]) -> None:
    environment = {
        **os.environ,
        "CODEQUARRY__PATHS__STORE": str(tmp_path / "store"),
        "CODEQUARRY__COMPUTE__PROCESSES": "2",
    }
    command = [sys.executable, "-c", MAIN, "index", *map(str, repositories), "--root", str(tmp_path / "bundles")]
    main = subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    others = next(found for _ in looks() if len(found := unit_processes(main.pid)) == 2)
    main.send_signal(number)
    assert main.wait(_PATIENCE_S) != 0
    assert next(True for _ in looks() if not any(map(is_running, others)))
    # Nothing of it disturbs the next run.
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def looks() -> Iterator[None]:
    """Moments to look at something, until patience ends."""
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        yield
        time.sleep(0.01)


def is_running(process: int) -> bool:
    done = subprocess.run(["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True, check=False)
    return bool(done.stdout.strip()) and not done.stdout.strip().startswith("Z")

"""A small repository with a history to mine, and one evaluation of it that many tests look at."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.pipelines.conftest import Run, make_settings, shared_store  # noqa: F401
from tests.pipelines.conftest import run as run
from tests.pipelines.evaluation.library import write_library


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository; not to be changed."""
    return write_library(tmp_path_factory.mktemp("sources"))


@pytest.fixture
def evaluated(library: Path, run: Run, tmp_path: Path) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The report of ``codequarry evaluate`` over the library, and how the command ended."""
    done = run("evaluate", library, "--queries", "6", "--out", tmp_path / "report")
    assert done.returncode == 0, done.stderr
    return tmp_path / "report", done

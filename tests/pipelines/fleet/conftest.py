"""Fixtures of a fleet: over a folder, and over a real object store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipelines.conftest import Run
from tests.pipelines.fleet.fleets import Fleet
from tests.pipelines.publish.remote.servers import BUCKET
from tests.pipelines.publish.remote.servers import proxy as proxy
from tests.pipelines.publish.remote.servers import s3_port as s3_port


@pytest.fixture(params=["s3", "file"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return f"file://{tmp_path}/shared/fleet"
    request.getfixturevalue("proxy")
    return f"s3://{BUCKET}/{abs(hash(request.node.nodeid))}"


@pytest.fixture
def fleet(run: Run, tmp_path: Path, place: str) -> Fleet:
    return Fleet(run, tmp_path / "cwd", place)


@pytest.fixture
def local(run: Run, tmp_path: Path) -> Fleet:
    return Fleet(run, tmp_path / "cwd", f"file://{tmp_path}/shared/fleet")

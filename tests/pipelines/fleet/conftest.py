"""Fixtures of a fleet: over a folder, and over a real object store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipelines.conftest import Run
from tests.pipelines.fleet.fleets import Fleet
from tests.pipelines.publish.remote.servers import BUCKET, KEY, SECRET, FaultyProxy, seaweed


@pytest.fixture(scope="module")
def s3_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with seaweed(tmp_path_factory.mktemp("seaweed")) as port:
        yield port


@pytest.fixture
def proxy(s3_port: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyProxy]:
    proxy = FaultyProxy(s3_port)
    for name, value in {
        "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.port}",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    yield proxy
    proxy.close()


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

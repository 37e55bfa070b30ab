"""Two versions with verdicts, and a service that shows them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.settings.service import TelemetrySettings
from codequarry.serving.engine.engine import Engine
from codequarry.serving.http.app import Service
from codequarry.serving.telemetry.telemetry import Telemetry
from tests.serving.bundles.versions import publish
from tests.serving.live import running

FIRST, SECOND = "20260101T000001Z-0123abcd", "20260101T000002Z-0123abcd"
STOPPED = "20260101T000000Z-0000feed"


def verdict(version: str, *, mean: float, against: str = "", passed: bool = True) -> dict[str, Any]:
    figure = {"mean": mean, "low": mean - 0.1, "high": mean + 0.05}
    figures = {"figures": {kind: {"ndcg_10": figure, "recall_4k": figure} for kind in ("all", "python")}}
    moved = [{"query": "where is the <b>marker</b>", "kind": "python", "before": 3, "after": 0}]
    check = {"name": "rows", "passed": passed, "found": "7", "expected": "8", "examples": []}
    return {
        "version": version, "passed": passed, "checks": [check], "against": against,
        "runs": {"staged": figures, "CURRENT": figures}, "moved": moved if against else [],
    }  # fmt: skip


@pytest.fixture(scope="session")
def kept_root(tmp_path_factory: pytest.TempPathFactory) -> BundleRoot:
    """Two versions that differ in one file each, their verdicts, and the verdict of one that was stopped."""
    root = BundleRoot(tmp_path_factory.mktemp("kept") / "bundles")
    publish(root.path, 1)
    publish(root.path, 2)
    for told in (
        verdict(FIRST, mean=0.75),
        verdict(SECOND, mean=0.875, against=FIRST),
        verdict(STOPPED, mean=0.5, passed=False),
    ):
        folder = root.verdicts / told["version"]
        folder.mkdir(parents=True)
        (folder / "verdict.json").write_text(json.dumps(told))
    return root


@pytest.fixture(scope="session")
def kept_port(kept_root: BundleRoot) -> Iterator[int]:
    engine = Engine.open(kept_root.path, ServingSettings())
    engine.telemetry = Telemetry(
        TelemetrySettings(folder=kept_root.path.parent / "telemetry", pools=True, queries=True, pool_part_rows=1),
        engine.served.lease,
    )
    with running(Service(engine, "0", root=kept_root)) as port:
        yield port
    engine.close()

"""The coverage report: figures of the published version."""

import dagster as dg

from tests.assets.conftest import Workbench
from tests.assets.test_reindex import materializations


def test_coverage_counts_what_is_published(first_run: tuple[Workbench, dg.ExecuteInProcessResult]) -> None:
    workbench, result = first_run
    report = materializations(result)["coverage_report", None]
    manifest = workbench.manifest
    assert report["version"] == manifest.version
    assert report["share_indexed"] == 1.0
    table = str(report["languages"])
    rows = {line.split("|")[1].strip(): line.split("|")[2:-1] for line in table.splitlines()[2:]}
    assert rows.keys() == {"python", "markdown"}
    assert sum(int(row[0]) for row in rows.values()) == manifest.counts.files
    assert sum(int(row[3]) for row in rows.values()) == manifest.counts.chunks

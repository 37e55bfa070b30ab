"""Dagster's pages of a project, in a real Chromium: what an operator sees of graph, runs, checks, plots, automation."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from codequarry.assets.definitions import build_definitions
from tests.assets.conftest import Workbench
from tests.assets.instance import instance_in
from tests.assets.pages.browser import browsing, installed

ROOT = Path(__file__).parents[3]
CHROMIUM = installed()

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; Debian has it as the package chromium"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory, first_run):
    """(address of a running webserver, run that succeeded, run that failed) of a project."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(first_run[0].folder, folder, dirs_exist_ok=True)
    home = folder / "dagster"
    with instance_in(home) as instance:
        bench = Workbench(folder, instance)
        automatic = "[schedule]\nenabled = true\n[automation]\nwatch_heads = true\n"
        bench.configure("beta", "alpha", more=automatic)
        bench.write("alpha/added.py", "def added() -> None:\n    return None\n")
        good = bench.reindex()
        build_definitions(bench.project).resolve_job_def("freshness").execute_in_process(instance=instance)
        bench.write("alpha/added.py", "def added() -> int:\n    return 1\n")
        bench.configure("beta", "alpha", more=f"{automatic}[checks]\nmin_chunks = 1000\n")
        (folder / "repositories" / "beta").rename(folder / "repositories" / "moved")
        bad = bench.reindex()
    assert (good.success, bad.success) == (True, False)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).with_name("dagster-webserver")), "-w", str(ROOT / "workspace.yaml")]
    own = {"DAGSTER_HOME": str(home), "CODEQUARRY_SETTINGS": bench.project.settings_file}
    with (folder / "webserver.log").open("wb") as log:
        server = subprocess.Popen(
            [*command, "-h", "127.0.0.1", "-p", str(port)],
            cwd=folder, env={**os.environ, **own}, stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            _answers(f"http://127.0.0.1:{port}/server_info", server)
            yield f"http://127.0.0.1:{port}", good.run_id, bad.run_id
        finally:
            server.terminate()
            server.wait(60)


def _answers(url: str, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end and server.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise AssertionError("the webserver did not come up")


@pytest.fixture
def keep(tmp_path, page):
    """Photograph the page; `CODEQUARRY_PICTURES=docs/pictures` makes the pictures of the documentation again."""

    def take(name):
        picture = Path(os.environ.get("CODEQUARRY_PICTURES", tmp_path)) / f"dagster-{name}.png"
        time.sleep(1)  # what is drawn slides into its place
        page.photograph(picture)
        assert picture.stat().st_size > 10_000

    return take


@pytest.fixture
def page(tmp_path):
    assert CHROMIUM is not None
    with browsing(CHROMIUM, tmp_path / "profile") as page:
        yield page


def test_the_graph_is_drawn_from_repositories_to_the_bundle(site, page, keep):
    page.open(f"{site[0]}/asset-groups")
    page.shows("Global asset lineage", "sources", "indexes", "catalog", "bundle", "serving")
    place = "[...document.querySelectorAll('*')].filter(e => e.innerText === {!r}).at(-1).getBoundingClientRect().left"
    page.until("document.querySelectorAll('svg foreignObject').length > 1")
    order = [page.run(place.format(group)) for group in ("sources", "vectors", "indexes", "bundle", "serving")]
    assert order == sorted(order)
    keep("lineage")


NODES = {
    "repository_scip": ("indexers", "definitions"),
    "repository_syntax": ("parsed_files", "leaf_kinds"),
    "repository_chunks": ("chunk_sizes", "dagster/row_count"),
    "repository_embeddings": ("dimensions", "encoder_fingerprint"),
    "faiss": ("megabytes", "sha256"),
    "bm25": ("megabytes", "sha256"),
    "faiss_idmap": ("dagster/row_count", "sha256"),
    "v_faiss_join": ("dagster/row_count", "dagster/column_schema"),
    "symbols_mat": ("dagster/row_count", "dagster/column_schema"),
    "manifest": ("digest", "time_by_part"),
    "published_bundle": ("version", "chunks_by_version"),
    "coverage_report": ("share_indexed", "languages"),
}
"""Promises of the project, node by node, and words that their pages show."""


@pytest.mark.parametrize("asset", NODES)
def test_each_clause_of_the_promise_is_a_node_with_its_figures(site, page, asset, tmp_path):
    partition = "&partition=alpha" if asset.startswith("repository_") else ""
    page.open(f"{site[0]}/assets/{asset}?view={'partitions' if partition else 'events'}{partition}")
    page.shows(asset, *NODES[asset])
    page.photograph(picture := tmp_path / f"{asset}.png")
    assert picture.stat().st_size > 10_000


def test_a_rule_shows_what_was_found_and_what_is_allowed(site, page, keep):
    page.open(f"{site[0]}/assets/faiss_idmap?view=checks")
    page.shows("chunks_that_are_in_the_id_map_twice", "Passed")
    keep("check")


def test_schedules_and_sensors_are_on_as_the_settings_say(site, page, keep):
    page.open(f"{site[0]}/automation")
    page.shows(
        "dead_runs", "failed_runs", "freshness_schedule", "git_heads", "reindex_schedule", "repository_partitions",
        "retention_schedule", "served_version",
    )  # fmt: skip
    page.until("document.querySelectorAll('input[type=checkbox]:checked').length === 6")
    keep("automation")


def test_a_partition_shows_its_rows_and_its_plots(site, page, keep):
    page.open(f"{site[0]}/assets/repository_chunks?view=partitions&partition=alpha")
    page.shows("dagster/row_count", "chunk_sizes", "language_shares")
    drawn = "[...document.querySelectorAll('img')].filter(each => each.naturalWidth > 100).map(each => each.alt)"
    page.until(f"{drawn}.length === 2")
    assert page.run(drawn) == ["Chunks by size", "Chunks by language"]
    keep("partition")


def test_a_bundle_shows_the_time_of_its_parts_and_its_history(site, page):
    for asset, title in (("manifest", "Time of staging by part"), ("published_bundle", "Chunks by version")):
        page.open(f"{site[0]}/assets/{asset}?view=events")
        page.until(f"[...document.querySelectorAll('img')].some(each => each.alt === '{title}' && each.naturalWidth)")


def test_a_failed_run_shows_what_was_found_and_what_to_do(site, page):
    page.open(f"{site[0]}/runs/{site[2]}")
    page.shows("Failure", "index_version", "expected at least 1000")


def test_the_rule_that_stopped_a_version_shows_what_was_found_and_what_is_allowed(site, page, keep):
    page.open(f"{site[0]}/assets/manifest?view=checks&checkDetail=chunks")
    page.shows("chunks", "Failed", "allowed", "1000")
    keep("failed-check")


def test_a_repository_that_is_carried_forward_is_named_with_its_remedy(site, page, keep):
    page.open(f"{site[0]}/assets/repository_snapshot?view=checks&checkDetail=every_repository_is_read")
    page.shows("every_repository_is_read", "its last snapshot goes on")
    keep("carried")


def test_the_check_of_currents_age_shows_its_verdict(site, page):
    page.open(f"{site[0]}/assets/published_bundle?view=checks")
    page.shows("current_is_fresh", "Passed", "max_age_hours")


def test_the_run_that_published_is_a_success_over_both_repositories(site, page):
    page.open(f"{site[0]}/runs/{site[1]}")
    page.shows("Success", "published_bundle")

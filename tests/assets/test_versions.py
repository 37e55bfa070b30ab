"""Data versions and code versions, with which Dagster tells what is stale, and the age that it allows CURRENT."""

import dagster as dg

from codequarry.assets.definitions import build_definitions, project_assets
from codequarry.assets.project import sync_partitions
from codequarry.pipelines.sources.snapshot import read_snapshot
from codequarry.pipelines.store.library_versions import own_version
from codequarry.pipelines.store.workspace import repository_work
from codequarry.schemas.settings.load import Settings
from tests.assets.conftest import Workbench

OF_REPOSITORIES = ("repository_snapshot", "repository_chunks", "repository_syntax", "repository_embeddings")


def data_versions(result: dg.ExecuteInProcessResult) -> dict[tuple[str, str | None], str]:
    """Return the data version of each asset and partition that a run materialized."""
    made = [event.step_materialization_data.materialization for event in result.get_asset_materialization_events()]
    return {(each.asset_key.to_user_string(), each.partition): each.tags["dagster/data_version"] for each in made}


def single(bench: Workbench, name: str) -> dict[tuple[str, str | None], str]:
    """Run the job over one repository; return the data versions."""
    sync_partitions(bench.instance, bench.project.settings())
    result = bench.run({"dagster/partition": name})
    assert result.success
    return data_versions(result)


def test_a_run_without_a_change_keeps_every_data_version(published: Workbench) -> None:
    first, second = published.reindex(), published.reindex()
    before, after = data_versions(first), data_versions(second)
    assert before.keys() == after.keys()
    assert before == after


def test_the_data_version_of_one_repository_is_that_of_its_content(published: Workbench) -> None:
    before = single(published, "alpha")
    tree = read_snapshot(repository_work(published.project.settings().paths.work, "alpha")).tree_sha256
    assert before["repository_snapshot", "alpha"] == tree
    assert single(published, "alpha") == before
    published.write("alpha/alpha.py", "def other() -> int:\n    return 3\n")
    after = single(published, "alpha")
    for asset in (*OF_REPOSITORIES, "published_bundle"):
        partition = "alpha" if asset in OF_REPOSITORIES else None
        assert after[asset, partition] != before[asset, partition], asset
    assert after["bm25", None]


def test_every_asset_names_the_code_that_makes_it() -> None:
    for asset in project_assets(Settings()):
        for key in asset.keys:
            assert asset.code_versions_by_key[key] == own_version(), key


def test_the_age_of_what_is_published_is_judged_where_the_settings_ask_for_it(workbench: Workbench) -> None:
    def policy() -> dg.FreshnessPolicy | None:
        graph = build_definitions(workbench.project).resolve_asset_graph()
        return graph.get(dg.AssetKey("published_bundle")).freshness_policy

    assert policy() is None
    workbench.configure("beta", more="[automation]\nfreshness = true\nmax_age_hours = 5\n")
    judged = policy()
    assert isinstance(judged, dg.FreshnessPolicy)
    assert judged.fail_window.to_timedelta().total_seconds() == 5 * 3600  # pyright: ignore[reportAttributeAccessIssue]

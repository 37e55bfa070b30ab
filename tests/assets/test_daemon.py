"""A day of an operator, with a real webserver and daemon: what starts by itself, and what each page starts.

The tests are steps of one story and run in this order.
"""

import dagster as dg
import pytest

from codequarry.assets.definitions import project_assets
from codequarry.assets.project import PARTITIONS
from tests.assets.conftest import PYTHON, Workbench
from tests.assets.daemon import serving
from tests.pipelines.repositories import commit

pytestmark = pytest.mark.slow

NAMES = ("alpha", "beta")
AUTOMATIC = (
    '[schedule]\ncron = "* * * * *"\nenabled = false\n'
    "[automation]\nwatch_heads = true\nwatch_interval_s = 30\nmax_carried_hours = 24\n"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("daemon")

    def bench(instance):
        made = Workbench(folder, instance)
        for name in (*NAMES, "gamma"):
            commit(folder / "repositories" / name, {f"{name}.py": PYTHON.format(name=name)})
        made.configure(*NAMES, more=AUTOMATIC)
        return made

    with serving(folder, bench) as running:
        yield running


def groups(site, *names):
    """Assets of groups."""
    assets = project_assets(site.bench.project.settings())
    return [key.to_user_string() for one in assets for key in one.keys if one.group_names_by_key[key] in names]


def everything(site):
    """Assets that the job makes."""
    return groups(site, "sources", "syntax", "symbols", "vectors", "indexes", "catalog", "bundle", "analysis")


def version_assets(site):
    """Assets of the one step that makes a version."""
    return groups(site, "indexes", "catalog", "bundle")


def selected(site, run):
    """Assets that a run materialized."""
    kind = dg.DagsterEventType.ASSET_MATERIALIZATION
    entries = site.bench.instance.all_logs(run.run_id, of_type=kind)
    made = {each.dagster_event.asset_key.to_user_string() for each in entries}
    # Without a change the step of the version makes only what says so.
    return made | (set(version_assets(site)) if "published_bundle" in made else set())


def found(site, word):
    """Paths of the chunks of CURRENT that hold a word."""
    from codequarry.serving.catalog.session import open_catalog

    with open_catalog(site.bench.root.path, pools=site.bench.folder / "pools") as session:
        rows = session.sql("SELECT path FROM chunks WHERE contains(text, ?)", [word]).fetchall()
    return {path for (path,) in rows}


def test_the_sensor_of_heads_makes_the_first_version_in_one_run(site):
    site.wait(lambda: site.version)
    (run,) = site.wait(site.ended)
    assert (run.status.value, run.tags["dagster/sensor_name"]) == ("SUCCESS", "git_heads")
    assert found(site, "alpha_box") == {"alpha.py"}


def test_a_tick_of_the_schedule_without_a_change_publishes_nothing(site):
    before, runs = site.version, len(site.ended())
    with site.schedule("reindex_schedule"):
        (run,) = site.wait(lambda: site.ended(dagster__schedule_name="reindex_schedule"))[:1]
    assert run.status.value == "SUCCESS"
    assert site.version == before
    assert len(site.ended()) > runs


def test_a_commit_starts_one_run_over_its_repository(site):
    before, runs = site.version, len(site.ended(dagster__sensor_name="git_heads"))
    commit(site.bench.folder / "repositories" / "alpha", {"new.py": "def quokka() -> int:\n    return 1\n"})
    site.wait(lambda: site.version != before)
    site.wait(lambda: len(site.ended(dagster__sensor_name="git_heads")) > runs)
    (run,) = site.ended(dagster__sensor_name="git_heads")[runs:]
    assert run.tags["codequarry/changed"] == "alpha"
    assert run.tags["dagster/asset_partition_range_start"] == run.tags["dagster/asset_partition_range_end"] == "alpha"
    assert found(site, "quokka") == {"new.py"}


def test_a_broken_source_is_named_and_the_one_beside_it_is_published(site):
    repositories = site.bench.folder / "repositories"
    (repositories / "beta").rename(repositories / "away")
    site.bench.write("alpha/newer.py", "def numbat() -> int:\n    return 2\n")
    run = site.launch(everything(site), job="reindex", over=NAMES)
    assert run.status.value == "SUCCESS"
    assert found(site, "numbat") == {"newer.py"}
    assert found(site, "beta_box") == {"beta.py"}
    failed = site.failed_checks(run)
    said = failed["every_repository_is_read"]
    assert said.startswith("beta: ")
    assert "its last snapshot goes on" in said


def test_it_recovers_when_the_source_is_back(site):
    repositories = site.bench.folder / "repositories"
    (repositories / "away").rename(repositories / "beta")
    commit(repositories / "alpha", {})  # what was not committed, so that its head is not ahead of CURRENT
    run = site.launch(everything(site), job="reindex", over=NAMES)
    assert run.status.value == "SUCCESS"
    assert "every_repository_is_read" not in site.failed_checks(run)


def test_materialize_all_ends_the_same_from_every_page(site):
    """Pages of the lineage, of the job and of one asset; beside them a backfill of the repositories alone.

    Dagster puts assets with and without partitions into one run only where a job has them all.
    """
    site.wait(lambda: len(site.bench.instance.get_runs()) == len(site.ended()))
    before, of_repositories = site.version, groups(site, "sources", "syntax", "symbols", "vectors")
    asked = {
        "lineage": site.backfill(everything(site), partitions=NAMES),
        "job": site.backfill(everything(site), partitions=NAMES, job="reindex"),
        "repositories": site.backfill(of_repositories),
    }
    one_asset = site.launch(version_assets(site))
    runs = {name: site.backfilled(each) for name, each in asked.items()}
    assert {run.status.value for each in runs.values() for run in (*each, one_asset)} == {"SUCCESS"}
    assert [selected(site, run) for run in runs["lineage"]] == [
        set(of_repositories), {*version_assets(site), "coverage_report"}
    ]  # fmt: skip
    assert [selected(site, run) for run in runs["job"]] == [set(everything(site))]
    assert [selected(site, run) for run in runs["repositories"]] == [set(of_repositories)]
    assert site.version == before


def test_the_settings_give_the_partitions(site):
    site.bench.configure("alpha", "gamma", more=AUTOMATIC)
    site.wait(lambda: set(site.bench.instance.get_dynamic_partitions(PARTITIONS)) == {"alpha", "gamma"})
    site.wait(lambda: found(site, "gamma_box") == {"gamma.py"})
    assert found(site, "beta_box") == set()

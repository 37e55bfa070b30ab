"""A day of an operator, with a real webserver and daemon: what starts by itself, and what each page starts.

The tests are steps of one story and run in this order. What a page sends is what Dagster's pages send, see
`Site.materialize`.
"""

import dagster as dg
import pytest

from codequarry.assets.definitions import project_assets
from codequarry.assets.project import PARTITIONS
from tests.assets.conftest import PYTHON, Workbench
from tests.assets.runs.daemon import serving
from tests.pipelines.repositories import commit

pytestmark = pytest.mark.slow

NAMES = ("alpha", "beta")
OF_REPOSITORIES = ("sources", "syntax", "symbols", "vectors")
"""Groups of the assets with partitions."""
AUTOMATIC = (
    '[schedule]\ncron = "* * * * *"\nenabled = false\n'
    "[automation]\nwatch_heads = true\nwatch_interval_s = 30\nmax_carried_hours = 24\n"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("daemon")

    def bench(instance):
        made = Workbench(folder, instance)
        for name in NAMES:
            commit(folder / "repositories" / name, {f"{name}.py": PYTHON.format(name=name)})
        made.write("gamma/gamma.py", PYTHON.format(name="gamma"))  # without git, so that its head starts no run
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
    return groups(site, *OF_REPOSITORIES, "indexes", "catalog", "bundle", "analysis")


def version_assets(site):
    """Assets of the one step that makes a version."""
    return groups(site, "indexes", "catalog", "bundle")


def made(site, run):
    """Assets that a run materialized."""
    kind = dg.DagsterEventType.ASSET_MATERIALIZATION
    entries = site.bench.instance.all_logs(run.run_id, of_type=kind)
    names = {each.dagster_event.asset_key.to_user_string() for each in entries}
    # Without a change the step of the version makes only what says so.
    return names | (set(version_assets(site)) if "published_bundle" in names else set())


def found(site, word):
    """Paths of the chunks of CURRENT that hold a word."""
    from codequarry.serving.sql.session import open_catalog

    with open_catalog(site.bench.root.path, pools=site.bench.folder / "pools") as session:
        rows = session.sql("SELECT path FROM chunks WHERE contains(text, ?)", [word]).fetchall()
    return {path for (path,) in rows}


def test_the_sensor_of_heads_makes_the_first_version_in_one_run(site):
    site.wait(lambda: site.version)
    (run,) = site.wait(site.ended)
    assert (run.status.value, run.tags["dagster/sensor_name"]) == ("SUCCESS", "git_heads")
    assert found(site, "alpha_box") == {"alpha.py"}


def test_a_commit_starts_one_run_over_its_repository(site):
    before, runs = site.version, len(site.ended(dagster__sensor_name="git_heads"))
    commit(site.bench.folder / "repositories" / "alpha", {"new.py": "def quokka() -> int:\n    return 1\n"})
    site.wait(lambda: site.version != before)
    site.wait(lambda: len(site.ended(dagster__sensor_name="git_heads")) > runs)
    (run,) = site.ended(dagster__sensor_name="git_heads")[runs:]
    assert run.tags["codequarry/changed"] == "alpha"
    assert run.tags["dagster/asset_partition_range_start"] == run.tags["dagster/asset_partition_range_end"] == "alpha"
    assert found(site, "quokka") == {"new.py"}


def test_lineage_publishes_the_others_of_a_broken_source_and_names_it(site):
    """Dagster puts assets with and without partitions into one run only where the page asks for a job with them all."""
    repositories = site.bench.folder / "repositories"
    (repositories / "beta").rename(repositories / "away")
    site.bench.write("alpha/newer.py", "def numbat() -> int:\n    return 2\n")
    request = site.materialize(everything(site), over=NAMES)
    (run,) = site.runs(request)
    assert (run.job_name, run.status.value, site.outcome(request)) == ("REINDEX", "SUCCESS", "COMPLETED_SUCCESS")
    assert made(site, run) == set(everything(site))
    assert found(site, "numbat") == {"newer.py"}
    assert found(site, "beta_box") == {"beta.py"}
    said = site.failed_checks(run)["every_repository_is_read"]
    for part in ("beta: ", "beta does not exist", "its last snapshot goes on", "check the path"):
        assert part in said


def test_when_it_is_back_neither_pages_nor_the_schedule_publish_anything(site):
    """All of these at once: their runs wait for each other, and each finds what CURRENT holds."""
    repositories = site.bench.folder / "repositories"
    (repositories / "away").rename(repositories / "beta")
    before, runs = site.version, len(site.bench.instance.get_runs())
    with site.schedule("reindex_schedule"):
        job = site.materialize(everything(site), over=NAMES, job="REINDEX")
        backfill = site.materialize(groups(site, *OF_REPOSITORIES), over=NAMES)
        asset = site.materialize(["published_bundle"])
        site.wait(lambda: site.ended(dagster__schedule_name="reindex_schedule"))
    (of_job,), (of_backfill,), (of_asset,) = (site.runs(each) for each in (job, backfill, asset))
    site.wait(lambda: len(site.ended()) == len(site.bench.instance.get_runs()))
    of_schedule = site.ended(dagster__schedule_name="reindex_schedule")
    every = [of_job, of_backfill, of_asset, *of_schedule]
    assert {run.status.value for run in every} == {"SUCCESS"}
    assert {site.outcome(job), site.outcome(backfill)} == {"COMPLETED_SUCCESS"}
    assert len(site.ended()) == runs + len(every)
    assert made(site, of_job) == made(site, of_schedule[0]) == set(everything(site))
    assert made(site, of_backfill) == set(groups(site, *OF_REPOSITORIES))
    assert made(site, of_asset) == set(version_assets(site))
    assert not any("every_repository_is_read" in site.failed_checks(run) for run in every)
    assert site.version == before


def test_lineage_succeeds_in_one_run_without_a_change(site):
    before, runs = site.version, len(site.ended())
    request = site.materialize(everything(site), over=NAMES)
    (run,) = site.runs(request)
    assert (run.job_name, run.status.value, site.outcome(request)) == ("REINDEX", "SUCCESS", "COMPLETED_SUCCESS")
    assert made(site, run) == set(everything(site))
    assert (site.version, len(site.ended())) == (before, runs + 1)


def test_the_settings_give_the_partitions_and_the_next_run_their_rows(site):
    instance, runs = site.bench.instance, len(site.ended())
    site.bench.configure("alpha", "gamma", more=AUTOMATIC)
    site.wait(lambda: set(instance.get_dynamic_partitions(PARTITIONS)) == {"alpha", "gamma"})
    assert len(instance.get_runs()) == runs
    (run,) = site.runs(site.materialize(everything(site), over=("alpha", "gamma"), job="REINDEX"))
    assert run.status.value == "SUCCESS"
    assert found(site, "gamma_box") == {"gamma.py"}
    assert found(site, "beta_box") == set()

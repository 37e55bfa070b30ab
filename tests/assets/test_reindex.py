"""The job, from repositories to CURRENT, its failures included."""

import dagster as dg
import pytest

from codequarry.assets import project as project_module
from codequarry.assets.automation import whole
from codequarry.assets.definitions import BUNDLE_ASSETS, REPOSITORY_ASSETS
from codequarry.assets.project import PARTITIONS, sync_partitions
from codequarry.pipelines.run import index_repositories
from codequarry.pipelines.store.workspace import exclusive
from codequarry.schemas.bundle.manifest import Manifest
from codequarry.schemas.settings.load import Settings


def materializations(result: dg.ExecuteInProcessResult) -> dict[tuple[str, str | None], dict[str, object]]:
    """Metadata by asset and partition."""
    events = [event.materialization for event in result.get_asset_materialization_events()]
    return {
        (event.asset_key.to_user_string(), event.partition): {k: v.value for k, v in event.metadata.items()}
        for event in events
    }


def failure(result: dg.ExecuteInProcessResult) -> tuple[str, str]:
    """The step that failed, and what the run page shows for it."""
    (event,) = result.get_step_failure_events()
    data = event.step_failure_data
    metadata = data.user_failure_data.metadata if data.user_failure_data else {}
    return str(event.step_key), f"{data.error} {' '.join(str(value.value) for value in metadata.values())}"


def contents(manifest: Manifest) -> dict[str, str]:
    """Digest by file; one for a folder whose library names its files at random."""
    return {
        "bm25/" if entry.path.startswith("bm25/") else entry.path: entry.content_sha256 or entry.sha256
        for entry in manifest.files
    }


def test_one_run_indexes_every_repository_and_publishes(first_run):
    workbench, result = first_run
    assert result.success
    assert [(source.name, source.files) for source in workbench.manifest.sources] == [("alpha", 2), ("beta", 2)]

    made = materializations(result)
    repository_assets = [key.to_user_string() for asset in REPOSITORY_ASSETS for key in asset.keys]
    bundle_assets = [asset.key.to_user_string() for asset in BUNDLE_ASSETS]
    assert made.keys() == {(asset, name) for asset in repository_assets for name in ("alpha", "beta")} | {
        (asset, None) for asset in bundle_assets
    }
    for (asset, _), metadata in made.items():
        written = {"verdict", "kept"} if asset == "fitted_encoder" else {"dagster/row_count", "bytes", "preview"}
        assert {"seconds", *written} <= metadata.keys()
    for name in ("alpha", "beta"):
        assert f"{name}.py" in str(made["repository_chunks", name]["preview"])
        rows = [made[asset, name]["dagster/row_count"] for asset in ("repository_chunks", "repository_embeddings")]
        assert rows[0] == rows[1] == next(each.chunks for each in workbench.manifest.sources if each.name == name)
    manifest = workbench.manifest
    for asset in bundle_assets:
        wanted = manifest.encoder.fingerprint if asset == "fitted_encoder" else manifest.digest
        assert made[asset, None]["digest"] == wanted
    assert made["published_bundle", None]["path"] == str(workbench.root.version(workbench.manifest.version).path)


def test_no_value_is_handed_from_step_to_step(first_run):
    _, result = first_run
    kinds = {event.event_type_value for event in result.all_events}
    assert "ASSET_MATERIALIZATION" in kinds
    assert not kinds & {"HANDLED_OUTPUT", "LOADED_INPUT"}


def test_the_command_line_writes_the_same_bundle(first_run, tmp_path):
    workbench, _ = first_run
    settings = workbench.project.settings()
    settings = settings.model_copy(
        update={
            "paths": settings.paths.model_copy(update={"store": tmp_path / "store", "work": tmp_path / "work"}),
            "bundle": settings.bundle.model_copy(update={"root": tmp_path / "bundles"}),
        }
    )
    written = index_repositories(settings).manifest
    assert written.digest == workbench.manifest.digest
    assert contents(written) == contents(workbench.manifest)
    same = {"version": "", "created": "", "sequence": 0, "files": ()}
    assert written.model_copy(update=same) == workbench.manifest.model_copy(update=same)


def test_a_rerun_without_changes_publishes_nothing_and_embeds_nothing(published):
    before = published.root.current.read_bytes()
    made = materializations(published.reindex())
    assert published.root.current.read_bytes() == before
    assert len(published.root.version_names()) == 1
    assert made["published_bundle", None]["unchanged"] is True
    assert {made["repository_embeddings", name]["embedded"] for name in ("alpha", "beta")} == {0}


@pytest.mark.parametrize("tags", [whole(("alpha",)), {"dagster/partition": "alpha"}], ids=["range of one", "partition"])
def test_a_run_of_one_partition_reads_only_that_repository(published, tags):
    before = published.manifest
    for name in ("alpha", "beta"):
        published.write(f"{name}/added.py", "def added() -> None:\n    return None\n")
    result = published.run(tags)
    assert {partition for _, partition in materializations(result)} == {"alpha", None}
    assert [source.files for source in published.manifest.sources] == [3, 2]
    assert published.manifest.digest != before.digest


def test_a_failed_check_leaves_current_as_it_was(published):
    before = published.root.current.read_bytes()
    published.write("alpha/added.py", "def added() -> None:\n    return None\n")
    published.configure("beta", "alpha", more="[checks]\nmin_chunks = 1000\n")
    result = published.reindex()
    step, shown = failure(result)
    assert step == "verified_bundle"
    assert "expected at least 1000" in shown
    assert "CURRENT is unchanged" in shown
    assert published.root.current.read_bytes() == before
    assert ("published_bundle", None) not in materializations(result)


def test_a_version_damaged_after_its_checks_is_not_published(published):
    before = published.root.current.read_bytes()
    published.write("alpha/added.py", "def added() -> None:\n    return None\n")
    until_verified = [*REPOSITORY_ASSETS, *BUNDLE_ASSETS[:-1]]
    resources, keys = {"project": published.project}, sync_partitions(published.instance, published.project.settings())
    assert dg.materialize(until_verified, instance=published.instance, resources=resources, tags=whole(keys)).success
    (staged,) = published.root.versions.glob(".staging-*/manifest.json")
    staged.write_bytes(staged.read_bytes() + b" ")
    result = dg.materialize(
        [*REPOSITORY_ASSETS, *BUNDLE_ASSETS],
        selection=["published_bundle"],
        instance=published.instance,
        resources=resources,
        raise_on_error=False,
    )
    assert "was changed since" in failure(result)[1]
    assert published.root.current.read_bytes() == before


def test_the_bundle_holds_the_repositories_of_the_settings_and_no_others(published):
    published.configure("beta")
    result = published.reindex()
    assert published.instance.get_dynamic_partitions(PARTITIONS) == ["beta"]
    assert [source.name for source in published.manifest.sources] == ["beta"]
    assert ("repository_snapshot", "alpha") not in materializations(result)


@pytest.mark.parametrize(
    ("tags", "message"),
    [({}, "the run names no partition"), (whole(("ghost",)), "choose among beta, alpha")],
    ids=["no partition", "a partition the settings do not name"],
)
def test_a_run_over_the_wrong_partitions_says_what_to_choose(workbench, tags, message):
    workbench.instance.add_dynamic_partitions(PARTITIONS, ["ghost"])
    step, shown = failure(workbench.run(tags))
    assert step == "repository_snapshot"
    assert message in shown


def test_a_repository_that_cannot_be_read_fails_its_step_with_the_remedy(workbench):
    workbench.configure("beta", "gone")
    step, shown = failure(workbench.reindex())
    assert step == "repository_snapshot"
    assert "gone does not exist" in shown
    assert "check the path" in shown
    assert not workbench.root.current.exists()


def test_a_step_waits_for_an_index_command_that_is_running(workbench, monkeypatch):
    monkeypatch.setattr(project_module, "MAX_RETRIES", 1)
    monkeypatch.setattr(project_module, "RETRY_AFTER_S", 0)
    settings: Settings = workbench.project.settings()
    with exclusive(settings.paths.work / ".lock", "indexing"):
        result = workbench.reindex()
    assert [event.step_key for event in result.all_events if event.is_step_up_for_retry] == ["repository_snapshot"]
    assert "another process is indexing" in failure(result)[1]


def test_a_repository_that_leaves_the_settings_and_comes_back_leaves_nothing_behind(published):
    """Its partition goes while its materializations stay in Dagster's history, and its files in the work folder."""
    digest, key = published.manifest.digest, dg.AssetKey("repository_chunks")
    published.configure("beta")
    assert published.reindex().success
    assert [source.name for source in published.manifest.sources] == ["beta"]
    assert published.instance.get_dynamic_partitions(PARTITIONS) == ["beta"]
    published.configure("beta", "alpha")
    result = published.reindex()
    assert result.success
    assert published.manifest.digest == digest
    assert set(published.instance.get_materialized_partitions(key)) == {"alpha", "beta"}
    made = materializations(result)
    assert made["repository_chunks", "alpha"]["reused_parts"] == made["repository_chunks", "alpha"]["parts"]


def test_the_second_of_two_runs_asked_for_at_once_finds_nothing_to_do(published):
    """A schedule and the sensor of heads may ask at the same moment; the pool lets one after the other write."""
    published.write("alpha/added.py", "def added() -> None:\n    return None\n")
    tags = whole(sync_partitions(published.instance, published.project.settings()))
    first, second = published.run(tags), published.run({**tags, "codequarry/changed": "alpha"})
    assert [materializations(each)["published_bundle", None]["unchanged"] for each in (first, second)] == [False, True]
    assert len(published.root.version_names()) == 2

"""The job, from repositories to CURRENT, its failures included."""

import dagster as dg
import pytest

from codequarry.assets import project as project_module
from codequarry.assets.automation import whole
from codequarry.assets.bundle import VIEWS
from codequarry.assets.project import PARTITIONS, sync_partitions
from codequarry.assets.repositories import READ_CHECK
from codequarry.pipelines.bundle.manifest import PIECES
from codequarry.pipelines.gates.required_content import content_checks
from codequarry.pipelines.gates.version_rules import rules_of
from codequarry.pipelines.run import index_repositories
from codequarry.pipelines.store.workspace import exclusive
from codequarry.schemas.bundle.manifest import Manifest
from codequarry.schemas.settings.load import Settings

REPOSITORY = ("repository_snapshot", "repository_chunks", "repository_syntax", "repository_modules", "repository_scip",
              "repository_embeddings")  # fmt: skip
WHOLE = ("bm25", "faiss", "faiss_idmap", *VIEWS, "manifest", "published_bundle", "coverage_report")
UNTIMED = ("manifest", "published_bundle", "coverage_report")


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
    assert made.keys() == {(asset, name) for asset in REPOSITORY for name in ("alpha", "beta")} | {
        (asset, None) for asset in WHOLE
    }
    for (asset, partition), metadata in made.items():
        written = {"dagster/row_count", "preview"} if partition or asset in VIEWS else set[str]()
        assert {*written, *({"seconds"} if asset not in UNTIMED else ())} <= metadata.keys(), asset
    for name in ("alpha", "beta"):
        assert f"{name}.py" in str(made["repository_chunks", name]["preview"])
        rows = [made[asset, name]["dagster/row_count"] for asset in ("repository_chunks", "repository_embeddings")]
        assert rows[0] == rows[1] == next(each.chunks for each in workbench.manifest.sources if each.name == name)
    manifest = workbench.manifest
    assert {made[asset, None]["digest"] for asset in ("manifest", "published_bundle")} == {manifest.digest}
    sizes = {piece: made[piece, None]["megabytes"] for piece in ("bm25", "faiss", "faiss_idmap")}
    for piece, size in sizes.items():
        written = sum(entry.size_bytes for entry in manifest.files if PIECES[piece].fullmatch(entry.path))
        assert size == pytest.approx(written / 1e6, abs=5e-4)
    assert made["v_faiss_join", None]["dagster/row_count"] == manifest.counts.chunks
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
    assert step == "index_version"
    assert "expected at least 1000" in shown
    assert "CURRENT is unchanged" in shown
    assert published.root.current.read_bytes() == before
    assert ("published_bundle", None) not in materializations(result)


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


def test_a_repository_that_was_never_read_stops_itself_alone(workbench):
    workbench.configure("beta", "gone")
    result = workbench.reindex()
    step, shown = failure(result)
    assert step == "index_version"
    assert "gone does not exist" in shown
    assert "check the path" in shown
    assert [source.name for source in workbench.manifest.sources] == ["beta"]
    assert "gone does not exist" in str(materializations(result)["repository_chunks", "gone"]["left_out"])


def test_a_run_of_another_repository_does_not_fail_for_one_that_was_never_read(workbench):
    workbench.configure("beta", "gone")
    assert not workbench.reindex().success
    workbench.write("beta/added.py", "def added() -> None:\n    return None\n")
    assert workbench.run({"dagster/partition": "beta"}).success
    assert [source.files for source in workbench.manifest.sources] == [3]


def test_nothing_is_published_when_no_repository_can_be_read(workbench):
    workbench.configure("gone")
    step, shown = failure(workbench.reindex())
    assert step == "repository_snapshot"
    assert "gone does not exist" in shown
    assert not workbench.root.current.exists()


def check(result: dg.ExecuteInProcessResult, name: str) -> dg.AssetCheckEvaluation:
    (found,) = (each for each in result.get_asset_check_evaluations() if each.check_name == name)
    return found


def test_a_repository_that_cannot_be_read_any_more_goes_on_as_it_was_and_the_others_as_they_are(published):
    """Its last snapshot is carried forward: a warning, with its age; once it is back, nothing is left of that."""
    home = published.folder / "repositories"
    (home / "alpha").rename(home / "away")
    published.write("beta/added.py", "def added() -> None:\n    return None\n")
    result = published.reindex()
    assert result.success
    assert [(source.name, source.files) for source in published.manifest.sources] == [("alpha", 2), ("beta", 3)]
    read = check(result, READ_CHECK)
    assert (read.passed, read.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "alpha does not exist" in (read.description or "")
    assert "its last snapshot goes on" in (read.description or "")
    assert "alpha" in str(materializations(result)["published_bundle", None]["carried_forward"])
    (home / "away").rename(home / "alpha")
    again = published.reindex()
    assert check(again, READ_CHECK).passed
    assert "carried_forward" not in materializations(again)["published_bundle", None]


def test_what_is_carried_forward_for_too_long_stops_the_run(published):
    (published.folder / "repositories" / "alpha").rename(published.folder / "away")
    published.configure("beta", "alpha", more="[automation]\nmax_carried_hours = 0\n")
    before = published.root.current.read_bytes()
    published.write("beta/added.py", "def added() -> None:\n    return None\n")
    result = published.reindex()
    assert not result.success
    assert check(result, READ_CHECK).severity == dg.AssetCheckSeverity.ERROR
    assert published.root.current.read_bytes() == before


def test_every_rule_of_verification_is_a_check_with_what_was_found_and_what_is_allowed(first_run):
    workbench, result = first_run
    rules = rules_of(["faiss"], late_interaction=False, learned_sparse=False)
    found = {(each.asset_key.to_user_string(), each.check_name): each for each in result.get_asset_check_evaluations()}
    assert {(rule.part, rule.name) for rule in rules} <= found.keys()
    whole = found["v_faiss_join", "rows_of_v_faiss_join_with_a_missing_side"]
    assert (whole.metadata["found"].value, whole.metadata["allowed"].value) == (0.0, 0.0)
    chunks = found["manifest", "chunks"]
    assert (chunks.metadata["found"].value, chunks.metadata["allowed"].value) == (workbench.manifest.counts.chunks, 1.0)
    paths = workbench.root.version(workbench.manifest.version)
    checks = content_checks(paths, workbench.manifest, workbench.project.settings().checks)
    unknown = [one.name for one in checks if not any(rule.pattern.fullmatch(one.name) for rule in rules)]
    assert unknown == []


def test_a_failed_rule_is_a_failed_check_of_its_own(published):
    published.write("alpha/added.py", "def added() -> None:\n    return None\n")
    published.configure("beta", "alpha", more="[checks]\nmin_chunks = 1000\n")
    failed = [each for each in published.reindex().get_asset_check_evaluations() if not each.passed]
    by_name = {each.check_name: each for each in failed if each.severity == dg.AssetCheckSeverity.ERROR}
    assert by_name.keys() == {"chunks"}
    assert by_name["chunks"].metadata["allowed"].value == 1000.0
    assert "allowed at least 1000" in (by_name["chunks"].description or "")


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

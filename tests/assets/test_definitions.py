"""What Dagster loads, how fast, and from where."""

import inspect
import json
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import dagster as dg
import pytest

import codequarry.assets
from codequarry.assets.definitions import build_definitions, project_assets
from codequarry.schemas.settings.load import Settings
from tests.assets.instance import instance_in, prepared_home

ROOT = Path(__file__).parents[2]
HEAVY = ("faiss", "onnxruntime", "onnx", "tree_sitter", "torch", "pyarrow", "duckdb", "tantivy", "tokenizers", "numpy",
         "pandas", "great_expectations")  # fmt: skip

WRAPPED = {
    "repository_snapshot": "sources.snapshot.snapshot_repository",
    "repository_chunks": "syntax.stage.chunk_repository",
    "repository_syntax": "syntax.stage.chunk_repository",
    "repository_modules": "modules.stage.module_repository",
    "repository_scip": "scip.stage.scip_repository",
    "repository_embeddings": "embed.stage.embed_repository",
    "repository_token_codes": "indexes.warp.stage.embed_tokens",
    "repository_sparse_terms": "indexes.splade.stage.embed_sparse",
    "fitted_encoder": "adapt.stage.adapt_encoder",
    "late_interaction_gain": "evaluation.late_gain.measure_late",
    "manifest": "gates.verify.verify_staged",
    "published_bundle": "publish.publish.publish_verified",
}
EVERYTHING = """
[embedding]
adapt = true
[indexes]
tier = "full"
[splade]
model = "models/splade"
"""
"""Settings that turn every index on."""


def test_definitions_can_be_loaded(workbench):
    dg.Definitions.validate_loadable(build_definitions(workbench.project))


def test_loading_imports_no_heavy_library_and_is_cheap(workbench):
    """Every code server and every run loads the definitions again; a library at module top would be paid each time."""
    program = (
        "import json, sys, time\n"
        "from codequarry.assets.definitions import definitions\n"
        "definitions()\n"
        f"print(json.dumps([[name for name in {HEAVY} if name in sys.modules], time.process_time()]))"
    )
    environment = {**os.environ, "CODEQUARRY_SETTINGS": workbench.project.settings_file}
    done = subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True)
    loaded, cpu_seconds = json.loads(done.stdout)
    assert loaded == []
    assert cpu_seconds < 10, "about 2 CPU-seconds are usual; this catches a library that hides under another name"


def test_workspace_and_instance_template_boot(workbench, tmp_path):
    home = prepared_home(tmp_path / "home")
    environment = {
        **os.environ,
        "DAGSTER_HOME": str(home),
        "CODEQUARRY_SETTINGS": workbench.project.settings_file,
    }
    done = subprocess.run(
        [sys.executable, "-m", "dagster", "definitions", "validate", "-w", str(ROOT / "workspace.yaml")],
        env=environment, cwd=tmp_path, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Validation successful" in done.stdout + done.stderr


def test_instance_template_sends_no_telemetry_and_lets_one_run_write(tmp_path):
    with instance_in(tmp_path) as instance:
        settings = instance.get_settings("telemetry"), instance.get_settings("concurrency")
    assert settings == ({"enabled": False}, {"pools": {"granularity": "run", "default_limit": 1}})
    writers = {asset.op.pool for asset in project_assets(Settings()) if "coverage_report" not in asset.op.name}
    assert writers == {"work_folder"}


def test_settings_that_cannot_be_read_stop_the_load_with_their_message(workbench):
    workbench.configure(more="[schedul]\n")
    with pytest.raises(ValueError, match="unknown setting 'schedul'"):
        build_definitions(workbench.project)


@pytest.mark.parametrize("name", WRAPPED)
def test_an_asset_says_what_its_pipeline_function_says(name, everything):
    key = dg.AssetKey(name)
    asset = next(each for each in project_assets(everything) if key in each.keys)
    module, _, function = WRAPPED[name].rpartition(".")
    documented = inspect.getdoc(getattr(import_module(f"codequarry.pipelines.{module}"), function))
    description = asset.descriptions_by_key[key]
    assert description
    assert set(description.split("\n\n")) <= set((documented or "").split("\n\n"))


PARENTS = {
    "repository_snapshot": set(),
    "repository_chunks": {"repository_snapshot"},
    "repository_syntax": {"repository_snapshot"},
    "repository_modules": {"repository_syntax"},
    "repository_scip": {"repository_snapshot"},
    "repository_embeddings": {"repository_chunks"},
    "bm25": {"repository_chunks"},
    "faiss": {"repository_embeddings"},
    "faiss_idmap": {"faiss"},
    "v_faiss_join": {"faiss_idmap", "repository_chunks"},
    "modules": {"repository_modules"},
    "symbols_mat": {"repository_scip", "repository_syntax"},
    "occurrences_mat": {"repository_scip", "repository_syntax"},
    "manifest": {"bm25", "faiss", "v_faiss_join", "modules", "symbols_mat", "occurrences_mat"},
    "published_bundle": {"manifest"},
    "coverage_report": {"published_bundle"},
    "mcp_service": {"published_bundle"},
}
GROUPS = {
    "sources": {"repository_snapshot"},
    "syntax": {"repository_chunks", "repository_syntax", "repository_modules"},
    "symbols": {"repository_scip"},
    "vectors": {"repository_embeddings"},
    "indexes": {"bm25", "faiss"},
    "catalog": {"faiss_idmap", "v_faiss_join", "modules", "symbols_mat", "occurrences_mat"},
    "bundle": {"manifest", "published_bundle"},
    "serving": {"mcp_service"},
    "analysis": {"coverage_report"},
}


def test_the_graph_runs_from_repositories_to_the_service(workbench):
    graph = build_definitions(workbench.project).resolve_asset_graph()
    found = {key.to_user_string(): graph.get(key) for key in graph.get_all_asset_keys()}
    assert {name: {key.to_user_string() for key in node.parent_keys} for name, node in found.items()} == PARENTS
    assert {name: node.group_name for name, node in found.items()} == {
        name: group for group, names in GROUPS.items() for name in names
    }
    assert all(node.description for node in found.values())


@pytest.fixture
def everything(workbench) -> Settings:
    """Return settings that turn every index on."""
    workbench.configure(more=EVERYTHING)
    return workbench.project.settings()


def test_what_the_settings_turn_on_is_an_asset_with_checks_of_its_own(workbench, everything):
    graph = build_definitions(workbench.project).resolve_asset_graph()
    more = {
        "fitted_encoder", "repository_token_codes", "repository_sparse_terms", "faiss2", "warp", "splade",
        "late_interaction_gain",
    }  # fmt: skip
    assert {key.to_user_string() for key in graph.get_all_asset_keys()} == {*PARENTS, *more}
    checked = {key.asset_key.to_user_string() for key in graph.asset_check_keys}
    assert {"faiss2", "warp", "splade"} <= checked


def test_lineage_is_one_run_with_late_interaction_too(workbench, everything):
    """Dagster's pages ask for the first job, by name, that has all chosen assets."""
    definitions = build_definitions(workbench.project)
    shown = {key for one in project_assets(everything) for key in one.keys}
    jobs = [job for job in definitions.resolve_all_job_defs() if shown <= job.asset_layer.executable_asset_keys]
    assert min(job.name for job in jobs) == "REINDEX_AND_MEASURE"
    workbench.configure("alpha")
    jobs = build_definitions(workbench.project).resolve_all_job_defs()
    assert min(job.name for job in jobs) == "REINDEX"
    assert "REINDEX_AND_MEASURE" not in {job.name for job in jobs}


def test_sources_keep_clear_of_what_breaks_dagster():
    """Postponed annotations break asset signatures, and ``dagster._core`` changes without notice."""
    private = "from dagster._core.storage.event_log import SqliteEventLogStorage\n"  # which has no public name
    for file in Path(codequarry.assets.__file__).parent.rglob("*.py"):
        source = file.read_text(encoding="utf-8")
        if file.name == "event_log.py":
            source = source.replace(private, "")
        if "dagster" in source:  # the commands that join the engine with the pipeline do without it
            assert not re.search(r"from __future__|dagster\._", source), file

"""What Dagster loads, how fast, and from where."""

import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from importlib.resources import files
from pathlib import Path

import dagster as dg
import pytest

import codequarry.assets
from codequarry.assets.bundle import late_interaction_gain
from codequarry.assets.definitions import BUNDLE_ASSETS, REPOSITORY_ASSETS, build_definitions

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
    "fitted_encoder": "adapt.stage.adapt_encoder",
    "late_interaction_gain": "evaluation.late_gain.measure_late",
    "staged_bundle": "bundle.stage.stage_bundle",
    "verified_bundle": "gates.verify.verify_staged",
    "published_bundle": "publish.publish.publish_verified",
}


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
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(str(files("codequarry.assets") / "dagster.yaml"), home / "dagster.yaml")
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
    shutil.copy(str(files("codequarry.assets") / "dagster.yaml"), tmp_path / "dagster.yaml")
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        settings = instance.get_settings("telemetry"), instance.get_settings("concurrency")
    assert settings == ({"enabled": False}, {"pools": {"granularity": "run", "default_limit": 1}})
    assert {asset.op.pool for asset in [*REPOSITORY_ASSETS, *BUNDLE_ASSETS]} == {"work_folder"}


def test_settings_that_cannot_be_read_stop_the_load_with_their_message(workbench):
    workbench.configure(more="[schedul]\n")
    with pytest.raises(ValueError, match="unknown setting 'schedul'"):
        build_definitions(workbench.project)


@pytest.mark.parametrize("name", WRAPPED)
def test_an_asset_says_what_its_pipeline_function_says(name):
    key = dg.AssetKey(name)
    asset = next(each for each in [*REPOSITORY_ASSETS, *BUNDLE_ASSETS, late_interaction_gain] if key in each.keys)
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
    "repository_embeddings": {"repository_chunks", "fitted_encoder"},
    "fitted_encoder": {"repository_snapshot"},
    "late_interaction_gain": {"repository_snapshot"},
    "staged_bundle": {"repository_embeddings", "repository_modules", "repository_scip", "repository_syntax"},
    "verified_bundle": {"staged_bundle"},
    "published_bundle": {"verified_bundle"},
}


def test_the_graph_runs_from_repositories_to_the_published_bundle(workbench):
    assert PARENTS.keys() == WRAPPED.keys()
    graph = build_definitions(workbench.project).resolve_asset_graph()
    found = {key.to_user_string(): graph.get(key) for key in graph.get_all_asset_keys()}
    assert {name: {key.to_user_string() for key in node.parent_keys} for name, node in found.items()} == PARENTS
    assert {name: node.group_name for name, node in found.items()} == {
        **{name: "bundle" if name.endswith("_bundle") else "repository" for name in PARENTS},
        "late_interaction_gain": "evaluation",
    }


def test_sources_keep_clear_of_what_breaks_dagster():
    """Postponed annotations break asset signatures, and ``dagster._core`` changes without notice."""
    for file in Path(codequarry.assets.__file__).parent.rglob("*.py"):
        source = file.read_text(encoding="utf-8")
        if "import dagster" in source:  # the commands that join the engine with the pipeline do without it
            assert not re.search(r"from __future__|dagster\._", source), file

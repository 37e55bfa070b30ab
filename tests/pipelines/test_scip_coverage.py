"""Chunks against what a real indexer says of real packages: every definition is found where SCIP puts it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.corpus import package_folder
from benchmarks.scip_coverage import coverage
from codequarry.schemas.settings.load import PathsSettings, RepositorySettings, Settings
from codequarry.schemas.trust.programs import tools_folder


@pytest.mark.slow
def test_definitions_of_scip_are_listed_by_their_chunk_and_functions_that_fit_are_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = "jsonschema"
    tools = Path(os.environ.get("CODEQUARRY_SCIP_TOOLS") or "missing").absolute()
    if not (tools / "node_modules" / ".bin" / "scip-python").exists():
        pytest.skip("CODEQUARRY_SCIP_TOOLS names no folder with scip-python: coverage by SCIP is not measured")
    store = tmp_path / "store"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    tools_folder().parent.mkdir(parents=True)
    tools_folder().symlink_to(tools)
    settings = Settings(paths=PathsSettings(store=store, work=tmp_path / "work"))
    found = coverage(RepositorySettings(path=package_folder(package), name=package), settings)
    assert found.definitions > 500
    assert found.listed >= 0.99 * found.definitions, found.misses
    assert found.fitting > 400
    assert found.whole >= 0.95 * found.fitting

"""Chunks against what a real indexer says of real packages: every definition is found where SCIP puts it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.corpus import package_folder
from benchmarks.lookups.scip_coverage import coverage
from codequarry.schemas.settings.load import PathsSettings, RepositorySettings, Settings


@pytest.mark.slow
@pytest.mark.usefixtures("real_indexers")
def test_definitions_of_scip_are_listed_by_their_chunk_and_functions_that_fit_are_whole(tmp_path: Path) -> None:
    package, store = "jsonschema", tmp_path / "store"
    settings = Settings(paths=PathsSettings(store=store, work=tmp_path / "work"))
    found = coverage(RepositorySettings(path=package_folder(package), name=package), settings)
    assert found.definitions > 500
    assert found.listed >= 0.99 * found.definitions, found.misses
    assert found.fitting > 400
    assert found.whole >= 0.95 * found.fitting

"""What the work folder keeps after a publish, and that the next run makes the same of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from codequarry.pipelines.embed.stage import embed_repository
from codequarry.pipelines.run import index_repositories
from codequarry.pipelines.sources.snapshot import snapshot_repository
from codequarry.pipelines.sources.sources import repositories_by_name
from codequarry.pipelines.store.parts import RELEASED
from codequarry.pipelines.store.workspace import repository_work
from codequarry.pipelines.syntax.stage import chunk_repository
from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.settings.load import Settings
from codequarry.serving.files.integrity import file_sha256
from tests.pipelines.conftest import MakeSettings
from tests.pipelines.gates.test_tiers import own_store
from tests.pipelines.repositories import commit
from tests.pipelines.test_incremental import contents, corpus, from_nothing, module, small_shards

__all__ = ["small_shards"]
GONE = RELEASED | {"contents.parquet", "ast_references.parquet"}


def held(settings: Settings, name: str) -> set[str]:
    """Names of the files in the work folder of a repository."""
    return {file.name for file in repository_work(settings.paths.work, name).path.rglob("*.parquet")}


@pytest.fixture
def two(tmp_path: Path, make_settings: MakeSettings, small_shards: None) -> Settings:
    """Two repositories whose files share shards."""
    commit(tmp_path / "app", corpus(24))
    commit(tmp_path / "lib", {f"lib{number}.py": module(100 + number) for number in range(12)})
    return make_settings(tmp_path / "app", tmp_path / "lib")


def test_nothing_stays_that_is_published_and_can_be_made_again(two: Settings) -> None:
    first = index_repositories(two)
    assert len(first.manifest.shards) > 4
    for _ in range(2):
        for name in ("app", "lib"):
            assert not held(two, name) & GONE
            assert {"ast_nodes.parquet", "ast_mentions.parquet", "module_facts.parquet"} <= held(two, name)
        assert index_repositories(two).unchanged


def test_tables_that_a_version_has_as_well_are_links_to_them(tmp_path: Path, make_settings: MakeSettings) -> None:
    commit(tmp_path / "app", corpus(2))
    settings = own_store(make_settings(tmp_path / "app"), tmp_path)
    work = repository_work(settings.paths.work, "app")
    first = index_repositories(settings)
    for number in range(2):
        tables = BundlePaths(first.path).tables
        for table in (work.table("modules"), *work.parts.glob("*/ast_nodes.parquet")):
            assert any(file.samefile(table) for file in tables.iterdir())
        kept = {file: file_sha256(file) for file in first.path.rglob("*") if file.is_file()}
        commit(tmp_path / "app", {"pkg0/mod0.py": f"def other():\n    return {number}\n"})
        second = index_repositories(settings)
        assert {file: file_sha256(file) for file in kept} == kept
        first = second


def test_a_shard_gets_its_rows_of_other_repositories_back(tmp_path: Path, two: Settings) -> None:
    first = index_repositories(two)
    commit(tmp_path / "app", {"pkg0/mod0.py": module(77)})
    second = index_repositories(two)
    assert second.reused_shards == len(first.manifest.shards) - 1
    (app, lib) = second.chunks
    assert (app.parts - app.reused_parts, lib.parts - lib.reused_parts) == (1, 0)
    assert contents(second) == contents(from_nothing(two, tmp_path))
    assert not held(two, "lib") & GONE


def test_other_settings_of_the_indexes_make_all_rows_again(
    tmp_path: Path, two: Settings, make_settings: MakeSettings
) -> None:
    index_repositories(two)
    other = make_settings(tmp_path / "app", tmp_path / "lib", indexes={"faiss_factory": "SQ8"})
    assert not index_repositories(other).unchanged
    assert contents(index_repositories(two)) == contents(from_nothing(two, tmp_path))


def test_a_stage_of_dagster_makes_the_tables_whole_again(two: Settings) -> None:
    index_repositories(two)
    work = repository_work(two.paths.work, "app")
    before = {file: json.loads(file.read_bytes()) for file in work.parts.rglob("*.json")}
    snapshot_repository(repositories_by_name(two.sources.repositories)["app"], two)
    assert chunk_repository("app", two).reused_parts == 0
    embed_repository("app", two)
    assert len(before) > 4
    for file, record in before.items():
        assert {name: file_sha256(file.parent / name) for name in record["files"]} == record["files"]
    assert chunk_repository("app", two).reused_parts == chunk_repository("app", two).parts


def test_texts_stay_whose_vectors_the_store_must_not_lose(
    two: Settings, kept_vectors: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codequarry.pipelines.run.keeps_vectors", lambda _: True)
    index_repositories(two)
    assert held(two, "app") & GONE == {"chunks.parquet"}


@pytest.mark.parametrize("model", ["static", "minilm"])
def test_a_run_without_a_change_needs_neither_the_work_folder_nor_the_store(
    tmp_path: Path, make_settings: MakeSettings, model: str
) -> None:
    """Prevents the run that failed for what it wanted to remove, or to know of an encoder that it did not need."""
    commit(tmp_path / "app", corpus(2))
    settings = own_store(make_settings(tmp_path / "app", embedding={"model": model}), tmp_path)
    published = index_repositories(settings)
    shutil.rmtree(settings.paths.work)
    shutil.rmtree(settings.paths.store)
    again = index_repositories(settings)
    assert again.unchanged
    assert again.path == published.path

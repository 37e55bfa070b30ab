"""Staging, verification and the flip: sabotage is stopped by the check that names it; faults change nothing visible."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from codequarry.pipelines import staging
from codequarry.pipelines.build import index_repositories
from codequarry.pipelines.chunks import chunk_repository
from codequarry.pipelines.embeddings import embed_repository, embedding_key
from codequarry.pipelines.encoders import SHIPPED
from codequarry.pipelines.modules import module_repository
from codequarry.pipelines.parts import CHUNKED, EMBEDDED, plan_parts, put_seal
from codequarry.pipelines.publisher import publish_verified
from codequarry.pipelines.scip import scip_repository
from codequarry.pipelines.snapshot import snapshot_repository
from codequarry.pipelines.sources import named
from codequarry.pipelines.staging import stage_bundle
from codequarry.pipelines.verification import verify_staged
from codequarry.pipelines.workspace import exclusive, repository_work
from codequarry.schemas.encoder import EncoderSpec
from codequarry.schemas.errors import BusyError, CodequarryError, IntegrityError, PublishError, SourceError
from codequarry.schemas.layout import BundleRoot
from codequarry.schemas.settings import Settings
from codequarry.schemas.tables import SCHEMAS, write_table
from tests.pipelines.conftest import MakeSettings
from tests.pipelines.corpus import write_shop
from tests.pipelines.repositories import commit


@pytest.fixture
def published(tmp_path: Path, make_settings: MakeSettings) -> Settings:
    """A published version, then a change whose stages have run up to the embeddings."""
    repo = write_shop(tmp_path)
    settings = make_settings(repo)
    index_repositories(settings)
    commit(repo, {"shop/new.py": "def brand_new():\n    return 1\n"})
    (repository,) = named(settings.sources.repositories).values()
    snapshot_repository(repository, settings)
    chunk_repository("shop", settings)
    module_repository("shop", settings)
    scip_repository("shop", settings)
    embed_repository("shop", settings)
    return settings


def state(settings: Settings) -> tuple[bytes, list[str]]:
    root = BundleRoot(settings.bundle.root)
    return root.current.read_bytes(), root.version_names()


def edit_table(settings: Settings, name: str, edit: Callable[[pa.Table], pa.Table], seal: str = CHUNKED) -> None:
    """Change what a stage wrote as a stage that is wrong would: sealed, so that only the checks can tell."""
    work = repository_work(settings.paths.work, "shop")
    (part,) = plan_parts(work, settings)
    if work.table(name).is_file():
        write_table(work.table(name), edit(pq.read_table(work.table(name))), SCHEMAS[name])
        return
    held = pq.read_table(part.table(name))
    write_table(part.table(name), edit(held), held.schema)
    record = json.loads((part.folder / f"{seal}.json").read_text())
    put_seal(part.folder, seal, record["key"], list(record["files"]), record["facts"])
    if seal == CHUNKED:
        spec = EncoderSpec.load(SHIPPED)
        put_seal(part.folder, EMBEDDED, embedding_key(part, spec.fingerprint), ["embeddings.parquet"], {})


def edit_chunks(settings: Settings, edit: Callable[[pa.Table], pa.Table]) -> None:
    edit_table(settings, "chunks", edit)


def edit_vectors(settings: Settings, edit: Callable[[pa.Table], pa.Table]) -> None:
    edit_table(settings, "embeddings", edit, EMBEDDED)


def replaced(table: pa.Table, column: str, values: object) -> pa.Table:
    return table.set_column(table.schema.get_field_index(column), table.schema.field(column), values)


def drop_a_chunk(settings: Settings) -> None:
    edit_chunks(settings, lambda table: table.slice(1))
    edit_vectors(settings, lambda table: table.slice(1))


def drop_a_vector(settings: Settings) -> None:
    edit_vectors(settings, lambda table: table.slice(1))


def double_a_chunk(settings: Settings) -> None:
    edit_chunks(settings, lambda table: pa.concat_tables([table, table.slice(0, 1)]))
    edit_vectors(settings, lambda table: pa.concat_tables([table, table.slice(0, 1)]))


def shift_the_ranges(settings: Settings) -> None:
    edit_chunks(settings, lambda table: replaced(table, "start_byte", pc.add(table["start_byte"], 1)))


def turn_lines_around(settings: Settings) -> None:
    edit_chunks(settings, lambda table: replaced(table, "end_line", pa.array([-1] * len(table), pa.int32())))


def scale_the_vectors(settings: Settings) -> None:
    edit_vectors(settings, lambda table: _vectors(table, 2.0))


def spoil_a_vector(settings: Settings) -> None:
    edit_vectors(settings, lambda table: _vectors(table, float("nan")))


def rename_a_file(settings: Settings) -> None:
    edit_chunks(settings, lambda table: replaced(table, "path", pa.array(["elsewhere.py"] * len(table))))


def move_a_definition(settings: Settings) -> None:
    edit_table(settings, "ast_nodes", lambda table: replaced(table, "chunk_id", pc.add(table["chunk_id"], 1)))


def stretch_a_definition(settings: Settings) -> None:
    edit_table(settings, "ast_nodes", lambda table: replaced(table, "end_byte", pc.add(table["end_byte"], 1 << 20)))


def lose_a_definition(settings: Settings) -> None:
    edit_table(settings, "ast_nodes", lambda table: table.slice(1))


def move_a_reference(settings: Settings) -> None:
    edit_table(
        settings, "ast_references", lambda table: replaced(table, "start_byte", pc.add(table["start_byte"], 9999))
    )


def lose_the_chunk_of_leaves(settings: Settings) -> None:
    edit_table(settings, "cst_nodes", lambda table: replaced(table, "chunk_id", pc.add(table["chunk_id"], 1)))


def lose_a_module(settings: Settings) -> None:
    edit_table(settings, "modules", lambda table: table.slice(1))


def resolve_to_nowhere(settings: Settings) -> None:
    nowhere = pa.array([["no/where.py"]] * 10, pa.list_(pa.string()))
    edit_table(settings, "modules", lambda table: replaced(table, "resolved", nowhere.slice(0, len(table))))


def imagine_an_import(settings: Settings) -> None:
    edit_table(settings, "modules", lambda table: replaced(table, "fan_in", pa.array([1] * len(table), pa.int32())))


def describe_older_files(settings: Settings) -> None:
    edit_table(
        settings, "modules", lambda table: replaced(table, "definitions", pa.array([9] * len(table), pa.int32()))
    )


def _vectors(table: pa.Table, factor: float) -> pa.Table:
    flat = pc.multiply(table["vector"].combine_chunks().flatten(), pa.scalar(factor, pa.float32()))
    return replaced(table, "vector", pa.FixedSizeListArray.from_arrays(flat, table["vector"].type.list_size))


@pytest.mark.parametrize(
    ("sabotage", "named_cause"),
    [
        (drop_a_chunk, "covered not exactly once|do not reach the end"),
        (drop_a_vector, "do not hold the same ids"),
        (double_a_chunk, "duplicate|Duplicate"),
        (shift_the_ranges, "covered not exactly once"),
        (turn_lines_around, "out of order"),
        (scale_the_vectors, "unit norm"),
        (spoil_a_vector, "unit norm"),
        (rename_a_file, "chunks of files that are not indexed"),
        (move_a_definition, "definitions that do not start in their chunk"),
        (stretch_a_definition, "definitions that reach outside of their file"),
        (lose_a_definition, "definitions and symbols of chunks that differ"),
        (move_a_reference, "references that do not lie in their chunk"),
        (lose_the_chunk_of_leaves, "leaf kinds of no chunk"),
        (lose_a_module, "source files without a module"),
        (resolve_to_nowhere, "imports that resolve to what is no module"),
        (imagine_an_import, "fan-in and fan-out differ"),
        (describe_older_files, "modules that count other lines and definitions"),
    ],
)
def test_a_sabotaged_build_is_stopped_by_the_check_that_names_it(
    published: Settings, sabotage: Callable[[Settings], None], named_cause: str
) -> None:
    before = state(published)
    sabotage(published)
    with pytest.raises(PublishError, match=named_cause):
        stage_bundle(["shop"], published)
        verify_staged(published)
    with pytest.raises(PublishError, match="nothing is verified"):
        publish_verified(published)
    assert state(published) == before
    assert list((published.bundle.root / "versions").glob(".staging-*")) == []


def test_an_id_map_of_another_order_is_found(published: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = staging.write_idmap
    monkeypatch.setattr(staging, "write_idmap", lambda path, ids: honest(path, [each[::-1] for each in ids]))
    stage_bundle(["shop"], published)
    with pytest.raises(PublishError, match="ids in FAISS that differ from its id map"):
        verify_staged(published)


def test_an_honest_change_passes_every_check(published: Settings) -> None:
    staged = stage_bundle(["shop"], published)
    checks = verify_staged(published).checks
    assert len(checks) > 12
    assert all(check.passed for check in checks)
    result = publish_verified(published)
    assert (result.unchanged, result.manifest) == (False, staged.manifest)


def test_a_staged_version_that_changes_after_verification_is_refused(published: Settings) -> None:
    staged = stage_bundle(["shop"], published)
    verify_staged(published)
    (staged.path / "manifest.json").write_bytes(b"{}")
    with pytest.raises(PublishError, match="changed since"):
        publish_verified(published)


@pytest.mark.parametrize("name", ["catalog.duckdb", "tables/chunks.parquet", "faiss.index", "encoder/rows.npy"])
def test_a_flipped_bit_in_a_staged_file_is_found(published: Settings, name: str) -> None:
    file = stage_bundle(["shop"], published).path / name
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(IntegrityError, match=name):
        verify_staged(published)


def test_two_publishers_do_not_meet(published: Settings) -> None:
    stage_bundle(["shop"], published)
    verify_staged(published)
    with exclusive(published.bundle.root / ".publish.lock", "publishing"), pytest.raises(BusyError, match="publishing"):
        publish_verified(published)
    assert not publish_verified(published).unchanged


@pytest.mark.parametrize("stage", [chunk_repository, module_repository, scip_repository, embed_repository])
def test_a_stage_out_of_order_says_which_one_to_run(
    tmp_path: Path, make_settings: MakeSettings, stage: Callable[..., object]
) -> None:
    with pytest.raises(SourceError, match="is missing"):
        stage("shop", make_settings(tmp_path))
    with pytest.raises((SourceError, CodequarryError)):
        stage_bundle(["shop"], make_settings(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("limit", [2_000, 10_000, 40_000, 300_000], ids=lambda limit: f"{limit}B")
def test_a_full_disk_leaves_current_and_no_litter(published: Settings, limit: int, tmp_path: Path) -> None:
    """A file-size limit refuses writes as a full disk does, at a different stage for each size."""
    before = state(published)
    program = (
        "import resource, sys; from pathlib import Path\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n"
        "from codequarry.serving.cli import main; main()"
    )
    environment = {
        **os.environ,
        "CODEQUARRY__PATHS__STORE": str(published.paths.store),
        "CODEQUARRY__PATHS__WORK": str(published.paths.work),
    }
    repo = published.sources.repositories[0].path
    done = subprocess.run(
        [sys.executable, "-c", program, "index", str(repo), "--root", str(published.bundle.root), "--force"],
        env=environment, capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode not in (0, -25), done.stderr
    assert "Traceback" not in done.stderr
    assert "free" in done.stderr
    assert state(published) == before
    assert list((published.bundle.root / "versions").glob(".staging-*")) == []


def test_the_bundle_root_that_cannot_be_made_is_named(published: Settings, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    blocked = published.model_copy(
        update={"bundle": published.bundle.model_copy(update={"root": tmp_path / "file" / "x"})}
    )
    with pytest.raises(PublishError, match="nothing can be staged"):
        stage_bundle(["shop"], blocked)
    shutil.rmtree(published.bundle.root)


@pytest.mark.slow
def test_vectors_of_another_encoder_are_not_mixed_in(published: Settings) -> None:
    """As when one partition was embedded before [embedding] changed and the others after."""
    embedding = published.embedding.model_copy(update={"model": "minilm"})
    with pytest.raises(SourceError, match="of another state") as caught:
        stage_bundle(["shop"], published.model_copy(update={"embedding": embedding}))
    assert "run the embedding stage of shop" in caught.value.suggestion

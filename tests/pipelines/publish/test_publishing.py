"""Staging, verification and the flip: sabotage is stopped by the check that names it; faults change nothing visible."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from codequarry.pipelines.bundle.stage import stage_bundle
from codequarry.pipelines.embed.stage import embed_repository
from codequarry.pipelines.gates.verify import verify_staged
from codequarry.pipelines.modules.stage import module_repository
from codequarry.pipelines.publish.publish import publish_verified
from codequarry.pipelines.run import index_repositories
from codequarry.pipelines.scip.stage import scip_repository
from codequarry.pipelines.sources.snapshot import snapshot_repository
from codequarry.pipelines.sources.sources import repositories_by_name
from codequarry.pipelines.store.workspace import exclusive
from codequarry.pipelines.syntax.stage import chunk_repository
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.errors import (
    BusyError,
    CodequarryError,
    IntegrityError,
    PublishError,
    SourceError,
    UnavailableError,
)
from codequarry.schemas.settings.load import Settings
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
    (repository,) = repositories_by_name(settings.sources.repositories).values()
    snapshot_repository(repository, settings)
    chunk_repository("shop", settings)
    module_repository("shop", settings)
    scip_repository("shop", settings)
    embed_repository("shop", settings)
    return settings


def state(settings: Settings) -> tuple[bytes, list[str]]:
    root = BundleRoot(settings.bundle.root)
    return root.current.read_bytes(), root.version_names()


def test_an_honest_change_passes_every_check(published: Settings) -> None:
    staged = stage_bundle(["shop"], published)
    verified = verify_staged(staged, published)
    assert len(verified.checks) > 12
    assert all(check.passed for check in verified.checks)
    result = publish_verified(verified, published.bundle)
    assert (result.unchanged, result.manifest) == (False, staged.manifest)


def test_a_staged_version_that_changes_after_verification_is_refused(published: Settings) -> None:
    staged = stage_bundle(["shop"], published)
    verified = verify_staged(staged, published)
    (staged.path / "manifest.json").write_bytes(b"{}")
    with pytest.raises(PublishError, match="changed since"):
        publish_verified(verified, published.bundle)


@pytest.mark.parametrize(
    "name", ["catalog.duckdb", "tables/chunks.parquet", "tables/embeddings.parquet", "encoder/rows.npy"]
)
def test_a_flipped_bit_in_a_staged_file_is_found(published: Settings, name: str) -> None:
    staged = stage_bundle(["shop"], published)
    file = staged.path / name
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(IntegrityError, match=name):
        verify_staged(staged, published)


def test_two_publishers_do_not_meet(published: Settings) -> None:
    verified = verify_staged(stage_bundle(["shop"], published), published)
    with exclusive(published.bundle.root / ".publish.lock", "publishing"), pytest.raises(BusyError, match="publishing"):
        publish_verified(verified, published.bundle)
    assert not publish_verified(verified, published.bundle).unchanged


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
        "from codequarry.pipelines.cli.root import main; main()"
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
    with pytest.raises(UnavailableError, match="cannot be written"):
        stage_bundle(["shop"], blocked)
    shutil.rmtree(published.bundle.root)


@pytest.mark.slow
def test_vectors_of_another_encoder_are_not_mixed_in(published: Settings) -> None:
    """As when one partition was embedded before [embedding] changed and the others after."""
    embedding = published.embedding.model_copy(update={"model": "minilm"})
    with pytest.raises(SourceError, match="of another state") as caught:
        stage_bundle(["shop"], published.model_copy(update={"embedding": embedding}))
    assert "run the embedding stage of shop" in caught.value.suggestion

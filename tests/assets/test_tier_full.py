"""Tier full through Dagster: the embedding asset makes what it adds, and says so."""

import pytest

from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.serving.version.file_checks import check_version
from tests.assets.conftest import Workbench
from tests.assets.test_reindex import materializations
from tests.pipelines.encoders import small_encoder
from tests.pipelines.sparse_models import write_model


@pytest.mark.slow
def test_a_run_in_tier_full_encodes_tokens_and_terms(workbench: Workbench) -> None:
    small_encoder(workbench.folder / "second")
    write_model(workbench.folder / "model")
    more = '[indexes]\ntier = "full"\n[embedding.second]\nfolder = "second"\n[splade]\nmodel = "model"\n'
    workbench.configure("alpha", "beta", more=more)
    result = workbench.reindex()
    assert result.success
    manifest = workbench.manifest
    assert manifest.tier == "full"
    assert manifest.warp is not None and manifest.splade is not None
    for name in ("alpha", "beta"):
        shown = materializations(result)["repository_embeddings", name]
        assert shown["token_encoder_fingerprint"] == manifest.warp.encoder.fingerprint
        assert shown["sparse_encoder_fingerprint"] == manifest.splade.encoder.fingerprint
        assert shown["sparse_texts_encoded"] == next(one.chunks for one in manifest.sources if one.name == name)
    paths = workbench.root.version(manifest.version)
    assert [check.name for check in check_version(BundlePaths(paths.path), manifest) if not check.passed] == []

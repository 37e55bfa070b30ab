"""Tier full through Dagster: what it adds are assets, which say what they made."""

import pytest

from codequarry.pipelines.gates.version_rules import rules_of
from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.serving.version.file_checks import check_version
from tests.assets.conftest import Workbench
from tests.assets.test_reindex import materializations
from tests.pipelines.embed.encoders import small_encoder
from tests.pipelines.embed.sparse_models import write_model


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
    made = materializations(result)
    assert {("faiss2", None), ("warp", None), ("splade", None)} <= made.keys()
    rules = rules_of(["faiss", "faiss2"], late_interaction=True, learned_sparse=True)
    checks = check_version(BundlePaths(workbench.root.version(manifest.version).path), manifest)
    assert [one.name for one in checks if not any(rule.pattern.fullmatch(one.name) for rule in rules)] == []
    for name in ("alpha", "beta"):
        tokens, terms = (made[f"repository_{what}", name] for what in ("token_codes", "sparse_terms"))
        assert tokens["encoder_fingerprint"] == manifest.warp.encoder.fingerprint
        assert terms["encoder_fingerprint"] == manifest.splade.encoder.fingerprint
        assert terms["texts_encoded"] == next(one.chunks for one in manifest.sources if one.name == name)
    assert [check.name for check in checks if not check.passed] == []

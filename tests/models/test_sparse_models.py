"""A sparse encoder of splade-v3's architecture (BERT as a masked language model, SpladePooling), random weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sentence_transformers", reason="run `make test-models`")

from codequarry.pipelines.embed.export.sparse import DOCUMENTS, export_sparse
from codequarry.pipelines.embed.export.sparse_model import read_sparse_model
from codequarry.pipelines.run import index_repositories
from codequarry.schemas.settings.indexes import SpladeSettings
from codequarry.schemas.settings.load import (
    BundleSettings,
    PathsSettings,
    RepositorySettings,
    ServingSettings,
    Settings,
    SourcesSettings,
)
from codequarry.schemas.wire.search import SearchRequest
from codequarry.serving.encoders.sparse import SparseEncoder
from codequarry.serving.engine.engine import Engine
from tests.pipelines.corpus import write_shop
from tests.pipelines.embed.sparse_models import tokenizer, vocabulary

# Warnings of torch and transformers are theirs.
pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore")]

TEXTS = ["remove expired session", "def blend(red, green):\n    return red", "x", "open file " * 40]


@pytest.fixture(scope="module")
def tiny_splade(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A randomly initialized model, as sentence-transformers saves one."""
    import torch
    import transformers
    from sentence_transformers import SparseEncoder as Theirs

    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("models") / "tiny-splade"
    config = transformers.BertConfig(
        vocab_size=len(vocabulary()), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=64,
    )  # fmt: skip
    transformers.BertForMaskedLM(config).save_pretrained(folder / "mlm")
    marks = {f"{mark}_token": f"[{mark.upper()}]" for mark in ("unk", "pad", "cls", "sep", "mask")}
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer(), model_max_length=64, **marks)
    fast.save_pretrained(folder / "mlm")
    Theirs(str(folder / "mlm")).save_pretrained(str(folder / "encoder"))
    return folder / "encoder"


def test_it_weighs_as_it_does_in_its_own_library(tiny_splade: Path, tmp_path: Path) -> None:
    from sentence_transformers import SparseEncoder as Theirs

    theirs = Theirs(str(tiny_splade), device="cpu")
    export_sparse(read_sparse_model(tiny_splade), tmp_path / "made", max_tokens=256)
    encoder = SparseEncoder.open(tmp_path / "made" / DOCUMENTS)
    assert encoder.spec.max_tokens == 64
    for text in TEXTS:
        reference = theirs.encode_document([text]).to_dense().numpy()[0]
        assert reference.max() > 0
        np.testing.assert_allclose(encoder.weights(text), reference, atol=1e-5)


def test_from_a_folder_to_the_answer(tiny_splade: Path, tmp_path: Path) -> None:
    settings = Settings(
        paths=PathsSettings(store=tmp_path / "store", work=tmp_path / "work"),
        sources=SourcesSettings(repositories=(RepositorySettings(path=write_shop(tmp_path)),)),
        splade=SpladeSettings(enabled=True, model=str(tiny_splade)),
        bundle=BundleSettings(root=tmp_path / "bundles"),
    )
    report = index_repositories(settings)
    assert report.manifest.splade is not None
    engine = Engine.open(settings.bundle.root, ServingSettings())
    answer = engine.search(SearchRequest(query="sum of all prices", channel="splade"))
    engine.close()
    assert answer.limits == []
    assert answer.results[0].source == "splade_model"

"""The bi-encoder's training, end to end on a tiny package: in torch, then as the exported encoder."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="run `make test-models`")

import torch
from tokenizers import Tokenizer

from codequarry.pipelines.embed.export.minilm import SHIPPED_WEIGHTS, shipped_model
from codequarry.serving.encoders.spec import TOKENIZER_FILE, open_encoder
from tests.tools.train_encoder.packages import wheel
from tools.train_bi_encoder.batches import TokenLists
from tools.train_bi_encoder.bi_encoder_recipe import BiEncoderRecipe
from tools.train_bi_encoder.program import train
from tools.train_bi_encoder.training import CODE_TOKENS, encode
from tools.train_bi_encoder.trunk import load_parameters

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore")]
TEXTS = ["open the store and check every entry of it", "def close(self):\n    self.file.close()\n", "x"]
RECIPE = BiEncoderRecipe(pairs=90, batch=8, rate=1e-4)


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A list of a package to train on and a held-out one, whose archives are there already."""

    def module(topic: str) -> bytes:
        return "\n\n".join(
            f'def {verb}_{topic}_{n}(value):\n    """{verb.title()} the {topic} number {n} of the caller."""\n'
            f"    result_{n} = {topic}_{n}.{verb}(value)\n    return check(result_{n}, {topic}_{n}, {n})\n"
            for n in range(30)
            for verb in ("open", "close", "parse")
        ).encode()

    lines = ["never = []", "npm = []", "debian = []", "pypi = ["]
    for name, role in (("store", []), ("window", ["python"])):
        archive = wheel(tmp_path / "archives" / "pypi" / f"{name}.whl", {f"{name}/{name}.py": module(name)})
        sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
        lines.append(f"  {json.dumps([name, '1', 'MIT', archive.name, sha256, *role])},")
    (tmp_path / "sources.toml").write_text("\n".join([*lines, "]"]))
    return tmp_path / "sources.toml"


def vectors(parameters: dict[str, torch.Tensor], texts: list[str]) -> np.ndarray:
    tokenizer = Tokenizer.from_file(str(shipped_model() / TOKENIZER_FILE))
    return encode(parameters, TokenLists.of(tokenizer, texts, CODE_TOKENS))


def margin(parameters: dict[str, torch.Tensor]) -> float:
    """How much nearer texts are to their own code than to that of others."""
    texts = [f"{verb} the store number {n} of the caller" for verb in ("Open", "Close") for n in (3, 4, 5)]
    codes = [f"result_{n} = store_{n}.{verb}(value)" for verb in ("open", "close") for n in (3, 4, 5)]
    similar = vectors(parameters, texts) @ vectors(parameters, codes).T
    return float(np.diag(similar).mean() - similar.mean())


def test_the_trunk_is_minilm() -> None:
    from sentence_transformers import SentenceTransformer

    expected = SentenceTransformer(str(shipped_model()), device="cpu").encode(TEXTS, normalize_embeddings=True)
    found = vectors(load_parameters(shipped_model() / SHIPPED_WEIGHTS), TEXTS)
    assert np.abs(found - expected).max() < 1e-5


def test_what_was_trained_is_what_is_exported(sources: Path, tmp_path: Path) -> None:
    spec, packages = train(tmp_path / "out", tmp_path, sources, RECIPE, lambda *_: None)
    assert [package.name for package in packages] == ["pypi/window"]
    (checkpoint,) = tmp_path.glob("bi-encoder-*.pt")
    state = torch.load(checkpoint, weights_only=True)
    trained = {name: values.float() for name, values in state["parameters"].items()}
    encoder = open_encoder(tmp_path / "out")
    assert encoder.spec == spec
    assert spec.agreement is not None and spec.agreement.mean > 0.98
    own = vectors(trained, TEXTS)
    assert (encoder.encode_documents(TEXTS) * own).sum(axis=1).min() > 0.98
    before = vectors(load_parameters(shipped_model() / SHIPPED_WEIGHTS), TEXTS)
    assert (own * before).sum(axis=1).max() < 0.999
    shipped = load_parameters(shipped_model() / SHIPPED_WEIGHTS)
    assert margin(trained) > margin(shipped)


def test_a_training_that_was_ended_goes_on(sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.train_bi_encoder.training._SAVE_EVERY", 2)
    train(tmp_path / "whole", tmp_path, sources, RECIPE, lambda *_: None)
    next(tmp_path.glob("bi-encoder-*.pt")).unlink()

    def end(what: str, done: int, of: int) -> None:
        if what == "training" and done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "parts", tmp_path, sources, RECIPE, end)
    steps: list[int] = []
    train(
        tmp_path / "parts", tmp_path, sources, RECIPE,
        lambda what, done, of: steps.append(done) if what == "training" else None,
    )  # fmt: skip
    assert steps[0] == 5  # the fourth was the last that was kept
    whole, parts = (open_encoder(tmp_path / name).encode_documents(TEXTS) for name in ("whole", "parts"))
    assert np.abs(whole - parts).max() < 1e-5


def test_the_command_says_what_is_missing(sources: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.train_bi_encoder", "--out", tmp_path / "out", "--folder", tmp_path,
         "--sources", sources, "--batch", "500"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "no language has 500 pairs" in done.stderr

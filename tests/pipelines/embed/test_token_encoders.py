"""A model for late interaction by `[warp] model`: from the settings to the answer of the channel, without torch."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from codequarry.pipelines.cli import root as cli
from codequarry.pipelines.embed.token_encoders import token_encoder_directory, token_encoder_folder
from codequarry.pipelines.evaluation.models import model_states
from codequarry.pipelines.run import IndexReport, index_repositories
from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.errors import (
    InvalidArgumentError,
    MissingExtraError,
    PublishError,
    SettingsError,
    UnavailableError,
)
from codequarry.schemas.settings.load import (
    BundleSettings,
    PathsSettings,
    RepositorySettings,
    ServingSettings,
    Settings,
    SourcesSettings,
    WarpSettings,
    load_settings,
)
from codequarry.schemas.wire.search import SearchRequest
from codequarry.serving.encoders.spec import EncoderSpec, QueryShape
from codequarry.serving.engine.engine import Engine
from codequarry.serving.version.file_checks import check_version
from tests.pipelines.embed import late_models

FILES = {
    "sessions.py": "def remove_expired(self):\n    session = self.store\n    return session\n",
    "colors.py": "def blend(red, green, blue):\n    return red\n",
    "files.py": "def read_rows(path):\n    return open(path)\n",
}
QUERY = "remove expired session"


def warp_settings(home: Path, **changes: object) -> Settings:
    return Settings(
        paths=PathsSettings(store=home / "store", work=home / "work"),
        sources=SourcesSettings(repositories=(RepositorySettings(path=home / "app", name="app"),)),
        warp=WarpSettings.model_validate({"enabled": True, "model": str(home / "colbert"), **changes}),
        bundle=BundleSettings(root=home / "bundles"),
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("colbert")
    (folder / "app").mkdir()
    for name, text in FILES.items():
        (folder / "app" / name).write_text(text, encoding="utf-8")
    late_models.write_colbert(folder / "colbert")
    return folder


@pytest.fixture(scope="module")
def report(home: Path) -> IndexReport:
    return index_repositories(warp_settings(home))


def test_the_version_describes_the_model_and_passes_its_checks(home: Path, report: IndexReport) -> None:
    entry = report.manifest.warp
    assert entry is not None
    assert (entry.encoder.name, entry.encoder.dim) == ("colbert", late_models.DIM)
    spec = EncoderSpec.load(BundlePaths(report.path).warp / "encoder")
    assert spec.query_shape == QueryShape(length=12, mask=late_models.vocabulary()["[MASK]"])
    assert [check for check in check_version(BundlePaths(report.path), report.manifest) if not check.passed] == []
    (state,) = [state for state in model_states(warp_settings(home), home) if state.use == "warp"]
    assert (state.name, state.kind, state.served, state.license) == ("colbert", "tokens", "yes", "mit")


def test_the_channel_answers_with_pairs_of_words_and_without_marks(home: Path, report: IndexReport) -> None:
    engine = Engine.open(home / "bundles", ServingSettings())
    answer = engine.search(SearchRequest(query=QUERY, channel="warp", top_k=3, explain=True))
    hybrid = engine.search(SearchRequest(query=QUERY, explain=True))
    engine.close()
    assert answer.limits == hybrid.limits == []
    assert answer.results[0].metadata.uri == "app/sessions.py"
    assert len(answer.results) == 3
    scores = [result.metadata.explain.channels["warp"].score for result in answer.results]
    assert 12 >= scores[0] > scores[1] >= scores[2] > 0  # at most 1 for each of 12 tokens
    pairs = answer.results[0].metadata.explain.tokens
    assert {pair.query_token for pair in pairs} <= set(QUERY.split())
    assert "session" in {pair.token for pair in pairs}


def test_the_score_is_that_of_a_plain_forward_pass(home: Path, report: IndexReport) -> None:
    engine = Engine.open(home / "bundles", ServingSettings())
    (first,) = engine.search(SearchRequest(query=QUERY, channel="warp", top_k=1, explain=True)).results
    engine.close()
    ids, tokenizer = late_models.vocabulary(), late_models.tokenizer()

    def marked(text: str, mark: str) -> list[int]:
        begun = tokenizer.encode(text).ids
        return [begun[0], ids[mark], *begun[1:]]

    asked = marked(QUERY, "[unused0]")
    query = late_models.token_vectors(asked + [ids["[MASK]"]] * (12 - len(asked)), len(asked))
    words = {number for word, number in ids.items() if any(map(str.isalnum, word))}
    document = marked(f"sessions.py remove_expired\n{FILES['sessions.py']}", "[unused1]")
    vectors = late_models.token_vectors(document)[[number in words for number in document]]
    expected = (query @ vectors.T).max(axis=1).sum()
    assert first.metadata.explain.channels["warp"].score == pytest.approx(expected, rel=0.02)  # int8


def test_the_command_line_answers_without_torch(
    home: Path, report: IndexReport, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("torch", "transformers", "sentence_transformers", "onnx", "safetensors"):
        monkeypatch.setitem(sys.modules, name, None)
    root = str(home / "bundles")
    monkeypatch.setattr(sys, "argv", ["codequarry", "search", QUERY, "--channel", "warp", "--json", "--root", root])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert not left.value.code
    answer = json.loads(capsys.readouterr().out)
    assert answer["limits"] == []
    assert answer["results"][0]["metadata"]["uri"] == "app/sessions.py"


def test_the_same_model_is_taken_over_and_another_makes_the_index_anew(home: Path, report: IndexReport) -> None:
    copied = home.with_name("colbert-again")
    shutil.copytree(home, copied, symlinks=True)
    moved = index_repositories(warp_settings(copied))
    assert index_repositories(warp_settings(copied)).unchanged
    other = warp_settings(copied, model=str(late_models.write_pylate(copied / "pylate")))
    assert token_encoder_folder(other) != token_encoder_folder(warp_settings(copied))
    changed = index_repositories(other)
    assert changed.manifest.warp is not None and moved.manifest.warp is not None and report.manifest.warp is not None
    assert moved.manifest.warp.encoder == report.manifest.warp.encoder
    assert changed.manifest.warp.encoder.name == "pylate"
    # Other weights under the same path are found, and need a reason.
    late_models.write_dense(copied / "pylate" / "1_Dense", seed=5)
    with pytest.raises(PublishError, match="encoders that changed: 1"):
        index_repositories(other)
    assert index_repositories(other, accept="other weights").manifest.warp != changed.manifest.warp


def test_a_name_needs_a_commit_and_a_hub(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = warp_settings(home, model="org/colbert")
    with pytest.raises(InvalidArgumentError, match=r"\[warp\] model: org/colbert is no folder, and has no revision"):
        token_encoder_directory(named)
    hub = pytest.importorskip("huggingface_hub")
    asked: list[tuple[str, str]] = []

    def refuse(name: str, *, revision: str, ignore_patterns: list[str]) -> str:
        asked.append((name, revision))
        raise ConnectionError

    monkeypatch.setattr(hub, "snapshot_download", refuse)
    named = warp_settings(home, model="org/colbert", revision="a" * 40)
    with pytest.raises(UnavailableError, match="org/colbert at aaaaaaaaaaaa cannot be fetched") as caught:
        token_encoder_directory(named)
    assert "give [warp] model a folder" in caught.value.suggestion
    monkeypatch.setattr(hub, "snapshot_download", lambda *_, **__: str(home / "colbert"))
    assert EncoderSpec.load(token_encoder_directory(named)).name == "org/colbert"
    assert asked == [("org/colbert", "a" * 40)]
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match="a model from a hub"):
        token_encoder_directory(warp_settings(home, model="org/colbert", revision="b" * 40))


def test_paths_of_the_settings_are_resolved_and_names_stay(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('[warp]\nenabled = true\nmodel = "models/one"\n')
    assert load_settings(file).warp.model == str(tmp_path / "models" / "one")
    file.write_text(f'[warp]\nmodel = "org/one"\nrevision = "{"a" * 40}"\n')
    assert load_settings(file).warp.model == "org/one"
    file.write_text('[warp]\nmodel = "org/one"\nrevision = "main"\n')
    with pytest.raises(SettingsError, match="revision"):
        load_settings(file)


def test_a_model_is_part_of_what_a_version_is_made_of(home: Path) -> None:
    plain = warp_settings(home, model="")
    assert plain.index_hash() != warp_settings(home).index_hash()
    moved = warp_settings(home, model="elsewhere/colbert")
    assert moved.index_hash() == warp_settings(home).index_hash()


def test_a_dimension_of_scales_fits_the_index(home: Path, report: IndexReport) -> None:
    folder = BundlePaths(report.path).warp
    assert np.load(folder / "centroids.npy").shape[1] == late_models.DIM
    assert np.load(folder / "encoder" / "scales.npy").shape == (late_models.DIM,)

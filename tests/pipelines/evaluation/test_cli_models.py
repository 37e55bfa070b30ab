"""``codequarry models`` as a person runs it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from codequarry.pipelines.evaluation import models as registry
from codequarry.pipelines.evaluation.models import fetch_model, model_states
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.errors import MissingExtraError
from codequarry.schemas.prefixes import CODE_QUERY
from codequarry.schemas.settings.load import ServingSettings, Settings, load_settings
from codequarry.serving.files.integrity import current_manifest
from tests.endpoint_server import endpoint_server
from tests.pipelines.conftest import Run


def test_configured_present_served_and_measured(library: Path, run: Run, tmp_path: Path) -> None:
    before = run("models", "--json")
    assert before.returncode == 0, before.stderr
    (static,) = json.loads(before.stdout)
    assert (static["use"], static["kind"], static["state"], static["served"]) == ("faiss", "static", "here", "no")
    assert run("index", library).returncode == 0
    report = tmp_path / "report"
    report.mkdir()
    figures = {"figures": {"all": {"ndcg_10": {"mean": 0.625}}}, "latency_ms": {"p50": 3.5}}
    (report / "summary.json").write_text(json.dumps({"runs": {"faiss": figures}}))
    (static,) = json.loads(run("models", "--json", "--evaluation", report).stdout)
    assert (static["served"], static["ndcg_10"], static["p50_ms"]) == ("yes", 0.625, 3.5)
    assert static["bytes"] > 4_000_000
    shown = run("models", "--evaluation", report).stdout
    assert "codequarry-static-code" in shown
    assert "0.625" in shown
    assert "not measured yet" in run("models").stdout


def test_a_model_behind_a_server_is_set_up_by_the_index_and_its_row_says_all(
    library: Path, run: Run, tmp_path: Path
) -> None:
    settings = tmp_path / "settings.toml"
    at = ("--settings", settings, "--root", tmp_path / "bundles")
    with endpoint_server() as server:
        settings.write_text(
            f'[embedding]\nendpoint = "{server.url}"\nmodel = "nomic-ai/CodeRankEmbed"\nrevision = "2"\n'
            f'[serving]\nreranker_endpoint = "{server.url}"\nreranker_model = "nomic-ai/CodeRankLLM"\n'
        )
        first, reranker = json.loads(run("models", "--json", *at).stdout)
        assert first["state"] == "set up by the next codequarry index, which asks its server"
        assert (reranker["use"], reranker["kind"], reranker["state"]) == ("rerank", "endpoint", "asked when needed")
        assert server.requests == []
        done = run("index", library, *at)
        assert done.returncode == 0, done.stderr
        asked = len(server.requests)
        first, _ = json.loads(run("models", "--json", *at).stdout)
        assert len(server.requests) == asked
    assert (first["kind"], first["dim"], first["served"], first["query_prefix"]) == ("endpoint", 16, "yes", CODE_QUERY)
    manifest = current_manifest(BundleRoot(tmp_path / "bundles"))
    assert manifest is not None
    model = manifest.encoder.model
    assert model is not None
    assert (model.kind, model.model, model.revision) == ("endpoint", "nomic-ai/CodeRankEmbed", "2")
    assert (model.query_prefix, model.document_prefix, model.tokenizer_sha256) == (CODE_QUERY, "", "")


def test_another_model_of_the_settings_is_not_yet_served(library: Path, run: Run, tmp_path: Path) -> None:
    assert run("index", library).returncode == 0
    settings = tmp_path / "settings.toml"
    settings.write_text('[embedding]\nmodel = "some/model"\n')
    (row,) = json.loads(run("models", "--json", "--settings", settings, "--root", ".codequarry/bundles").stdout)
    assert row["served"] == "no: codequarry-static-code, until the next codequarry index"
    assert row["state"].startswith("exported by the next codequarry index; ")


def test_the_figure_of_a_reranker_is_what_it_adds(tmp_path: Path) -> None:
    runs = {
        name: {"figures": {"all": {"ndcg_10": {"mean": mean}}}, "latency_ms": {"p50": 9.0}}
        for name, mean in (("hybrid", 0.5), ("hybrid+rerank", 0.75))
    }
    (tmp_path / "summary.json").write_text(json.dumps({"runs": runs}))
    settings = Settings(serving=ServingSettings(reranker_endpoint="http://h/v1", reranker_model="m"))
    *_, reranker = model_states(settings, tmp_path)
    assert (reranker.ndcg_10, reranker.p50_ms) == (0.25, 9.0)
    (tmp_path / "summary.json").write_text("[torn")
    assert model_states(settings, tmp_path)[-1].ndcg_10 is None


def test_fetching_needs_a_name_and_the_extra(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    nameless = run("models", "fetch")
    assert nameless.returncode == 2
    assert "expected the id of a model on a hub" in nameless.stderr
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match="codequarry models fetch needs the extra 'transformers'"):
        fetch_model(load_settings(None, env={}), "some/model", "")
    monkeypatch.setattr(registry, "find_spec", lambda _: None)
    assert registry._here("some/model") == "needs the extra transformers"

"""Learned sparse retrieval through the doors: index, search, explain, doctor, and what a missing part does."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from codequarry.pipelines.bundle.gc import clean_store
from codequarry.pipelines.indexes.splade.build import build_splade
from codequarry.pipelines.run import IndexReport, index_repositories
from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.bundle.manifest import from_json, to_json
from codequarry.schemas.bundle.splade import SpladeSpec
from codequarry.schemas.errors import InvalidArgumentError, UnavailableError
from codequarry.schemas.settings.indexes import SpladeSettings
from codequarry.schemas.settings.load import (
    BundleSettings,
    PathsSettings,
    RepositorySettings,
    ServingSettings,
    Settings,
    SourcesSettings,
    load_settings,
)
from codequarry.schemas.wire.search import SearchFilters, SearchRequest, to_wire
from codequarry.serving.channels.splade import MAX_EXPLAINED, SpladeChannel
from codequarry.serving.encoders.sparse import SparseEncoder
from codequarry.serving.engine.engine import Engine
from codequarry.serving.server.mcp import build_server
from codequarry.serving.version.file_checks import check_version
from codequarry.serving.version.open import Bundle
from tests.pipelines.conftest import Run
from tests.pipelines.embed.sparse_models import write_model, write_router
from tests.pipelines.indexes.test_warp_bundle import FILES, QUERY
from tests.serving.bundles.sparse_corpus import impacts, naive, plan
from tests.serving.bundles.versions import followed
from tests.serving.scores import recomputed
from tests.serving.server.test_mcp import call


def sparse_settings(home: Path, model: str = "model", **changes: object) -> Settings:
    splade = {"enabled": True, "model": str(home / model), **changes}
    return Settings(
        paths=PathsSettings(store=home / "store", work=home / "work"),
        sources=SourcesSettings(repositories=(RepositorySettings(path=home / "app", name="app"),)),
        splade=SpladeSettings.model_validate(splade),
        bundle=BundleSettings(root=home / "bundles"),
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sparse")
    for name, text in FILES.items():
        (folder / "app" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "app" / name).write_text(text, encoding="utf-8")
    write_model(folder / "model")
    return folder


@pytest.fixture(scope="module")
def report(home: Path) -> IndexReport:
    return index_repositories(sparse_settings(home))


@pytest.fixture(scope="module")
def engine(home: Path, report: IndexReport):
    opened = Engine(Bundle.open_current(home / "bundles"), ServingSettings())
    yield opened
    opened.close()


@pytest.fixture
def copied(home: Path, report: IndexReport, tmp_path: Path) -> Path:
    """The same home, to be changed."""
    return Path(shutil.copytree(home, tmp_path / "home", symlinks=True))


def failed(paths: BundlePaths, report: IndexReport) -> list[str]:
    return [check.name for check in check_version(paths, report.manifest) if not check.passed]


def test_the_version_describes_its_index(report: IndexReport) -> None:
    entry = report.manifest.splade
    assert entry is not None
    assert (entry.documents, entry.queries, entry.encoder.name) == (report.manifest.counts.chunks, "model", "model")
    assert entry.postings > entry.documents
    assert entry.query_encoder == entry.encoder.fingerprint
    assert failed(BundlePaths(report.path), report) == []
    names = {check.name for check in check_version(BundlePaths(report.path), report.manifest)}
    assert {"ids of SPLADE that are not those of the chunks", "size of the learned sparse index"} <= names
    assert from_json(to_json(report.manifest)) == report.manifest


def test_a_search_finds_by_what_the_model_adds_and_says_so(engine: Engine) -> None:
    answer = engine.search(SearchRequest(query=QUERY, channel="splade", top_k=3, explain=True))
    first = answer.results[0]
    assert answer.limits == []
    assert (first.metadata.uri, first.source) == ("app/web/sessions.py", "splade_model")
    explain = first.metadata.explain
    assert "learned_sparse:impact" in explain.hit_reason
    assert 0 < len(explain.terms) <= MAX_EXPLAINED
    assert [term.score for term in explain.terms] == sorted((term.score for term in explain.terms), reverse=True)
    by_term = {term.term: term for term in explain.terms}
    assert {name: by_term[name].expansion for name in ("expired", "outdated", "delete")} == {
        "expired": "none", "outdated": "query", "delete": "both",
    }  # fmt: skip
    for term in explain.terms:
        assert term.score == pytest.approx(term.query_weight * term.impact, rel=1e-3)
    assert sum(term.score for term in explain.terms) == pytest.approx(explain.channels["splade"].score, rel=1e-3)
    # The word is in no file; that a model says it of one is why the file is found.
    (mixed,) = engine.search(SearchRequest(query="mix", channel="splade", explain=True)).results
    assert mixed.metadata.uri == "app/web/colors.py"
    assert {term.expansion for term in mixed.metadata.explain.terms} == {"query"}


def test_scores_are_those_of_the_definition(engine: Engine, home: Path) -> None:
    settings = sparse_settings(home)
    from codequarry.pipelines.embed.sparse_encoders import sparse_directories

    encoder = SparseEncoder.open(sparse_directories(settings).documents)
    rows = engine.bundle.catalog.rows(engine.bundle.directory.chunk_ids.tolist())
    texts = {row.chunk_id: f"{row.path} {row.qualified_name}".strip() + "\n" + row.text for row in rows.values()}
    documents = list(zip(sorted(texts), encoder.encode_documents([texts[one] for one in sorted(texts)]), strict=True))
    for text in (QUERY, "mix colors", "retry attempts", "read rows of a file"):
        asked = encoder.encode_query(text)
        found = engine.search(SearchRequest(query=text, channel="splade", explain=True)).results
        expected = naive(documents, asked, 12)
        assert [int(result.id) for result in found] == [chunk_id for chunk_id, _ in expected]
        scores = [result.metadata.explain.channels["splade"].score for result in found]
        assert scores == pytest.approx([score * asked.step * encoder.step for _, score in expected], rel=1e-6)


def test_filters_deadline_and_long_queries(engine: Engine) -> None:
    everything = engine.search(SearchRequest(query="return call session", channel="splade", top_k=50, explain=True))
    assert len(everything.results) > 2
    go = SearchRequest(query="return call session", channel="splade", filters=SearchFilters(lang=["go"]), explain=True)
    assert {result.metadata.uri for result in engine.search(go).results} == {"app/io/retry.go"}
    long = engine.search(SearchRequest(query="expired session " * 200, channel="splade", explain=True))
    assert long.limits == ["learned sparse search read only the beginning of the query"]
    assert long.results
    hurried = Engine(engine.bundle, ServingSettings(search_timeout_s=1e-9))
    from codequarry.schemas.errors import DeadlineError

    with pytest.raises(DeadlineError):
        hurried.search(SearchRequest(query=QUERY, channel="splade", explain=True))


def test_in_hybrid_it_counts_only_where_it_is_given_a_weight(engine: Engine) -> None:
    plain = engine.search(SearchRequest(query=QUERY, explain=True))
    assert all("splade" not in result.metadata.explain.channels for result in plain.results)
    weighed = Engine(engine.bundle, ServingSettings(weight_splade=1.0))
    answer = weighed.search(SearchRequest(query=QUERY, explain=True))
    assert answer.limits == []
    first = to_wire(answer)["results"][0]["metadata"]["explain"]
    assert first["channels"]["splade"]["weight"] == pytest.approx(0.9 * first["channels"]["faiss"]["weight"])
    for result in to_wire(answer)["results"]:
        explain = result["metadata"]["explain"]
        assert recomputed(explain) == pytest.approx(result["score"], rel=1e-9)
        assert len(json.dumps(explain, ensure_ascii=False).encode()) <= 2048
        assert ("splade" in explain["channels"]) == bool(explain.get("terms"))


def test_an_agent_asks_the_channel_and_weighs_the_stage(engine: Engine) -> None:
    server = build_server(engine, version="1.2.3")
    found = call(server, "2026-07-28", "search", {"query": QUERY, "channel": "splade", "explain": True})
    found = found.structured_content
    assert found["limits"] == []
    terms = found["results"][0]["metadata"]["explain"]["terms"]
    assert {"none", "query"} <= {term["expansion"] for term in terms}
    weighed = call(server, "2025-11-25", "semantic_search_pro", {"query": QUERY, "stage_weights": {"splade": 2}})
    envelope = weighed.structured_content
    assert "splade" in envelope["method"]["retrieval"]["channels"]
    assert not [limit for limit in envelope["limits"] if "splade" in limit]


def test_the_command_line_indexes_searches_and_explains(home: Path, tmp_path: Path, run: Run) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text('[splade]\nenabled = true\nmodel = "model"\n')
    write_router(tmp_path / "model", {"expired": 2.0, "session": 1.0})
    root = ("--root", tmp_path / "bundles")
    done = run("index", home / "app", "--settings", settings, *root)
    assert done.returncode == 0, done.stderr
    shown = run("search", QUERY, "--channel", "splade", "--explain", *root)
    assert shown.returncode == 0 and "app/web/sessions.py" in shown.stdout
    assert "splade: rank 1" in shown.stdout
    assert "expired  (2.000 x " in shown.stdout
    hidden = run("search", QUERY, "--channel", "splade", "--json", *root)
    assert json.loads(hidden.stdout)["results"][0]["source"] == "splade_weights"
    assert run("verify", "--deep", *root).returncode == 0
    doctor = run("doctor", "--all", *root)
    assert doctor.returncode == 0 and "learned sparse" in doctor.stdout
    version = Path(done.stdout.strip())
    assert not (version / "splade" / "encoder" / "model.onnx").exists()
    # Inference-free queries need neither ONNX Runtime nor a model.
    blind = "import sys; sys.modules['onnxruntime'] = None; from codequarry.pipelines.cli.root import main; main()"
    asked = run("search", QUERY, "--channel", "splade", "--json", *root, program=blind)
    assert json.loads(asked.stdout)["results"] == json.loads(hidden.stdout)["results"]
    archive = tmp_path / "moved.tar"
    assert run("export", archive, *root).returncode == 0
    assert run("import", archive, "--root", tmp_path / "elsewhere").returncode == 0
    moved = run("search", QUERY, "--channel", "splade", "--json", "--root", tmp_path / "elsewhere")
    assert json.loads(moved.stdout)["results"] == json.loads(hidden.stdout)["results"]


def test_a_model_of_a_hub_is_taken_by_its_commit(home: Path, tmp_path: Path, run: Run, monkeypatch) -> None:
    commit, cache = "0123456789" * 4, tmp_path / "hub"
    monkeypatch.setenv("HF_HUB_CACHE", str(cache))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    settings = tmp_path / "settings.toml"
    settings.write_text(f'[splade]\nenabled = true\nmodel = "org/one"\nrevision = "{commit}"\n')
    asked = ("index", home / "app", "--settings", settings, "--root", tmp_path / "bundles")
    refused = run(*asked, own_process=True)
    assert refused.returncode != 0
    assert "org/one at 012345678901 cannot be fetched from the hub" in " ".join(refused.stderr.split())
    write_model(cache / "models--org--one" / "snapshots" / commit)
    done = run(*asked, own_process=True)
    assert done.returncode == 0, done.stderr
    manifest = from_json((Path(done.stdout.strip()) / "manifest.json").read_bytes())
    assert manifest.splade is not None and manifest.splade.encoder.name == "org/one"


def test_nothing_is_encoded_twice(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = sparse_settings(copied)
    assert index_repositories(settings).unchanged
    read: list[str] = []
    encode = SparseEncoder.encode_documents
    monkeypatch.setattr(
        SparseEncoder,
        "encode_documents",
        lambda self, texts, progress=None: (read.extend(texts), encode(self, texts))[1],
    )
    again = index_repositories(settings, force=True)
    fewer = index_repositories(sparse_settings(copied, terms=8))
    assert not fewer.unchanged and read == []
    assert fewer.manifest.splade is not None and again.manifest.splade is not None
    assert fewer.manifest.splade.postings < again.manifest.splade.postings
    assert fewer.manifest.splade.encoder == again.manifest.splade.encoder
    (copied / "app" / "web" / "colors.py").write_text("def mix(red, green):\n    return red or green\n")
    changed = index_repositories(settings)
    assert len(read) == 1 and "def mix(red, green)" in read[0]
    paths = BundlePaths(changed.path)
    assert (paths.splade / "encoder" / "tokenizer.json").stat().st_nlink > 1
    without = index_repositories(settings.model_copy(update={"splade": SpladeSettings()}))
    assert without.manifest.splade is None and not BundlePaths(without.path).splade.exists()


def test_the_same_sources_make_the_same_index_from_nothing(copied: Path, report: IndexReport) -> None:
    shutil.rmtree(copied / "store")
    shutil.rmtree(copied / "work")
    shutil.rmtree(copied / "bundles")
    fresh = index_repositories(sparse_settings(copied))
    assert fresh.manifest.digest == report.manifest.digest
    assert fresh.manifest.splade == report.manifest.splade
    before, after = BundlePaths(report.path).splade, BundlePaths(fresh.path).splade
    for file in before.rglob("*.*"):
        assert file.read_bytes() == (after / file.relative_to(before)).read_bytes()


def test_another_model_makes_another_index_and_a_missing_one_is_named(copied: Path, report: IndexReport) -> None:
    shutil.rmtree(copied / "model")
    write_model(copied / "model", inputs=1)
    other = index_repositories(sparse_settings(copied))
    assert not other.unchanged
    assert other.manifest.splade is not None and report.manifest.splade is not None
    assert other.manifest.splade.encoder.fingerprint != report.manifest.splade.encoder.fingerprint
    shutil.rmtree(copied / "model")
    with pytest.raises(InvalidArgumentError, match="is no folder, and has no revision") as caught:
        index_repositories(sparse_settings(copied))
    assert "[splade] revision" in caught.value.suggestion


def test_a_killed_export_is_made_again(copied: Path) -> None:
    (described,) = (copied / "store" / "encoders").glob("splade-*/documents/encoder.json")
    described.unlink()
    report = index_repositories(sparse_settings(copied), force=True)
    assert described.is_file() and failed(BundlePaths(report.path), report) == []


def test_the_store_keeps_what_is_used_and_drops_what_is_damaged(copied: Path) -> None:
    settings = sparse_settings(copied)
    cleaned = {each.what: each for each in clean_store(settings, unused_days=0)}
    assert (cleaned["sparse terms"].kept, cleaned["sparse terms"].unused) == (4, 0)
    assert list((copied / "store" / "encoders").glob("splade-*"))
    without = settings.model_copy(update={"splade": SpladeSettings()})
    assert {each.what: each.unused for each in clean_store(without, unused_days=0)}["sparse terms"] == 4
    assert not list((copied / "store" / "encoders").glob("splade-*"))


def rewritten(paths: BundlePaths, **changes: object) -> None:
    spec = SpladeSpec.load(paths.splade).model_copy(update=changes)
    spec.save(paths.splade)


def test_a_damaged_index_is_not_fit_to_publish(copied: Path, report: IndexReport) -> None:
    paths = BundlePaths(copied / report.path.relative_to(report.path.parents[2]))
    documents = np.load(paths.splade / "documents.npy")
    documents[0] = 1 << 20
    np.save(paths.splade / "documents.npy", documents)
    assert failed(paths, report) == ["postings of learned sparse terms that lead nowhere"]
    rewritten(paths, query_encoder="0" * 64)
    assert "fingerprint of the sparse encoder of queries" in failed(paths, report)
    entry = report.manifest.splade
    assert entry is not None
    with pytest.raises(UnavailableError, match="the index holds 4 chunks by encoder"):
        SpladeChannel.open(paths.splade, entry, 4)
    (paths.splade / "offsets.npy").unlink()
    assert failed(paths, report) == ["learned sparse index"]
    nothing = report.manifest.model_copy(update={"splade": None})
    names = [check.name for check in check_version(paths, nothing) if not check.passed]
    assert names == ["files of learned sparse terms without an entry in the manifest"]


def test_damage_found_after_the_start_shuts_the_channel(copied: Path) -> None:
    engine, follower = followed(copied / "bundles", weight_splade=1.0)
    assert engine.search(SearchRequest(query=QUERY, explain=True)).limits == []
    impacts_file = engine.bundle.paths.splade / "impacts.npy"
    data = bytearray(impacts_file.read_bytes())
    data[-1] ^= 1
    impacts_file.write_bytes(data)
    follower.check()
    answer = engine.search(SearchRequest(query=QUERY, explain=True))
    assert answer.results and answer.limits == ["channel splade is off: damaged: splade/impacts.npy"]
    assert "splade" not in answer.results[0].metadata.explain.channels
    engine.served.close()


def test_an_index_of_other_documents_is_found_out(copied: Path, report: IndexReport) -> None:
    paths = BundlePaths(copied / report.path.relative_to(report.path.parents[2]))
    encoder = shutil.move(paths.splade / "encoder", copied / "kept")
    shutil.rmtree(paths.splade)
    paths.splade.mkdir()
    build_splade(paths.splade, [(5, impacts({1: 1}))], plan(9))
    shutil.move(encoder, paths.splade / "encoder")
    assert len(failed(paths, report)) == 5


def test_without_onnx_runtime_the_channel_is_off_and_named(
    home: Path, report: IndexReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    plain = Engine(Bundle.open_current(home / "bundles"), ServingSettings(weight_splade=1.0))
    answer = plain.search(SearchRequest(query=QUERY, channel="splade", explain=True))
    assert answer.results == []
    assert answer.limits[0].startswith("channel splade is off: ") and "codequarry[models]" in answer.limits[0]
    hybrid = plain.search(SearchRequest(query=QUERY, explain=True))
    assert hybrid.results and any(limit.startswith("channel splade is off") for limit in hybrid.limits)
    plain.close()


def test_settings_that_name_no_model_are_refused(tmp_path: Path) -> None:
    from codequarry.schemas.errors import SettingsError

    file = tmp_path / "settings.toml"
    for text, said in (
        ("enabled = true", "enabled needs model"),
        ('enabled = true\nmodel = "a/b"\nrevision = "main"', "revision"),
        ("terms = 1000", "terms"),
    ):
        file.write_text(f"[splade]\n{text}\n")
        with pytest.raises(SettingsError, match=said):
            load_settings(file)
    file.write_text('[splade]\nenabled = true\nmodel = "models/one"\n')
    assert load_settings(file).splade.model == str(tmp_path / "models" / "one")
    file.write_text(f'[splade]\nmodel = "org/one"\nrevision = "{"a" * 40}"\n')
    assert load_settings(file).splade.model == "org/one"

"""Tier standard: a second dense leg, built, checked, shared and served as the first one is."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from codequarry.pipelines.embed.encoders import SHIPPED, encoder_folders
from codequarry.pipelines.run import IndexReport, index_repositories
from codequarry.pipelines.store.row_groups import arrays
from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.bundle.manifest import Manifest, from_json
from codequarry.schemas.bundle.tables import read_table, write_vectors
from codequarry.schemas.errors import IntegrityError, InvalidArgumentError, SettingsError
from codequarry.schemas.settings.load import Settings, load_settings
from codequarry.schemas.wire.search import SearchRequest
from codequarry.serving.channels.vector_table import VectorTable
from codequarry.serving.encoders.spec import open_encoder
from codequarry.serving.engine.doctor import examine
from codequarry.serving.version.file_checks import check_version
from codequarry.serving.version.open import Bundle
from tests.pipelines.conftest import MAIN, MakeSettings, Run
from tests.pipelines.corpus import write_shop, write_tools
from tests.pipelines.embed.encoders import DIM, small_encoder
from tests.pipelines.embed.sparse_models import write_model
from tests.pipelines.repositories import commit
from tests.pipelines.test_incremental import contents, corpus, from_nothing, module, small_shards
from tests.serving.bundles.versions import followed
from tests.serving.channels.ask_channel import ask_channel

__all__ = ["small_shards"]  # a fixture
WITHOUT_ONNX = "import sys; sys.modules['onnxruntime'] = None; " + MAIN


@pytest.fixture
def standard(tmp_path: Path, make_settings: MakeSettings):
    """``standard(repository, …)``: settings of tier standard with a small second encoder."""
    second = small_encoder(tmp_path / "second")

    def make(*repositories: Path, factory: str = "Flat") -> Settings:
        indexes = {"tier": "standard", "faiss_factory": factory}
        return own_store(
            make_settings(*repositories, embedding={"second": {"folder": second}}, indexes=indexes), tmp_path
        )

    return make


def own_store(made: Settings, folder: Path) -> Settings:
    """With a store in which nothing is yet, and the work folder that was made for it."""
    return made.model_copy(update={"paths": made.paths.model_copy(update={"store": folder / "store"})})


def manifest_of(version: Path) -> Manifest:
    return from_json((version / "manifest.json").read_bytes())


def failed(report: IndexReport) -> list[str]:
    return [check.name for check in check_version(BundlePaths(report.path), report.manifest) if not check.passed]


def test_the_command_line_builds_serves_and_moves_both_legs(tmp_path: Path, run: Run) -> None:
    shop = write_shop(tmp_path)
    small_encoder(tmp_path / "second")
    settings = tmp_path / "settings.toml"
    settings.write_text('[indexes]\ntier = "standard"\n[embedding.second]\nfolder = "second"\n')
    done = run("index", shop, "-v", "--settings", settings, "--root", tmp_path / "bundles")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stderr.split())
    assert re.search(r"tier standard: words, .* vectors by codequarry-static-code and small \([\d.]+ MB\)", said)
    version = Path(done.stdout.strip())
    manifest = manifest_of(version)
    assert [(leg.channel, leg.encoder.name, leg.encoder.dim) for leg in manifest.legs] == [
        ("faiss", "codequarry-static-code", 256),
        ("faiss2", "small", DIM),
    ]
    assert {"faiss2.tuning.json", "tables/embeddings2.parquet", "encoder2/encoder.json"} <= {
        entry.path for entry in manifest.files
    }
    root = ("--root", tmp_path / "bundles")
    (row,) = json.loads(run("versions", "--json", *root).stdout)
    assert (row["tier"], row["encoders"]) == ("standard", {"faiss": "codequarry-static-code", "faiss2": "small"})
    assert "tier standard: codequarry-static-code and small" in run("versions", *root).stdout
    assert run("verify", "--deep", *root).returncode == 0
    assert run("doctor", *root).returncode == 0

    def found(channel: str, *where: str | Path) -> dict[str, object]:
        answer = json.loads(run("search", "price with tax", "--channel", channel, "--explain", "--json", *where).stdout)
        assert answer["limits"] == []
        return answer["results"][0]["metadata"]["explain"]["channels"]

    assert found("faiss2", *root).keys() == {"faiss2"}
    assert found("faiss", *root).keys() == {"faiss"}
    assert {"faiss", "faiss2"} <= found("hybrid", *root).keys()

    archive = tmp_path / "shop.tar"
    assert run("export", archive, *root).returncode == 0
    moved = run("import", archive, "--root", tmp_path / "elsewhere")
    assert moved.returncode == 0, moved.stderr
    assert found("faiss2", "--root", tmp_path / "elsewhere").keys() == {"faiss2"}


def test_the_fast_tier_says_what_it_is_made_of(tmp_path: Path, run: Run) -> None:
    done = run("index", write_shop(tmp_path), "-v", "--root", tmp_path / "bundles")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stderr.split())
    manifest = manifest_of(Path(done.stdout.strip()))
    assert "tier fast: words, names of definitions, and vectors by codequarry-static-code" in said
    assert re.search(r"CPU seconds census [\d.]+ embed [\d.]+ chunk .* publish [\d.]+ in all [\d.]+", said)
    assert (manifest.tier, manifest.more_legs) == ("fast", ())
    asked = run("search", "price", "--channel", "faiss2", "--root", tmp_path / "bundles", "--json")
    assert (asked.returncode, asked.stdout) == (2, "")
    assert '[indexes] tier = "standard"' in " ".join(asked.stderr.split())


@pytest.mark.slow
def test_tier_full_is_standard_with_late_interaction_and_a_sparse_model(tmp_path: Path, run: Run) -> None:
    shop = write_shop(tmp_path)
    small_encoder(tmp_path / "second")
    write_model(tmp_path / "model")
    settings = tmp_path / "settings.toml"
    root = ("--root", tmp_path / "bundles")

    def indexed(tier: str, splade: str = "") -> tuple[Path, str]:
        settings.write_text(f'[indexes]\ntier = "{tier}"\n[embedding.second]\nfolder = "second"\n{splade}')
        done = run("index", shop, "-v", "--settings", settings, *root)
        assert done.returncode == 0, done.stderr
        return Path(done.stdout.strip()), " ".join(done.stderr.split())

    before = manifest_of(indexed("standard")[0]).digest
    plain, said = indexed("full")
    assert re.search(r"tier full: words, .* and small .*; late interaction by \S+ \([\d.]+ MB\)", said)
    assert "learned sparse" not in said and "would add" not in said
    manifest = manifest_of(plain)
    assert (manifest.tier, manifest.splade) == ("full", None)
    assert manifest.warp is not None and manifest.warp.documents == manifest.counts.chunks
    version, said = indexed("full", '[splade]\nmodel = "model"\n')
    assert re.search(r"; learned sparse terms by model \([\d.]+ MB\)", said)
    assert manifest_of(version).splade is not None
    (_, _, row) = json.loads(run("versions", "--json", *root).stdout)
    assert row["tier"] == "full"
    for channel in ("faiss2", "warp", "splade"):
        answer = json.loads(run("search", "price with tax", "--channel", channel, "--json", *root).stdout)
        assert answer["limits"] == [] and answer["results"], channel
    assert run("doctor", *root).returncode == 0
    back, _ = indexed("standard", '[splade]\nmodel = "model"\n')
    assert (manifest_of(back).tier, manifest_of(back).digest) == ("standard", before)
    assert not [entry.path for entry in manifest_of(back).files if entry.path.startswith(("warp/", "splade/"))]


def test_a_commit_redoes_its_shard_of_both_legs(
    tmp_path: Path, standard, small_shards: None, kept_vectors: None
) -> None:
    repo = tmp_path / "app"
    commit(repo, corpus())
    made = standard(repo)
    first = index_repositories(made)
    count = len(first.manifest.shards)
    assert count > 4
    assert first.embeddings[0].legs[0].embedded == first.embeddings[0].legs[1].embedded > 10
    commit(repo, {"pkg0/mod0.py": module(0, "def brand_new():\n    return 'nobody wrote this before'\n")})
    second = index_repositories(made)
    assert second.reused_shards == count - 1
    assert [leg.embedded for leg in second.embeddings[0].legs] == [1, 1]
    linked = {entry.path for entry in second.manifest.files if (second.path / entry.path).stat().st_nlink > 1}
    of_second = [
        entry.path for entry in second.manifest.files if re.match(r"faiss2[.]\d|tables/embeddings2", entry.path)
    ]
    assert len(of_second) == count
    assert sum(path not in linked for path in of_second) == 1
    assert "encoder2/rows.npy" in linked
    assert contents(second) == contents(fresh := from_nothing(made, tmp_path))
    assert second.manifest.digest == fresh.manifest.digest


def test_another_tier_makes_what_it_adds_and_nothing_else(
    tmp_path: Path, standard, make_settings: MakeSettings
) -> None:
    shop, tools = write_shop(tmp_path), write_tools(tmp_path)
    fast, full = own_store(make_settings(shop, tools), tmp_path), standard(shop, tools)
    index_repositories(fast)
    added = index_repositories(full)
    assert not added.unchanged
    assert [report.legs[0].embedded for report in added.embeddings] == [0, 0]
    assert all(report.legs[1].embedded for report in added.embeddings)
    assert index_repositories(full).unchanged
    back = index_repositories(fast)
    assert (back.manifest.tier, sum(report.embedded for report in back.embeddings)) == ("fast", 0)
    assert not [entry.path for entry in back.manifest.files if re.match(r"faiss2|encoder2|.*embeddings2", entry.path)]


def test_another_second_encoder_makes_another_version(tmp_path: Path, standard) -> None:
    made = standard(write_shop(tmp_path))
    first = index_repositories(made)
    rows = np.load(tmp_path / "second" / "rows.npy")
    shutil.rmtree(tmp_path / "second")
    small_encoder(tmp_path / "second")
    assert index_repositories(made).unchanged
    shutil.rmtree(tmp_path / "second")
    other = small_encoder(tmp_path / "second")
    np.save(other / "rows.npy", rows[::-1].copy())
    with pytest.raises(IntegrityError, match=r"rows\.npy: sha256") as caught:
        index_repositories(made, force=True)
    assert "[embedding.second] " in caught.value.suggestion
    (other / "encoder.json").unlink()
    with pytest.raises(IntegrityError, match=r"encoder\.json"):
        index_repositories(made)
    assert Bundle.open_current(made.bundle.root, channels=()).manifest == first.manifest


def test_the_second_encoder_takes_what_the_first_takes(tmp_path: Path) -> None:
    """A model by its path, from the settings file; both encoders of their own kind, or refused in one sentence."""
    (tmp_path / "models" / "mine").mkdir(parents=True)
    file = tmp_path / "dagster_project.toml"
    table = '[indexes]\ntier = "standard"\n[embedding.second]\nmodel = "./models/mine"\nmax_tokens = 256\n'
    file.write_text(table)
    made = load_settings(file, env={})
    assert made.second_encoder is not None and made.second_encoder.model == str(tmp_path / "models" / "mine")
    (first, second) = encoder_folders(made).values()
    assert (first, second.name.partition("-")[0]) == (SHIPPED, "model")
    assert made.index_hash() != load_settings(file, env={"CODEQUARRY__EMBEDDING__SECOND": "{}"}).index_hash()
    own, other = (f'model = "m"\nendpoint = "http://127.0.0.1:{port}"\n' for port in (1, 2))
    for wrong, told in {
        '[embedding.second]\nmodel = "nobodys"': "expected static or minilm",
        '[embedding.second]\nmodell = "minilm"': "did you mean 'model'",
        f"[embedding]\n{own}[embedding.second]\n{other}": "at one endpoint",
    }.items():
        file.write_text(wrong)
        with pytest.raises(SettingsError, match=told):
            load_settings(file, env={})


def test_the_same_encoder_twice_is_refused_before_any_work(tmp_path: Path, make_settings: MakeSettings) -> None:
    shutil.copytree(SHIPPED, tmp_path / "copy")
    second = {"second": {"folder": tmp_path / "copy"}}
    made = make_settings(write_shop(tmp_path), embedding=second, indexes={"tier": "standard"})
    with pytest.raises(InvalidArgumentError, match="has the encoder codequarry-static-code twice") as caught:
        index_repositories(made)
    assert "[embedding.second] " in caught.value.suggestion
    assert not list((made.paths.work / "repositories").glob("*/parts/*"))


@pytest.mark.parametrize("damage", ["ids", "norm", "encoder", "rows"])
def test_a_damaged_second_leg_is_not_fit_to_publish(tmp_path: Path, standard, damage: str) -> None:
    report = index_repositories(standard(write_shop(tmp_path)))
    assert failed(report) == []
    paths = BundlePaths(report.path).leg("faiss2")
    table = paths.table(paths.embeddings)
    ids, vectors = arrays(read_table(table), DIM)
    if damage == "ids":
        write_vectors(table, ids[::-1], vectors)
        expected = ["ids in FAISS that differ from its id map (faiss2)"]
    elif damage == "norm":
        write_vectors(table, ids, 2 * vectors)
        expected = ["vectors that are not of unit norm (faiss2)"]
    elif damage == "rows":
        write_vectors(table, ids[1:], vectors[1:])
        expected = ["chunks without a vector (faiss2)", "rows of table embeddings2",
                    "ids in FAISS that differ from its id map (faiss2)"]  # fmt: skip
    else:
        shutil.copytree(BundlePaths(report.path).encoder, paths.encoder, dirs_exist_ok=True)
        expected = ["fingerprint of the query encoder (faiss2)", "dimension of the query encoder (faiss2)",
                    "files of the query encoder that are not the described ones (faiss2)"]  # fmt: skip
    assert failed(report) == expected


def test_doctor_finds_the_second_leg_sound(tmp_path: Path, standard) -> None:
    made = standard(write_shop(tmp_path))
    index_repositories(made)
    names = {finding.name: finding.level for finding in examine(made)}
    assert names["ids in FAISS that differ from its id map (faiss2)"] == "ok"
    assert names["compatibility"] == "ok"


def test_an_approximate_second_index_is_reranked_from_its_own_vectors(tmp_path: Path, standard) -> None:
    report = index_repositories(standard(write_shop(tmp_path), factory="HNSW32,SQ8"))
    paths = BundlePaths(report.path).leg("faiss2")
    assert VectorTable.open(paths, report.manifest, DIM).shape == (report.manifest.counts.chunks, DIM)
    assert failed(report) == []
    bundle = Bundle.open_current(report.path.parents[1])
    channel = bundle.channels["faiss2"]
    assert (channel.name, channel.source) == ("faiss2", "faiss2_hnsw_sq8")
    found = ask_channel(channel, "sum of all prices", 3)
    _, vectors = arrays(read_table(paths.table(paths.embeddings)), DIM)
    exact = vectors @ open_encoder(paths.encoder).encode_query("sum of all prices")
    assert found.scores == pytest.approx(np.sort(exact)[::-1][:3], abs=1e-5)
    bundle.close()


def test_damage_to_the_second_leg_shuts_its_channel_alone(tmp_path: Path, standard) -> None:
    report = index_repositories(standard(write_shop(tmp_path)))
    engine, follower = followed(report.path.parents[1])
    data = bytearray((report.path / "encoder2" / "rows.npy").read_bytes())
    data[-1] ^= 1
    (report.path / "encoder2" / "rows.npy").write_bytes(data)
    follower.check()
    answer = engine.search(SearchRequest(query="prices", explain=True))
    assert answer.limits == ["channel faiss2 is off: damaged: encoder2/rows.npy"]
    assert {"faiss", "bm25"} <= answer.results[0].metadata.explain.channels.keys()
    engine.served.close()


@pytest.mark.slow
def test_without_onnx_runtime_the_second_leg_is_off_and_says_what_it_needs(tmp_path: Path, run: Run) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text('[indexes]\ntier = "standard"\n')
    root = ("--root", tmp_path / "bundles")
    done = run("index", write_shop(tmp_path), "--settings", settings, *root)
    assert done.returncode == 0, done.stderr
    assert [leg.encoder.name for leg in manifest_of(Path(done.stdout.strip())).legs][1].startswith("all-MiniLM")
    there = json.loads(run("search", "prices", "--json", *root).stdout)
    assert there["limits"] == []
    assert "faiss2" in there["results"][0]["metadata"]["explain"]["channels"]
    missing = json.loads(run("search", "prices", "--json", *root, program=WITHOUT_ONNX).stdout)
    assert missing["results"]
    assert len(missing["limits"]) == 1
    assert missing["limits"][0].startswith("channel faiss2 is off: the encoder all-MiniLM")
    assert missing["limits"][0].endswith("run: pip install 'codequarry[models]'")


def test_cleaning_the_store_keeps_the_vectors_of_both_legs(tmp_path: Path, run: Run) -> None:
    small_encoder(tmp_path / "second")
    settings = tmp_path / "settings.toml"
    settings.write_text(
        '[indexes]\ntier = "standard"\n[embedding.second]\nfolder = "second"\n[paths]\nstore = "store"\nwork = "work"\n'
        f'[[sources.repositories]]\npath = "{write_shop(tmp_path)}"\n[bundle]\nroot = "bundles"\n'
    )
    program = "import os; os.environ.pop('CODEQUARRY__PATHS__STORE'); " + MAIN
    assert run("index", "--settings", settings, program=program).returncode == 0
    kept = run("store", "gc", "--days", "0", "--settings", settings, program=program)
    assert kept.returncode == 0, kept.stderr
    again = run("index", "-v", "--force", "--settings", settings, program=program)
    assert re.search(r"vectors\s+0 embedded", again.stderr), again.stderr

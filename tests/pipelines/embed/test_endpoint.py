"""An encoder behind an endpoint, from the settings file to the answer."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from codequarry.pipelines.embed.encoders import encoder_directories
from codequarry.pipelines.embed.stage import embed_texts
from codequarry.pipelines.run import index_repositories
from codequarry.pipelines.store.vectors import open_vector_store, text_key
from codequarry.schemas.errors import EndpointError
from codequarry.schemas.prefixes import CODE_QUERY
from codequarry.schemas.settings.load import PathsSettings, ServingSettings, Settings
from codequarry.schemas.wire.search import SearchRequest
from codequarry.serving.encoders import client as endpoints
from codequarry.serving.encoders.spec import EncoderSpec
from codequarry.serving.engine.engine import Engine
from tests.endpoint_server import Answer, Plan, Recorded, Server, endpoint_server, unit, vector_of
from tests.pipelines.conftest import MakeSettings, Run
from tests.pipelines.corpus import write_shop

CUT: Answer = (200, b"{", {"content-length": "5000", "connection": "close"})
MODEL = "nomic-ai/CodeRankEmbed"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(endpoints, "FIRST_PAUSE_S", 0.001)
    with endpoint_server() as running:
        yield running


def settings_of(server: Server, made: Settings, store: Path, **options: object) -> Settings:
    embedding = {"endpoint": server.url, "model": MODEL, **options}
    settings = Settings.model_validate({**made.model_dump(mode="json", exclude_defaults=True), "embedding": embedding})
    paths = PathsSettings(store=store, work=made.paths.work)
    return settings.model_copy(update={"paths": paths, "bundle": made.bundle, "sources": made.sources})


def unreliable(share: float) -> Plan:
    """Fails a share of the requests, each in one of the ways that pass."""
    drawn = random.Random(7)
    faults = [(429, b"", {"retry-after": "0"}), (500, b"", {}), (200, b'{"data": [{"ind', {}), CUT]

    def plan(request: Recorded) -> Answer | None:
        if drawn.random() >= share:
            return None
        return drawn.choice(faults)

    return plan


def test_5000_chunks_survive_a_server_that_fails_one_request_in_twenty(
    server: Server, tmp_path: Path, make_settings: MakeSettings
) -> None:
    settings = settings_of(server, make_settings(), tmp_path / "store", endpoint_batch=8)
    texts = [f"chunk {n} " + "x" * (n * 53 % 400) for n in range(5_000)]
    (folder,) = encoder_directories(settings).values()
    server.plan = unreliable(0.05)
    found = embed_texts(texts, folder, settings)
    failed = len(server.requests) - sum(server.served.values()) // 8
    assert failed >= 20
    assert np.abs(found - np.array([unit(vector_of(text)) for text in texts])).max() < 1e-3
    assert {server.served[text] for text in texts} == {1}
    spec = EncoderSpec.load(folder)
    with open_vector_store(settings.paths.store, spec.fingerprint, spec.dim) as store:
        assert len(store.get([text_key(text) for text in texts], rounded=True)) == 5_000
    assert np.array_equal(embed_texts(texts, folder, settings), found)
    assert {server.served[text] for text in texts} == {1}


def test_a_run_that_was_cut_off_goes_on_where_it_stopped(
    server: Server, tmp_path: Path, make_settings: MakeSettings
) -> None:
    settings = settings_of(server, make_settings(), tmp_path / "store", endpoint_retries=1)
    texts = [f"chunk {n}" for n in range(1_000)]
    (folder,) = encoder_directories(settings).values()
    gone = iter(range(20))
    server.plan = lambda _: None if next(gone, None) is not None else (500, b"", {})
    with pytest.raises(EndpointError, match="status 500"):
        embed_texts(texts, folder, settings)
    finished = {text for text in texts if server.served[text]}
    assert 256 <= len(finished) < 1_000
    server.plan = lambda _: None
    assert embed_texts(texts, folder, settings).shape == (1_000, 16)
    again = [text for text in texts if server.served[text] > 1]
    assert len(again) < 256  # of the one step that was cut off


@pytest.fixture
def built(server: Server, tmp_path: Path, make_settings: MakeSettings) -> Settings:
    settings = settings_of(server, make_settings(write_shop(tmp_path)), tmp_path / "store")
    index_repositories(settings)
    return settings


def test_from_the_settings_to_the_answer(server: Server, built: Settings) -> None:
    assert not any(text.startswith(CODE_QUERY) for text in server.served)
    version = Engine.open(built.bundle.root, ServingSettings(query_endpoint=server.url))
    answer = version.search(SearchRequest(query="sum of all prices", channel="faiss", explain=True))
    hybrid = version.search(SearchRequest(query="sum of all prices", explain=True))
    version.close()
    assert answer.limits == hybrid.limits == []
    assert len(answer.results) > 2
    assert "faiss" in hybrid.results[0].metadata.explain.channels
    assert server.served[f"{CODE_QUERY}sum of all prices"] == 2


def test_the_second_encoder_may_be_behind_an_endpoint(
    server: Server, tmp_path: Path, make_settings: MakeSettings
) -> None:
    given = {"second": {"endpoint": server.url, "model": MODEL}}
    made = make_settings(write_shop(tmp_path), embedding=given, indexes={"tier": "standard"})
    report = index_repositories(made)
    first, second = report.manifest.legs
    assert (first.encoder.model.kind, second.encoder.model.kind, second.encoder.name) == ("static", "endpoint", MODEL)
    assert index_repositories(made).unchanged
    assert made.asking.query_endpoint == server.url
    with closing(Engine.open(made.bundle.root, made.asking)) as engine:
        answer = engine.search(SearchRequest(query="sum of all prices", explain=True))
    assert answer.limits == []
    assert {"faiss", "faiss2"} <= answer.results[0].metadata.explain.channels.keys()
    assert server.served[f"{CODE_QUERY}sum of all prices"] == 1


def test_an_unchanged_index_asks_the_server_nothing(server: Server, built: Settings) -> None:
    before = len(server.requests)
    assert index_repositories(built).unchanged
    assert len(server.requests) == before


def test_without_the_server_the_other_channels_answer_and_say_so(server: Server, built: Settings) -> None:
    server.plan = lambda _: (503, b"", {})
    away = Engine.open(built.bundle.root, ServingSettings(query_endpoint=server.url))
    answer = away.search(SearchRequest(query="sum of all prices", explain=True))
    assert answer.results
    assert answer.limits == [
        f"channel faiss is off: the model server of {MODEL} gave no vectors: it answered with status 503"
    ]
    server.plan = lambda _: None
    asked = len(server.requests)
    assert away.search(SearchRequest(query="tax", explain=True)).limits == answer.limits  # it is given a rest
    assert len(server.requests) == asked
    away.close()


def test_the_service_calls_nobody_that_its_settings_do_not_name(server: Server, built: Settings) -> None:
    asked = len(server.requests)
    engine = Engine.open(built.bundle.root, ServingSettings())
    answer = engine.search(SearchRequest(query="sum of all prices", explain=True))
    engine.close()
    assert len(server.requests) == asked
    assert answer.results
    (limit,) = answer.limits
    assert "[serving] query_endpoint names none that runs nomic-ai/CodeRankEmbed" in limit


def test_another_model_behind_the_address_is_not_searched_with(server: Server, built: Settings) -> None:
    server.salt = "another"
    engine = Engine.open(built.bundle.root, ServingSettings(query_endpoint=server.url))
    answer = engine.search(SearchRequest(query="sum of all prices", explain=True))
    engine.close()
    assert answer.results
    assert "gives other vectors for nomic-ai/CodeRankEmbed than before" in answer.limits[0]


def test_a_server_that_is_not_there_is_said_before_the_long_stages(tmp_path: Path, run: Run) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text('[embedding]\nendpoint = "http://127.0.0.1:9/v1"\nmodel = "some-model"\nendpoint_retries = 0\n')
    done = run("index", write_shop(tmp_path), "--settings", settings, "--root", tmp_path / "bundles")
    assert done.returncode == 2
    assert "http://127.0.0.1:9/v1: the model server of some-model gave no vectors" in " ".join(done.stderr.split())
    assert "[embedding] endpoint" in done.stderr


def test_the_command_line_searches_through_the_server(server: Server, tmp_path: Path, run: Run) -> None:
    settings = tmp_path / "settings.toml"
    root = ("--settings", settings, "--root", tmp_path / "bundles")
    settings.write_text(
        f'[embedding]\nendpoint = "{server.url}"\nmodel = "m"\n[serving]\nquery_endpoint = "{server.url}"\n'
    )
    assert run("index", write_shop(tmp_path), *root).returncode == 0
    done = run("search", "sum of all prices", "--channel", "faiss", "--json", *root)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["limits"] == []
    assert answer["results"][0]["source"] == "faiss_flat"

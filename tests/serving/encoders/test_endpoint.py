"""Encoders behind an endpoint: what they ask, what they accept, and what a failing server does to them."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from codequarry.pipelines.embed.export.endpoint import export_endpoint
from codequarry.schemas.errors import EndpointError, IntegrityError, UnavailableError
from codequarry.schemas.prefixes import CODE_QUERY, known_prefixes, prefixed
from codequarry.schemas.settings.embedding import EmbeddingSettings
from codequarry.schemas.settings.model_servers import EndpointOptions, checked_url
from codequarry.serving.encoders import client as endpoints
from codequarry.serving.encoders.endpoint import PROBE_TEXT, EndpointEncoder
from codequarry.serving.encoders.spec import EncoderSpec, open_encoder
from tests.endpoint_server import DIM, Drip, Recorded, Server, embeddings, endpoint_server, unit, vector_of

MODEL = "nomic-ai/CodeRankEmbed"


@pytest.fixture
def server() -> Iterator[Server]:
    with endpoint_server() as running:
        yield running


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Pauses that were wanted; none is made."""
    pauses: list[float] = []
    monkeypatch.setattr(endpoints, "_sleep", pauses.append)
    return pauses


def exported(server: Server, folder: Path, **options: object) -> tuple[Path, EndpointOptions]:
    embedding = EmbeddingSettings.model_validate({"endpoint": server.url, "model": MODEL, **options})
    export_endpoint(folder, embedding)
    assert embedding.made_by is not None
    return folder, embedding.made_by


def opened(server: Server, folder: Path, **options: object) -> EndpointEncoder:
    directory, made_by = exported(server, folder, **options)
    encoder = open_encoder(directory, endpoint=made_by)
    assert isinstance(encoder, EndpointEncoder)
    return encoder


def test_queries_get_the_prefix_once_and_documents_never(server: Server, tmp_path: Path) -> None:
    encoder = opened(server, tmp_path)
    query, again = encoder.encode_query("open a file"), encoder.encode_query(f"{CODE_QUERY}open a file")
    encoder.encode_documents(["def open(): pass", f"{CODE_QUERY}quoted in a comment"])
    asked = [text for request in server.requests for text in request.payload["input"]]
    assert asked.count(f"{CODE_QUERY}open a file") == 2
    assert {"def open(): pass", f"{CODE_QUERY}quoted in a comment"} < set(asked)
    assert np.array_equal(query, again)
    assert query == pytest.approx(unit(vector_of(f"{CODE_QUERY}open a file")), abs=1e-6)


def test_vectors_come_back_in_the_order_of_the_texts_and_of_unit_norm(server: Server, tmp_path: Path) -> None:
    encoder = opened(server, tmp_path, endpoint_batch=7)
    texts = ["x" * (n * 37 % 101) for n in range(60)]
    progress: list[int] = []
    found = encoder.encode_documents(texts, progress.append)
    expected = [unit(vector_of(text or ".")) for text in texts]
    assert found == pytest.approx(np.array(expected), abs=1e-6)
    assert progress == sorted(progress)
    assert progress[-1] == len(texts)
    assert max(len(request.payload["input"]) for request in server.requests) == 7
    assert encoder.encode_documents([]).shape == (0, DIM)
    assert encoder.encode_documents(["\ud800"]).shape == (1, DIM)


def test_the_key_comes_from_the_environment_and_goes_nowhere_else(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUR_KEY", "canary-7f3a")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    opened(server, tmp_path / "with", endpoint_key="OUR_KEY").encode_query("q")
    assert {request.headers["authorization"] for request in server.requests} == {"Bearer canary-7f3a"}
    assert not any(b"canary" in file.read_bytes() for file in (tmp_path / "with").iterdir())
    server.requests.clear()
    opened(server, tmp_path / "without", endpoint_key="NOT_SET").encode_query("q")
    assert not any("authorization" in request.headers for request in server.requests)
    server.plan = lambda _: (401, b'{"error": "no"}', {})
    with pytest.raises(EndpointError, match="status 401") as caught:
        opened(server, tmp_path / "with", endpoint_key="OUR_KEY")
    assert "OUR_KEY" in caught.value.suggestion
    assert "canary" not in str(caught.value)


def truncated(request: Recorded) -> bytes:
    return json.dumps(embeddings(Server(""), request.payload)).encode()[:-20]


FAULTS = {
    "429": lambda _: (429, b"slow down", {"retry-after": "7"}),
    "500": lambda _: (500, b"boom", {}),
    "truncated": lambda request: (200, truncated(request), {}),
    "cut connection": lambda request: (200, b"{", {"content-length": "5000", "connection": "close"}),
    "drip": lambda _: Drip(0.02, 5000),
    "missing row": lambda request: (200, json.dumps({"data": [{"index": 0, "embedding": [1.0] * DIM}]}).encode(), {}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_passes_is_tried_again_after_longer_and_longer_pauses(
    server: Server, tmp_path: Path, slept: list[float], fault: str
) -> None:
    encoder = opened(server, tmp_path, endpoint_timeout_s=0.5 if fault == "drip" else 60)
    encoder.encode_query("known")
    slept.clear()
    failing = itertools.count()
    server.plan = lambda request: FAULTS[fault](request) if next(failing) < 3 else None
    found = encoder.encode_documents(["a", "b"])
    assert found == pytest.approx(np.array([unit(vector_of("a")), unit(vector_of("b"))]), abs=1e-6)
    if fault == "drip":  # on a busy machine an answer may take as long as that without any fault
        assert len(slept) >= 3
        return
    assert len(slept) == 3
    least = [7.0] * 3 if fault == "429" else [0.25, 0.5, 1.0]
    assert all(floor <= pause <= max(floor * 2, floor) for floor, pause in zip(least, slept, strict=True))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"data": [{"index": 0, "embedding": [1.0, 2.0]}]}, r"shape \(2,\), expected \(16,\)"),
        ({"data": [{"index": 0, "embedding": [0.0] * DIM}]}, "zero or not finite"),
        ({"data": [{"index": 0, "embedding": [float("nan")] * DIM}]}, "zero or not finite"),
        ({"data": [{"index": 0, "embedding": "AAAA"}]}, "lists of as many numbers"),
        ({"data": [{"index": 0}]}, r"shape \(\), expected"),
        ([], "no JSON object"),
    ],
)
def test_wrong_vectors_are_refused_at_once(
    server: Server, tmp_path: Path, slept: list[float], body: object, said: str
) -> None:
    encoder = opened(server, tmp_path)
    encoder.encode_query("known")
    server.plan = lambda _: (200, json.dumps(body).encode(), {})
    with pytest.raises(EndpointError, match=said):
        encoder.encode_documents(["a"])
    assert slept == []


def test_a_batch_that_is_too_large_is_halved_until_it_fits(server: Server, tmp_path: Path) -> None:
    encoder = opened(server, tmp_path, endpoint_batch=32)
    server.plan = lambda request: (413, b"too large", {}) if len(request.payload["input"]) > 5 else None
    texts = [f"text {n}" for n in range(32)]
    expected = [unit(vector_of(text)) for text in texts]
    assert encoder.encode_documents(texts) == pytest.approx(np.array(expected), abs=1e-6)
    assert all(server.served[text] == 1 for text in texts)


def test_another_model_behind_the_address_is_refused_before_any_vector_is_used(server: Server, tmp_path: Path) -> None:
    directory, made_by = exported(server, tmp_path)
    server.salt = "another model"
    for ask in (lambda one: one.encode_query("q"), lambda one: one.encode_documents(["d"])):
        with pytest.raises(EndpointError, match=r"other vectors for nomic-ai/CodeRankEmbed than before") as caught:
            ask(open_encoder(directory, endpoint=made_by))
        assert "revision" in caught.value.suggestion
    assert set(server.served) == {PROBE_TEXT}


def test_a_server_that_failed_gets_a_rest_and_is_asked_again_after_it(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = opened(server, tmp_path, endpoint_retries=0)
    now = [100.0]
    monkeypatch.setattr(endpoints.time, "monotonic", lambda: now[0])
    server.plan = lambda _: (503, b"", {})
    before = len(server.requests)
    for _ in range(5):
        with pytest.raises(EndpointError, match="status 503"):
            encoder.encode_query("q")
    assert len(server.requests) == before + 1
    server.plan = lambda _: None
    now[0] += endpoints.REST_S
    assert encoder.encode_query("q").shape == (DIM,)
    assert server.requests[-2].payload["input"] == [PROBE_TEXT]  # it may have come back with another model


def test_threads_that_wait_for_a_dead_server_wait_once(server: Server, tmp_path: Path) -> None:
    encoder = opened(server, tmp_path, endpoint_retries=0, endpoint_timeout_s=0.2)
    server.plan = lambda _: Drip(0.05, 1000)
    before = len(server.requests)

    def ask() -> None:
        with pytest.raises(EndpointError):
            encoder.encode_query("q")

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(server.requests) == before + 1


def test_the_directory_names_no_address_and_without_one_nobody_is_called(server: Server, tmp_path: Path) -> None:
    directory, _ = exported(server, tmp_path)
    assert not any(server.url.encode() in file.read_bytes() for file in directory.iterdir())
    with pytest.raises(UnavailableError, match=r"\[serving\] query_endpoint names none that runs nomic"):
        open_encoder(directory)
    (directory / "probe.npy").write_bytes(b"")
    with pytest.raises(IntegrityError, match=r"probe\.npy: sha256"):
        open_encoder(directory)


def test_the_fingerprint_knows_model_revision_prefix_and_weights_but_not_the_address(
    server: Server, tmp_path: Path
) -> None:
    def fingerprint(name: str, **options: object) -> str:
        return EncoderSpec.load(exported(server, tmp_path / name, **options)[0]).fingerprint

    first = fingerprint("first")
    with endpoint_server() as elsewhere:
        assert EncoderSpec.load(exported(elsewhere, tmp_path / "moved")[0]).fingerprint == first
    others = [fingerprint("model", model="other"), fingerprint("revision", revision="2")]
    others += [fingerprint("query", query_prefix=""), fingerprint("document", document_prefix="code: ")]
    server.salt = "other weights"
    others.append(fingerprint("weights"))
    assert len({first, *others}) == 6


def test_redirects_are_not_followed(server: Server, tmp_path: Path) -> None:
    with endpoint_server() as elsewhere:
        server.plan = lambda _: (307, b"", {"location": f"{elsewhere.url}/embeddings"})
        with pytest.raises(EndpointError, match="status 307"):
            exported(server, tmp_path)
        assert elsewhere.requests == []


@pytest.mark.parametrize(
    "url", ["ftp://h/v1", "http://", "127.0.0.1:80", "http://me:secret@h/v1", "http://h/v1?key=1", "http://h/#x"]
)
def test_addresses_are_checked(url: str) -> None:
    with pytest.raises(ValueError, match="expected an address"):
        checked_url(url)


def test_families_are_known_by_name_wherever_they_come_from() -> None:
    assert known_prefixes("nomic-ai/CodeRankEmbed") == known_prefixes("/models/coderankembed/") == (CODE_QUERY, "")
    assert known_prefixes("intfloat/multilingual-e5-large") == ("query: ", "passage: ")
    assert known_prefixes("intfloat/e5-mistral-7b-instruct").query.startswith("Instruct: ")
    assert known_prefixes("nomic-ai/nomic-embed-text-v1.5") == ("search_query: ", "search_document: ")
    assert known_prefixes("sentence-transformers/all-MiniLM-L6-v2") == ("", "")
    assert prefixed("", "q") == "q"

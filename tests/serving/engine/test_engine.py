"""healthz over MCP and over HTTP: what it tells, and what it must not."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from fastmcp import Client
from starlette.testclient import TestClient

from codequarry.schemas.errors import NoBundleError, StartingError
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.search import SearchRequest
from codequarry.serving.engine.engine import Engine
from codequarry.serving.engine.first_version import FirstVersion, Step
from codequarry.serving.http.app import Service, http_app
from codequarry.serving.server.mcp import build_server, listed_tools
from tests.serving.bundles.bundle_factory import VERSION
from tests.serving.bundles.corpus import PIECES
from tests.serving.bundles.versions import flip, followed, publish, until


def over_mcp(engine: Engine) -> dict[str, Any]:
    async def ask() -> dict[str, Any]:
        async with Client(build_server(engine, version="0")) as client:
            result = await client.call_tool_mcp("healthz", {})
            assert not result.is_error
            return result.structured_content

    answer = asyncio.run(ask())
    schema = next(tool["outputSchema"] for tool in listed_tools("full") if tool["name"] == "healthz")
    jsonschema.validate(answer, schema, cls=jsonschema.Draft202012Validator)
    return answer


def over_http(engine: Engine, **headers: str) -> tuple[int, Any]:
    app = http_app(Service(engine, "0"))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        response = client.get("/healthz", headers=headers)
    return response.status_code, response.json() if response.status_code in (200, 503) else None


def steady(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer without what may change from one moment to the next: every byte is read in the background."""
    return {key: value for key, value in answer.items() if key not in ("uptime_s", "verified")}


def test_both_doors_tell_the_same(bundle_root: Path) -> None:
    # An engine of its own: what starves this process elsewhere may have refused a version for the shared one.
    with closing(Engine.open(bundle_root, ServingSettings())) as engine:
        encoder = engine.bundle.manifest.encoder.name
        status, body = over_http(engine)
        told = over_mcp(engine)
    assert status == 200
    assert steady(body) == steady(told)
    assert told["status"] == "ok"
    assert told["bundle"]["version"] == VERSION
    assert told["bundle"]["commits"] == {"quarry": "a" * 40, "gateway": "b" * 40 + "+dirty"}
    chunks = len(PIECES)
    counts = {"bm25": {"documents": chunks}, "faiss": {"vectors": chunks, "id_map": chunks}, "symbol": {}}
    assert told["channels"] == {name: {"open": True, "reason": "", "counts": counts[name]} for name in counts}
    assert (told["chunks"], told["catalog"]) == (chunks, True)
    assert told["encoders"] == {"faiss": encoder}
    assert told["since"].endswith("+00:00")
    assert told["follows_current"] is True
    assert told["in_flight"] == 0
    assert "refused" not in told


def test_an_index_of_another_size_is_told(bundle_root: Path) -> None:
    with closing(Engine.open(bundle_root, ServingSettings())) as engine:
        dense = engine.bundle.channels["faiss"]
        dense._counts = {**dense.counts(), "id_map": 1}
        told = over_mcp(engine)
    assert told["status"] == "degraded"
    assert told["channels"]["faiss"]["counts"]["id_map"] != told["chunks"]


def test_a_catalog_that_does_not_answer_is_told(bundle_root: Path) -> None:
    with closing(Engine.open(bundle_root, ServingSettings())) as engine:
        engine.bundle.catalog._connection.close()
        told = over_mcp(engine)
    assert (told["status"], told["catalog"]) == ("degraded", False)


def test_a_closed_channel_is_told_with_its_reason(lexical_engine) -> None:
    told = over_mcp(lexical_engine)
    assert told["status"] == "degraded"
    assert told["channels"]["bm25"]["open"] is True
    assert told["channels"]["faiss"]["open"] is False
    assert told["channels"]["faiss"]["reason"].startswith("encoder/encoder.json: cannot be read")


def test_a_busy_server_still_tells(engine) -> None:
    busy = Engine(engine.bundle, ServingSettings(max_concurrency=1))
    with busy.gate.place(), busy.served.lease():
        assert over_mcp(busy)["in_flight"] == 1


@pytest.mark.parametrize("content", [b"", b"garbage\n", None])
def test_a_probe_sees_why_a_version_was_refused_and_no_path(tmp_path: Path, content: bytes | None) -> None:
    publish(tmp_path, 0)
    engine, follower = followed(tmp_path)
    if content is None:
        (tmp_path / "CURRENT").unlink()
    else:
        flip(tmp_path, content)
    follower.look()
    status, body = over_http(engine)
    assert status == 200
    assert body["follows_current"] is False
    assert body["refused"]["version"] == ""
    assert ("no bundle is published" if content is None else "expected '<version> <sha256>'") in (
        body["refused"]["reason"]
    )
    assert str(tmp_path) not in str(body)
    assert str(tmp_path) not in str(over_mcp(engine))
    engine.served.close()


def test_without_a_version_a_probe_gets_503(lexical_root: Path, tmp_path: Path) -> None:
    root = shutil.copytree(lexical_root, tmp_path / "root")
    engine, follower = followed(root)
    catalog = engine.bundle.paths.catalog
    data = bytearray(catalog.read_bytes())
    data[-1] ^= 1
    catalog.write_bytes(data)
    follower.check()
    status, body = over_http(engine)
    assert status == 503
    assert body["status"] == "unavailable"
    assert "catalog.duckdb" in body["refused"]["reason"]
    assert str(root) not in str(body)
    assert over_mcp(engine)["status"] == "unavailable"


def test_a_foreign_host_or_method_is_turned_away(engine) -> None:
    assert over_http(engine, Host="evil.example.com")[0] == 421
    assert over_http(engine, Origin="https://evil.example.com")[0] == 403
    app = http_app(Service(engine, "0"))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        assert client.post("/healthz", json={}).status_code == 405


def test_without_a_version_it_tells_how_far_the_first_one_is(tmp_path: Path) -> None:
    first = FirstVersion("app")
    first.note(Step("cutting files into chunks", 3, 8, "file", 0.2))
    with closing(Engine.open(tmp_path, ServingSettings(follow_interval_s=0.01), first=first)) as engine:
        with pytest.raises(StartingError, match="3 of 8 files"):
            engine.search(SearchRequest(query="anything"))
        status, body = over_http(engine)
        told = over_mcp(engine)
        assert (status, told["status"]) == (503, "starting")
        assert "3 of 8 files" in told["first_index"]
        assert body.keys() == told.keys()
        assert "refused" not in told
        first.fail("no file can be indexed", "check .gitignore")
        status, body = over_http(engine)
        assert (status, body["status"]) == (503, "unavailable")
        assert body["first_index"].endswith("no file can be indexed; check .gitignore")


def test_the_first_version_is_served_once_it_is_published(bundle_root: Path, tmp_path: Path) -> None:
    root = tmp_path / "bundles"
    with closing(Engine.open(root, ServingSettings(follow_interval_s=0.01), first=FirstVersion("app"))) as engine:
        assert engine.version_name == ""
        shutil.copytree(bundle_root / "versions", root / "versions")
        shutil.copy(bundle_root / "CURRENT", root / "CURRENT")
        until(lambda: engine.version_name == VERSION)
        assert engine.search(SearchRequest(query="where are expired sessions removed")).results
        status, body = over_http(engine)
        assert (status, body["status"]) == (200, "ok")
        assert "first_index" not in body


def test_nobody_makes_a_first_version_unless_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(NoBundleError):
        Engine.open(tmp_path, ServingSettings())

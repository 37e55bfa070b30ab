"""The version that a service answers from, as Dagster shows it: a real server over HTTP, and what is no server."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import dagster as dg
import pytest

from codequarry.assets.definitions import build_definitions
from codequarry.assets.mcp_service import served_version
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.health import HealthRequest
from codequarry.schemas.wire.search import to_wire
from codequarry.serving.engine.engine import Engine
from tests.assets.conftest import Workbench


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """Yield the address of a server that answers everything with this."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def health_of(bench: Workbench) -> bytes:
    """Health of a service over the published version, as JSON."""
    engine = Engine.open(bench.root.path, ServingSettings())
    try:
        return json.dumps(to_wire(engine.health(HealthRequest()))).encode()
    finally:
        engine.close()


def watch(bench: Workbench, address: str) -> None:
    bench.configure("beta", "alpha", more=f'[automation]\nservice_url = "{address}"\n')


def tick(bench: Workbench, cursor: str | None = None) -> dg.SensorResult | dg.SkipReason:
    context = dg.build_sensor_context(instance=bench.instance, cursor=cursor, resources={"project": bench.project})
    return served_version(context)


def test_the_served_version_is_reported_once(published: Workbench) -> None:
    with answering(200, health_of(published)) as address:
        watch(published, address)
        found = tick(published)
        assert isinstance(found, dg.SensorResult)
        materialization, evaluation = found.asset_events
        assert materialization.metadata["found"].value == published.manifest.version
        assert evaluation.passed
        again = tick(published, found.cursor)
    assert isinstance(again, dg.SkipReason)
    assert "is served" in (again.skip_message or "")


def test_a_service_behind_the_published_version_fails_the_check(published: Workbench) -> None:
    with answering(200, health_of(published)) as address:
        published.write("alpha/added.py", "def added() -> None:\n    return None\n")
        assert published.reindex().success
        watch(published, address)
        found = tick(published)
    assert isinstance(found, dg.SensorResult)
    evaluation = found.asset_events[1]
    assert not evaluation.passed
    assert f"{published.manifest.version} is published" in (evaluation.description or "")


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [(503, b'{"status": "unavailable"}', "unavailable"), (200, b"<html>", "no JSON object"), (200, b"[]", "no JSON")],
)
def test_what_tells_no_version_serves_nothing(published: Workbench, status: int, body: bytes, said: str) -> None:
    with answering(status, body) as address:
        watch(published, address)
        found = tick(published)
    assert isinstance(found, dg.SensorResult)
    evaluation = found.asset_events[1]
    assert not evaluation.passed
    assert said in (evaluation.description or "")
    assert "nothing is served" in (evaluation.description or "")


def test_a_service_that_does_not_answer_is_said_to_be_unreachable(published: Workbench) -> None:
    watch(published, "http://127.0.0.1:9")
    found = tick(published)
    assert isinstance(found, dg.SensorResult)
    assert "unreachable" in (found.asset_events[1].description or "")


def test_without_an_address_the_sensor_rests_and_the_check_says_what_to_set(published: Workbench) -> None:
    rests = tick(published)
    assert isinstance(rests, dg.SkipReason)
    assert "names no service" in (rests.skip_message or "")
    definitions = build_definitions(published.project)
    check = dg.define_asset_job("ask", selection=dg.AssetSelection.checks_for_assets(dg.AssetKey("mcp_service")))
    job = dg.Definitions(
        assets=definitions.assets, asset_checks=definitions.asset_checks, jobs=[check], resources=definitions.resources
    ).resolve_job_def("ask")
    result = job.execute_in_process(instance=published.instance, raise_on_error=False)
    assert not result.success
    (event,) = result.get_step_failure_events()
    assert "service_url" in str(event.step_failure_data.user_failure_data.metadata["suggestion"].value)

"""What a client can hold up over HTTP, and what it cannot: floods, slow senders, large headers, calls left behind."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.search import SearchAnswer, SearchRequest
from codequarry.serving.engine.engine import Engine
from codequarry.serving.http.app import Service
from codequarry.serving.http.door import Crowd
from codequarry.serving.request.admission import Gate
from codequarry.serving.server.mcp import listed_tools
from codequarry.serving.tools.context import ToolContext
from tests.serving.live import answered, raw, request, running, tool_call
from tests.serving.server.test_mcp import ERAS

SETTINGS = ServingSettings(max_concurrency=2, header_timeout_s=0.3, body_timeout_s=0.3, max_connections=8)


@pytest.fixture
def engine(lexical_engine) -> Engine:
    return Engine(lexical_engine.bundle, SETTINGS)


@pytest.fixture
def port(engine) -> Iterator[int]:
    with running(Service(engine, "0")) as port:
        yield port


@pytest.fixture
def blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many calls are on their way as may run."""
    monkeypatch.setattr(Crowd, "full", True)


@pytest.mark.parametrize("era", ERAS)
def test_busy_at_the_door_is_what_the_protocol_would_say(port: int, engine, monkeypatch, era: str) -> None:
    asked = tool_call("search", {"query": "open"}, era, 7)
    for _ in range(SETTINGS.max_concurrency):
        engine.gate._enter("")
    behind = request(port, "POST", "/mcp", *asked)
    monkeypatch.setattr(Crowd, "full", True)
    at_the_door = request(port, "POST", "/mcp", *asked)
    assert (at_the_door[0], behind[0]) == (200, 200)
    found, expected = json.loads(at_the_door[1]), json.loads(behind[1])
    assert found["result"]["structuredContent"]["error"]["code"] == "BUSY"
    metas = [answer["result"].pop("_meta") for answer in (found, expected)]
    runs = [meta.pop("run_id") for meta in metas]
    assert len(set(runs)) == 2
    assert {key: metas[1][key] for key in metas[0]} == metas[0] == {"stages_ms": {}, "decisions": {}}
    assert {key: expected["result"][key] for key in found["result"]} == found["result"]
    assert {key: expected[key] for key in ("id", "jsonrpc")} == {key: found[key] for key in ("id", "jsonrpc")}


@pytest.mark.parametrize("era", ERAS)
def test_a_place_taken_at_the_door_is_given_back(port: int, engine, blocked, era: str) -> None:
    """Whether the tool answered, refused its arguments, or was never reached."""
    body, headers = tool_call("search", {"query": "open"}, era)
    answer = json.loads(request(port, "POST", "/mcp", body, headers)[1])
    assert answer["result"]["structuredContent"]["results"]
    refused = json.loads(request(port, "POST", "/mcp", *tool_call("search", {"querry": "open"}, era))[1])
    assert refused["result"]["structuredContent"]["error"]["code"] == "INVALID_ARGUMENT"
    assert request(port, "POST", "/mcp", body, {**headers, "MCP-Protocol-Version": "1999-01-01"})[0] == 400
    assert engine.gate.running == 0


@pytest.mark.parametrize(("places", "full"), [(1, 1), (2, 2), (8, 6)])
def test_a_crowd_is_full_when_a_client_may_find_no_place(places: int, full: int) -> None:
    crowd = Crowd(Gate(places))
    crowd.inside = full - 1
    assert not crowd.full
    crowd.inside = full
    assert crowd.full


@pytest.mark.parametrize("era", ERAS)
def test_health_and_listings_answer_while_calls_are_turned_away(port: int, blocked, era: str) -> None:
    status, body = request(port, "POST", "/mcp", *tool_call("healthz", {}, era))
    assert status == 200
    health = json.loads(body)["result"]["structuredContent"]
    schema = next(tool["outputSchema"] for tool in listed_tools("full") if tool["name"] == "healthz")
    jsonschema.validate(health, schema)
    assert request(port, "GET", "/healthz")[0] == 200


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"null", b"[" * 50_000, b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":["search"]}}',
        b'{"jsonrpc":"2.0","id":true,"method":"tools/call","params":{"name":"search"}}', b"\xff\xfe",
    ],
)  # fmt: skip
def test_garbage_is_judged_by_the_protocol_also_under_load(port: int, blocked, body: bytes) -> None:
    headers = tool_call("search", {}, ERAS[1])[1]
    status, answer = request(port, "POST", "/mcp", body, headers)
    assert 400 <= status < 500 or status == 202 or "error" in json.loads(answer)
    assert b"Traceback" not in answer


def test_row_09_busy_comes_quickly_to_everyone_of_a_crowd(lexical_engine, monkeypatch) -> None:
    """Fifty calls at once, of which two run: nobody waits in line for a refusal."""
    engine = Engine(lexical_engine.bundle, ServingSettings(max_concurrency=2))
    release = threading.Event()
    real = engine.answer_admitted
    monkeypatch.setattr(engine, "answer_admitted", lambda *asked: (release.wait(20), real(*asked))[1])
    seconds: list[float] = []
    codes: list[str] = []

    def ask(port: int) -> None:
        body, headers = tool_call("search", {"query": "open"}, ERAS[0])
        started = time.perf_counter()
        answer = json.loads(request(port, "POST", "/mcp", body, headers)[1])
        took = time.perf_counter() - started
        content = answer["result"]["structuredContent"]
        codes.append(content.get("error", {}).get("code", "ok"))
        if codes[-1] == "BUSY":
            seconds.append(took)

    with running(Service(engine, "0")) as port:
        ask_threads = [threading.Thread(target=ask, args=(port,)) for _ in range(50)]
        for thread in ask_threads:
            thread.start()
        while codes.count("BUSY") < 48 and any(thread.is_alive() for thread in ask_threads):
            time.sleep(0.01)
        release.set()
        for thread in ask_threads:
            thread.join()
    assert sorted(set(codes)) == ["BUSY", "ok"]
    assert codes.count("ok") <= 2
    assert sorted(seconds)[len(seconds) // 2] < 5


@pytest.mark.parametrize(("trusted", "told"), [(("127.0.0.1",), "ok"), ((), "BUSY")])
def test_a_client_leaves_places_to_others(lexical_engine, monkeypatch, trusted: tuple[str, ...], told: str) -> None:
    """Who is who says a trusted proxy; the word of anybody else does not count, and all come from one address."""
    engine = Engine(lexical_engine.bundle, ServingSettings(max_concurrency=4, trusted_proxies=trusted))
    release, held = threading.Event(), threading.Semaphore(0)
    real = engine.answer_admitted

    def search(name, tool, asked: SearchRequest) -> SearchAnswer:
        if asked.query == "hold":
            held.release()
            release.wait(20)
        return real(name, tool, asked)

    def ask(port: int, query: str, client: str) -> str:
        body, headers = tool_call("search", {"query": query}, ERAS[0])
        answer = json.loads(request(port, "POST", "/mcp", body, {**headers, "X-Forwarded-For": client})[1])
        return answer["result"]["structuredContent"].get("error", {}).get("code", "ok")

    monkeypatch.setattr(engine, "answer_admitted", search)
    with running(Service(engine, "0")) as port:
        many = [threading.Thread(target=ask, args=(port, "hold", "192.0.2.1")) for _ in range(3)]
        for one in many:
            one.start()
        assert all(held.acquire(timeout=20) for _ in many)
        assert ask(port, "open", "192.0.2.1") == "BUSY"
        assert ask(port, "open", "192.0.2.2") == told
        release.set()
        for one in many:
            one.join()


def test_row_08_headers_that_never_end_are_given_up(port: int) -> None:
    with raw(port, b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-A: ") as connection:
        assert answered(connection).startswith(b"HTTP/1.1 408")


def test_a_connection_that_says_nothing_is_given_up(port: int) -> None:
    with raw(port) as connection:
        assert answered(connection).startswith(b"HTTP/1.1 408")


def test_a_body_that_never_ends_is_given_up(port: int) -> None:
    head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
    with raw(port, head) as connection:
        assert answered(connection).startswith(b"HTTP/1.1 408")


def test_headers_have_a_limit(port: int) -> None:
    with raw(port, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: " + b"a" * 40_000 + b"\r\n\r\n") as connection:
        assert answered(connection)[9:12] in (b"431", b"400")
    with raw(port, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: a\r\n" * 20_000) as connection:
        assert answered(connection)[9:12] in (b"431", b"400", b"")
    assert request(port, "GET", "/healthz")[0] == 200


def test_one_that_holds_connections_open_locks_nobody_out(port: int) -> None:
    """More silent connections than there may be: each newcomer takes the place of the one silent for longest."""
    held = [raw(port, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n") for _ in range(30)]
    try:
        assert request(port, "GET", "/healthz")[0] == 200
        assert request(port, "POST", "/mcp", *tool_call("search", {"query": "open"}, ERAS[0]))[0] == 200
    finally:
        for connection in held:
            connection.close()


def test_row_11_a_call_left_behind_stops_at_its_next_check(engine, port: int, monkeypatch) -> None:
    checked, stopped = threading.Event(), threading.Event()

    real = engine.answer_admitted

    def endless(context: ToolContext, _: Any) -> Any:
        while not context.deadline.passed:
            checked.set()
            time.sleep(0.002)
        stopped.set()
        context.deadline.check()

    monkeypatch.setattr(engine, "answer_admitted", lambda name, _, request: real(name, endless, request))
    body, headers = tool_call("search", {"query": "open"}, ERAS[0])
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\n{lines}Content-Length: {len(body)}\r\n\r\n"
    with running(Service(engine, "0")) as own:
        connection = raw(own, head.encode() + body)
        assert checked.wait(10)
        assert engine.gate.running == 1
        connection.close()
        assert stopped.wait(10)
        for _ in range(500):
            if not engine.gate.running:
                break
            time.sleep(0.01)
        assert engine.gate.running == 0


def test_a_stream_of_requests_on_one_connection_is_answered(port: int) -> None:
    """Timers and counters of one request must not outlive it."""
    with raw(port) as connection:
        for _ in range(5):
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            found = b""
            while b"\r\n\r\n" not in found or not found.rstrip().endswith(b"}"):
                found += connection.recv(65_536)
            assert found.startswith(b"HTTP/1.1 200")
            time.sleep(0.1)


def test_who_sends_too_much_is_told_so_after_sending_it(lexical_engine) -> None:
    patient = Engine(lexical_engine.bundle, ServingSettings(body_timeout_s=60))
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {4 << 20}\r\n\r\n"
    )
    with running(Service(patient, "0")) as port, raw(port, head.encode()) as connection:
        for _ in range(4):
            time.sleep(0.05)
            connection.sendall(b" " * (1 << 20))
        assert connection.recv(65_536).startswith(b"HTTP/1.1 413")

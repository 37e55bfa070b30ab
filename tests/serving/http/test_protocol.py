"""What a client can make a running ``codequarry serve`` keep, before it shows any token: floods, and answers unread."""

from __future__ import annotations

import itertools
import socket
import statistics
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from codequarry.schemas.settings.load import ServingSettings
from codequarry.serving.engine.engine import Engine
from codequarry.serving.http import protocol as http_protocol
from codequarry.serving.http.app import Service
from tests.serving.live import Served, answered, raw, request, running, serving, tool_call
from tests.serving.server.test_mcp import ERAS

MIB = 1 << 20
MOST_MB = 100
"""So much memory may an attack cost."""
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
METRICS = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
CHUNKED = (
    b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Accept: application/json, text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)
ENDLESS = {
    "trailers": (CHUNKED + b"2\r\n{}\r\n0\r\n", b"aaaaaaaa: bbbbbbbb\r\n"),
    "a trailer": (CHUNKED + b"2\r\n{}\r\n0\r\nX-A: ", b"a" * 64),
    "trailers behind an answer": (CHUNKED.replace(b"/mcp", b"/healthz") + b"2\r\n{}\r\n0\r\n", b"a: b\r\n"),
    "a chunk extension": (CHUNKED + b"2;", b"a" * 64),
    "chunks with long extensions": (CHUNKED, b"1;" + b"a" * 16_000 + b"\r\n \r\n"),
    "a chunk size": (CHUNKED, b"0" * 64),
    "headers": (b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"aaaaaaaa: bbbbbbbb\r\n"),
    "a path": (b"GET /", b"a" * 64),
}


@pytest.fixture(scope="module")
def served(lexical_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(lexical_root, tmp_path_factory.mktemp("served")) as running_server:
        for era in ERAS:
            request(running_server.port, "POST", "/mcp", *tool_call("search", {"query": "open"}, era))
        request(running_server.port, "GET", "/metrics")
        yield running_server


@contextmanager
def watched(served: Served) -> Iterator[None]:
    """Ask for health all through the block; check its answers, how long they took, and what memory the block cost."""
    before, seconds, ended = served.resident_mb(), [], threading.Event()
    slower = crowding()

    def ask() -> None:
        while not ended.is_set():
            seconds.append(health_s(served))

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield
        if before is not None:
            assert served.resident_mb() - before <= MOST_MB
    finally:
        ended.set()
        asking.join()
    assert statistics.median(seconds) <= 0.1 * max(slower, crowding())
    if before is not None:
        limit = time.monotonic() + 15
        while served.resident_mb() - before > MOST_MB and time.monotonic() < limit:
            time.sleep(0.1)
        assert served.resident_mb() - before <= MOST_MB


def crowding() -> float:
    """How many times longer work takes because others keep the machine busy."""
    wall, cpu = time.perf_counter(), time.thread_time()
    while (worked := time.thread_time() - cpu) < 0.05:
        pass
    return max(1.0, (time.perf_counter() - wall) / worked)


def health_s(served: Served) -> float:
    """How long one answer of health takes."""
    started = time.perf_counter()
    assert request(served.port, "GET", "/healthz")[0] == 200
    return time.perf_counter() - started


def for_seconds(seconds: float) -> Iterator[None]:
    """Go round at least once, and until so many seconds have passed."""
    end = time.monotonic() + seconds
    yield
    while time.monotonic() < end:
        yield


def flood(connection: socket.socket, block: bytes, most: int) -> int:
    """Bytes that the other end took before it closed, or did not read any more; at most so many."""
    sent = 0
    try:
        while sent < most:
            connection.sendall(block)
            sent += len(block)
    except (ConnectionError, TimeoutError):
        pass
    return sent


@pytest.mark.parametrize("kind", ENDLESS)
def test_row_24_whatever_never_ends_is_cut_off(served: Served, kind: str) -> None:
    beginning, part = ENDLESS[kind]
    block = part * (65_536 // len(part))
    with watched(served):
        for _ in for_seconds(1):
            with raw(served.port, beginning) as connection:
                # The application has to wait for the body by now, which nothing outside shows.
                time.sleep(0.2)
                assert flood(connection, block, 96 * MIB) < 96 * MIB


def test_row_24_pipelined_requests_that_nobody_reads_cost_nothing(served: Served) -> None:
    with watched(served), ExitStack() as closing:
        for _ in range(150):
            connection = closing.enter_context(deaf(served.port))
            flood(connection, METRICS * 1000, 2 * MIB)
            time.sleep(0.02)


def test_row_24_requests_sent_one_by_one_are_not_kept_while_answers_stay_unread(served: Served) -> None:
    """Behind each answer that nobody reads another request, so that none of the limits on what lies ahead is met."""
    with watched(served), ExitStack() as closing:
        for _ in range(20):
            ask_on(closing.enter_context(deaf(served.port)), 2_000)


def test_row_24_many_bodies_on_their_way_are_bounded_together(served: Served) -> None:
    head = CHUNKED.replace(b"Transfer-Encoding: chunked", b"Content-Length: 1000000")
    with watched(served), ExitStack() as closing:
        for _ in range(150):
            flood(closing.enter_context(raw(served.port, head)), b" " * 100_000, 900_000)
            time.sleep(0.02)


def test_requests_in_a_row_are_all_answered(served: Served) -> None:
    """The limit on what is sent ahead does not end clients that pipeline as HTTP/1.1 lets them."""
    body, headers = tool_call("search", {"query": "open"}, ERAS[0])
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    post = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body
    last = HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    with raw(served.port, (HEALTH + post) * 10 + last) as connection:
        assert answered(connection).count(b"HTTP/1.1 200 OK") == 21


def test_who_sends_too_far_ahead_gets_one_answer(served: Served) -> None:
    with raw(served.port, HEALTH + b"GET /" + b"a" * (2 * http_protocol.MAX_AHEAD_BYTES)) as connection:
        assert answered(connection).count(b"HTTP/1.1") <= 1


def deaf(port: int) -> socket.socket:
    """A connection that will read nothing."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    connection.settimeout(0.5)
    connection.connect(("127.0.0.1", port))
    return connection


def ask_on(connection: socket.socket, requests: int) -> None:
    """Ask so often, or until the other end takes no more."""
    for _ in range(requests // 100):
        if not flood(connection, METRICS * 100, 1):
            break
        time.sleep(0.005)


def closes(connection: socket.socket) -> bool:
    """Whether the other end closes before long, without any answer being read."""
    limit = time.monotonic() + 300
    while time.monotonic() < limit:
        try:
            connection.sendall(METRICS)
        except TimeoutError:
            continue
        except ConnectionError:
            return True
    return False


@pytest.fixture
def own(lexical_engine) -> Callable[..., Service]:
    """A service with settings of its own."""

    def service(**settings: object) -> Service:
        return Service(Engine(lexical_engine.bundle, ServingSettings(**settings)), "0")

    return service


def test_an_answer_left_unread_is_given_up(own) -> None:
    with running(own(answer_timeout_s=0.3)) as port, deaf(port) as connection:
        ask_on(connection, 10_000)
        assert closes(connection)


def test_connections_that_read_nothing_give_way(own) -> None:
    with ExitStack() as closing, running(own(answer_timeout_s=600, header_timeout_s=600, max_connections=8)) as port:
        for _ in range(8):
            ask_on(closing.enter_context(deaf(port)), 10_000)
        assert request(port, "GET", "/healthz")[0] == 200


def test_a_pipelined_body_that_never_comes_is_given_up(own) -> None:
    head = CHUNKED.replace(b"Transfer-Encoding: chunked", b"Content-Length: 1000")
    with running(own(body_timeout_s=0.3)) as port, raw(port, HEALTH + head) as connection:
        assert b"HTTP/1.1 408" in answered(connection)


def test_of_too_many_bodies_the_largest_goes(own, monkeypatch) -> None:
    monkeypatch.setattr(http_protocol, "MAX_BODIES_BYTES", 300_000)
    head = CHUNKED.replace(b"Transfer-Encoding: chunked", b"Content-Length: 1000000")
    with running(own()) as port:
        small = raw(port, head + b" " * 100_000)
        large = raw(port, head + b" " * 250_000)
        assert answered(large).startswith(b"HTTP/1.1 503")
        assert request(port, "POST", "/mcp", *tool_call("search", {"query": "open"}, ERAS[0]))[0] == 200
        small.settimeout(0.2)
        with pytest.raises(TimeoutError):
            small.recv(1)
        small.close()
        large.close()


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("reset", [False, True])
def test_a_client_that_leaves_is_no_error_in_the_log(own, caplog, era: str, reset: bool) -> None:
    body, headers = tool_call("search", {"query": "open"}, era)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    whole = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body
    with running(own()) as port:
        for end in (10, whole.index(b"\r\n\r\n") + 6, len(whole) - 1, len(whole)):
            for data in itertools.repeat(whole[:end], 10):
                with raw(port, data) as connection:
                    if reset:
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        for _ in range(10):
            with raw(port, whole * 20):
                pass
        assert request(port, "GET", "/healthz")[0] == 200
    assert [record.getMessage() for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")] == []


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\xff\x16\x03\x01", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
        HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"),
        HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n") + HEALTH,
        b"CONNECT a:1 HTTP/1.1\r\nHost: localhost\r\n\r\n", HEALTH.replace(b"GET", b"HEAD"),
        CHUNKED.replace(b"chunked", b"gzip, chunked"), CHUNKED + b"zz\r\n", CHUNKED + b"2\r\n{}x",
        CHUNKED.replace(b"/mcp", b"/healthz") + b"2\r\n{}\r\nzz\r\n",
        CHUNKED.replace(b"Transfer", b"Content-Length: 3\r\nTransfer"),
        HEALTH.replace(b"\r\n\r\n", b"\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"),
        HEALTH.replace(b"127.0.0.1", b"\xff\r\n x"), HEALTH.replace(b"/healthz", b"/\xc3\xa9%ff"),
        CHUNKED.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n") + b"zz\r\n",
    ],
)  # fmt: skip
def test_what_is_no_proper_request_ends_without_an_error_in_the_log(own, caplog, data: bytes) -> None:
    with running(own(header_timeout_s=0.3, body_timeout_s=0.3)) as port:
        with raw(port, data) as connection:
            answer = answered(connection)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 ")
        assert request(port, "GET", "/healthz")[0] == 200
    assert [record.getMessage() for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")] == []

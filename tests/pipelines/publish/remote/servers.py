"""A real object store (SeaweedFS), and a proxy before it that injects faults."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal

import pytest

Fault = Literal["", "503", "drop", "cut answer", "lose answer", "cut upload"]
Choose = Callable[[str, str], Fault]
"""(method, path of the request) -> fault"""
KEY, SECRET, BUCKET = "test-key", "test-secret", "bundles"
_STARTS_S = 60.0


def free_ports(count: int) -> list[int]:
    """Return ports that are free now, and with which 10,000 more is a port too."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(4 * count)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return [port for port in ports if port < 55_000][:count]


@contextmanager
def seaweed(folder: Path) -> Iterator[int]:
    """Run a SeaweedFS server that speaks S3, and yield its port."""
    identity = {
        "name": "test", "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
        "actions": ["Admin", "Read", "Write", "List"],
    }  # fmt: skip
    config = folder / "s3.json"
    config.write_text(json.dumps({"identities": [identity]}))
    master, volume, filer, s3 = free_ports(4)
    weed = Path(sysconfig.get_path("scripts")) / "weed"
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [
                weed, "server", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-master.port={master}",
                f"-volume.port={volume}", "-volume.max=8", "-master.volumeSizeLimitMB=64", "-filer",
                f"-filer.port={filer}", "-s3", f"-s3.port={s3}", f"-s3.config={config}",
                "-s3.port.iceberg=0", "-s3.port.lance=0",
            ],
            stdout=log, stderr=log, cwd=folder,
        )  # fmt: skip
        try:
            _wait_for(s3, server, folder / "log")
            yield s3
        finally:
            server.kill()  # its orderly end takes half a minute
            server.wait()


def _wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    ends = time.monotonic() + _STARTS_S
    while time.monotonic() < ends and server.poll() is None:
        try:
            with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
                connection.request("GET", "/")
                connection.getresponse().read()
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"SeaweedFS does not answer:\n{log.read_text()[-2000:]}")


class FaultyProxy:
    """A proxy of an HTTP server: `choose` names the fault of each request."""

    def __init__(self, port: int) -> None:
        self.choose: Choose = lambda _method, _path: ""
        self.requests: list[tuple[str, str]] = []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def forward(self) -> None:
                proxy.requests.append((self.command, self.path))
                fault, length = proxy.choose(self.command, self.path), int(self.headers.get("Content-Length") or 0)
                if fault in ("drop", "cut upload"):
                    self.rfile.read(length // 2 if fault == "cut upload" else 0)
                    self._hang_up()
                    return
                body = self.rfile.read(length)
                if fault == "503":
                    self.send_response(503)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
                    connection.request(self.command, self.path, body, dict(self.headers.items()))
                    answer = connection.getresponse()
                    data = answer.read()
                if fault == "lose answer":
                    self._hang_up()
                    return
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                        self.send_header(name, value)
                self.send_header("Content-Length", answer.getheader("Content-Length") or str(len(data)))
                self.end_headers()
                if fault == "cut answer":
                    self.wfile.write(data[: len(data) // 2])
                    self.wfile.flush()
                    self._hang_up()
                else:
                    self.wfile.write(data)

            def _hang_up(self) -> None:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)

            do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = forward

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                """Print nothing: clients hang up too."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop the proxy."""
        self._server.shutdown()
        self._server.server_close()

    def count(self, method: str, text: str) -> int:
        """Return the number of requests of a method whose path holds a text."""
        return sum(each == method and text in path for each, path in self.requests)


def each_once(fault: Fault, method: str, text: str) -> Choose:
    """Return a choice of a fault for the first request to each path that holds a text."""
    seen: set[str] = set()
    lock = threading.Lock()

    def choose(asked: str, path: str) -> Fault:
        with lock:
            if asked != method or text not in path or path in seen:
                return ""
            seen.add(path)
            return fault

    return choose


@pytest.fixture(scope="module")
def s3_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with seaweed(tmp_path_factory.mktemp("seaweed")) as port:
        yield port


@pytest.fixture
def proxy(s3_port: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyProxy]:
    proxy = FaultyProxy(s3_port)
    for name, value in {
        "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.port}",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    yield proxy
    proxy.close()

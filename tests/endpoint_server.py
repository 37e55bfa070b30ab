"""A model server whose vectors are known and whose faults are planned; real servers have none to order."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

DIM = 16

Answer = tuple[int, bytes, dict[str, str]]
"""Status, body, headers."""
Plan = Callable[["Recorded"], "Answer | Drip | None"]
"""What to answer instead of what was asked for; None for that."""


@dataclass(frozen=True)
class Drip:
    """An answer that comes byte by byte."""

    pause_s: float
    pieces: int


@dataclass(frozen=True)
class Recorded:
    """One request as it came."""

    number: int
    path: str
    headers: dict[str, str]
    payload: dict[str, Any]


@dataclass
class Server:
    """A running server."""

    url: str
    requests: list[Recorded] = field(default_factory=list)
    served: Counter[str] = field(default_factory=Counter)
    """How often each text was answered with its vector."""
    salt: str = ""
    """Another one is another model."""
    plan: Plan = lambda _: None
    chat: Callable[[dict[str, Any]], str] = lambda _: "[]"
    """What the assistant says to a request."""
    stopping: threading.Event = field(default_factory=threading.Event)


def vector_of(text: str, salt: str = "", dim: int = DIM) -> np.ndarray:
    """(d,) float32 of any norm, by the text alone."""
    seed = int.from_bytes(hashlib.sha256((salt + text).encode()).digest()[:8], "big")
    return (3 * np.random.default_rng(seed).standard_normal(dim)).astype(np.float32)


def unit(vector: np.ndarray) -> np.ndarray:
    """The vector, of norm 1."""
    return vector / np.linalg.norm(vector)


def embeddings(server: Server, payload: dict[str, Any]) -> dict[str, Any]:
    """What a server answers, rows in any order, as the protocol allows."""
    rows = [
        {"object": "embedding", "index": at, "embedding": vector_of(text, server.salt).tolist()}
        for at, text in enumerate(payload["input"])
    ]
    return {"object": "list", "model": payload["model"], "data": rows[::-1]}


@contextmanager
def endpoint_server() -> Iterator[Server]:
    """A server on loopback; ``plan`` may be set while it runs."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            payload = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with lock:
                headers = {key.lower(): value for key, value in self.headers.items()}
                recorded = Recorded(len(server.requests), self.path, headers, payload)
                server.requests.append(recorded)
            planned = server.plan(recorded)
            if isinstance(planned, Drip):
                self._drip(planned)
                return
            if planned is None:
                if self.path.endswith("/embeddings"):
                    body = json.dumps(embeddings(server, payload)).encode()
                    with lock:
                        server.served.update(payload["input"])
                else:
                    said = {"role": "assistant", "content": server.chat(payload)}
                    body = json.dumps({"choices": [{"index": 0, "message": said}]}).encode()
                planned = (200, body, {})
            status, body, headers = planned
            self.send_response(status)
            for name, value in {
                "content-type": "application/json",
                "content-length": str(len(body)),
                **headers,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def _drip(self, drip: Drip) -> None:
            self.send_response(200)
            self.send_header("content-length", str(drip.pieces))
            self.end_headers()
            try:
                for _ in range(drip.pieces):
                    if server.stopping.wait(drip.pause_s):
                        return
                    self.wfile.write(b" ")
                    self.wfile.flush()
            except OSError:
                self.close_connection = True  # whoever asked has gone

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Listener(ThreadingHTTPServer):
        request_queue_size = 64
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            pass  # clients that hang up are part of the plan

    listener = Listener(("127.0.0.1", 0), Handler)
    server = Server(f"http://127.0.0.1:{listener.server_address[1]}/v1")
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.stopping.set()
        listener.shutdown()
        thread.join()
        listener.server_close()

"""Servers on the loopback interface that take notices: a web hook and a mail server, as far as clients notice."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Hook(ThreadingHTTPServer):
    """Answers with each of `answers` in turn, then with 200; keeps what was posted."""

    def __init__(self, *answers: int) -> None:
        self.answers, self.posted = list(answers), list[Any]()
        super().__init__(("127.0.0.1", 0), _Posting)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook/s3cret"


class _Posting(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posted.append(json.loads(body))
        self.send_response(self.server.answers.pop(0) if self.server.answers else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


class Mail(socketserver.ThreadingTCPServer):
    """Takes mail without encryption; refuses each recipient in `refused`; greets with `greeting`."""

    daemon_threads = True

    def __init__(self, *, refused: tuple[str, ...] = (), greeting: str = "220 here") -> None:
        self.refused, self.greeting, self.taken = refused, greeting, list[str]()
        self.greeted = 0
        super().__init__(("127.0.0.1", 0), _Talking)

    @property
    def port(self) -> int:
        return self.server_address[1]


class _Talking(socketserver.StreamRequestHandler):
    server: Mail

    def handle(self) -> None:
        self.server.greeted += 1
        self._say(self.server.greeting)
        while line := self.rfile.readline().decode().strip():
            verb = line.split()[0].upper()
            if verb == "RCPT" and any(address in line for address in self.server.refused):
                self._say("550 nobody of that name")
            elif verb == "DATA":
                self._say("354 go on")
                text = ""
                while (data := self.rfile.readline().decode()) not in ("", ".\r\n"):
                    text += data
                self.server.taken.append(text)
                self._say("250 taken")
            else:
                self._say("221 bye" if verb == "QUIT" else "250 fine")

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


@contextmanager
def serving(*servers: socketserver.BaseServer) -> Iterator[None]:
    """The servers answer until the block ends."""
    threads = [threading.Thread(target=server.serve_forever, args=(0.01,)) for server in servers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for server, thread in zip(servers, threads, strict=True):
            server.shutdown()
            server.server_close()
            thread.join()

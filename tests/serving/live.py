"""The service on a port of loopback, as `codequarry serve` runs it."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from codequarry.serving.http.app import Service, http_app, listen, uvicorn_config

HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@contextmanager
def running(service: Service) -> Iterator[int]:
    """Serve for the block; the port."""
    listener = listen("127.0.0.1", 0)
    config = uvicorn_config(http_app(service), service.engine.settings)
    server = uvicorn.Server(config)

    def serve() -> None:
        with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
            runner.run(server.serve(sockets=[listener]))

    thread = threading.Thread(target=serve)
    thread.start()
    while not server.started and thread.is_alive():
        threading.Event().wait(0.005)
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@dataclass(frozen=True)
class Served:
    """A running ``codequarry serve``."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path
    """Its stderr."""

    def resident_mb(self) -> float | None:
        """Memory of the process; None where the system does not tell."""
        try:
            status = Path(f"/proc/{self.process.pid}/status").read_text()
        except OSError:
            return None
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


@contextmanager
def serving(
    root: Path, folder: Path, *options: str, settings: str = "", environment: Mapping[str, str] = {}
) -> Iterator[Served]:
    """Run ``codequarry serve`` in a folder for the block, on any free port.

    settings: of the settings file, which is TOML.
    """
    file, log = folder / "served.toml", folder / "served.log"
    file.write_text(settings)
    command = [sys.executable, "-m", "codequarry.pipelines.cli", "serve", "--port", "0", "--root", str(root)]
    command += ["--settings", str(file), *options]
    with log.open("wb") as errors:
        process = subprocess.Popen(command, cwd=folder, env={**os.environ, **environment}, stderr=errors)
    try:
        while (announced := re.search(r"at http://127\.0\.0\.1:(\d+)/mcp", log.read_text())) is None:
            assert process.poll() is None, log.read_text()
            time.sleep(0.02)
        port = int(announced[1])
        assert request(port, "GET", "/healthz")[0] == 200
        yield Served(process, port, log)
    finally:
        process.kill()
        process.wait()


def raw(port: int, data: bytes = b"") -> socket.socket:
    """A connection on which the data has been sent."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=10)
    connection.sendall(data)
    return connection


def answered(connection: socket.socket) -> bytes:
    """Everything until the other end closes; nothing when it resets the connection."""
    answer = b""
    try:
        while data := connection.recv(65_536):
            answer += data
    except ConnectionError:
        pass
    return answer


def request(
    port: int, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] = {}
) -> tuple[int, bytes]:
    """(status, body) of one request on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(method, path, body, dict(headers))
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def tool_call(tool: str, arguments: dict[str, Any], era: str, number: int = 1) -> tuple[bytes, dict[str, str]]:
    """Body and headers of a tool call in an era."""
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    headers = {**HEADERS, "MCP-Protocol-Version": era}
    if era == "2026-07-28":
        params["_meta"] = ENVELOPE
        headers |= {"Mcp-Method": "tools/call", "Mcp-Name": tool}
    message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    return json.dumps(message).encode(), headers

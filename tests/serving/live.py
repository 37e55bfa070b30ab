"""The service on a port of loopback, as `codequarry serve` runs it."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import uvicorn

from codequarry.serving.http import Service, listen, uvicorn_config

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
    config = uvicorn_config(service, service.engine.settings)
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

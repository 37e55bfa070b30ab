"""Clients of a running service: `python -m benchmarks.server.service_clients WHAT PORT AMOUNT`.

They run in processes of their own, with the standard library alone and without garbage collection, so that pauses of a
large benchmark process are not counted as the server's. The probe of health has one to itself: beside 64 clients on one
event loop it would measure that loop.
"""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import sys
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

ERA = "2026-07-28"
CROWD, CLIENTS = 50, 64
_META = {
    "io.modelcontextprotocol/protocolVersion": ERA,
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
_HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@dataclass
class _Connection:
    """One keep-alive connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def to(cls, port: int) -> _Connection:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def call(self, tool: str, arguments: dict[str, Any]) -> str:
        """ "ok", or the code of the error."""
        return _code(await self.answer(tool, arguments))

    async def answer(self, tool: str, arguments: dict[str, Any]) -> bytes:
        """The body of the response."""
        self.writer.write(_request(tool, arguments))
        head = await self.reader.readuntil(b"\r\n\r\n")
        return await self.reader.readexactly(_length(head))


def _code(body: bytes) -> str:
    answer = json.loads(body)
    content = answer.get("result", {}).get("structuredContent", {"error": {"code": "protocol"}})
    return content.get("error", {}).get("code", "ok")


def _length(head: bytes) -> int:
    line = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
    return int(line.split(b":")[1])


def _request(tool: str, arguments: dict[str, Any]) -> bytes:
    params = {"name": tool, "arguments": arguments, "_meta": _META}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    return (
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json\r\n"
        f"MCP-Protocol-Version: {ERA}\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body


async def trivial(port: int, calls: int) -> int:
    """Call healthz so often, one after the other; how many failed."""
    connection = await _Connection.to(port)
    return sum([await connection.call("healthz", {}) != "ok" for _ in range(calls)])


async def crowds(port: int, times: int) -> list[float]:
    """The slowest BUSY in seconds of each crowd of searches sent at once; a crowd without any has none."""
    worst: list[float] = []
    for _ in range(times):
        connections = [await _Connection.to(port) for _ in range(CROWD)]
        answers: list[tuple[float, bytes]] = []

        async def ask(connection: _Connection, answers: list[tuple[float, bytes]] = answers) -> None:
            started = time.perf_counter()
            body = await connection.answer("search", {"query": "how are tools registered", "top_k": 50})
            answers.append((time.perf_counter() - started, body))

        await asyncio.gather(*map(ask, connections))
        for connection in connections:
            connection.writer.close()
        busy = [seconds for seconds, body in answers if _code(body) == "BUSY"]
        worst += [max(busy)] if busy else []
    return worst


async def load(port: int, seconds: float) -> dict[str, int]:
    """Count what clients that search without a pause got; "ok" or the code of an error."""
    answers: Counter[str] = Counter()
    until = time.monotonic() + seconds

    async def client(number: int) -> None:
        connection = await _Connection.to(port)
        while time.monotonic() < until:
            code = await connection.call("search", {"query": f"session {number} token refresh"})
            answers[code] += 1
            if code == "BUSY":
                await asyncio.sleep(0.05)

    await asyncio.gather(*map(client, range(CLIENTS)))
    return answers


def health(port: int, seconds: float) -> list[float]:
    """Seconds to each answer of /healthz, asked twenty times a second."""
    took: list[float] = []
    until = time.monotonic() + seconds
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rb") as answers:
        while time.monotonic() < until:
            started = time.perf_counter()
            connection.sendall(_HEALTH)
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += answers.readline()
            answers.read(_length(head))
            took.append(time.perf_counter() - started)
            assert head.startswith(b"HTTP/1.1 200 "), head
            time.sleep(0.05)
    return took


def main() -> None:
    """Do WHAT, and print what came of it as JSON."""
    gc.disable()
    what, port, amount = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    if what == "health":
        found: Any = health(port, amount)
    elif what == "load":
        found = asyncio.run(load(port, amount))
    else:
        found = asyncio.run({"trivial": trivial, "crowds": crowds}[what](port, int(amount)))
    print(json.dumps(found))


if __name__ == "__main__":
    main()

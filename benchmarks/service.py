"""The service: what a call and a fetch cost, how fast a crowd is turned away, and what 64 clients do to it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.corpus import CODEQUARRY, HOME, index
from benchmarks.report import Figure, at_most, percentile, print_figures
from codequarry.schemas.settings import ServingSettings
from codequarry.schemas.tools import FetchRequest, SearchRequest
from codequarry.serving.engine import Engine

CALLS, CROWD, CLIENTS, SECONDS = 500, 50, 64, 60.0
FETCHES, FETCHED = 200, 10
ERA = "2026-07-28"
_META = {
    "io.modelcontextprotocol/protocolVersion": ERA,
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
_PLACES = ("--port", "0")


def run() -> None:
    """Measure and print."""
    root, _, _ = index(HOME / "reindex")
    fetch = _fetch_ms(root)
    with subprocess.Popen(
        [*CODEQUARRY, "serve", *_PLACES, "--root", str(root)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as server:
        try:
            assert server.stderr is not None
            port = int(server.stderr.readline().split(b"127.0.0.1:")[1].split(b"/")[0])
            figures = asyncio.run(_measured(port, server.pid))
        finally:
            server.terminate()
    print_figures("Service over HTTP", [fetch, *figures])


def _fetch_ms(root: Path) -> Figure:
    """Of chunks of one search after another, so that texts are not the same ones again and again."""
    engine = Engine.open(root, ServingSettings())
    try:
        batches: list[list[str]] = []
        for word in ("session", "token", "schema", "client", "error", "path", "request", "stream", "cache", "tool"):
            found = engine.search(SearchRequest(query=word, top_k=50)).results
            batches += [
                [one.id for one in found[at : at + FETCHED]] for at in range(0, len(found) - FETCHED + 1, FETCHED)
            ]
        seconds: list[float] = []
        for number in range(FETCHES):
            request = FetchRequest(objectIds=batches[number % len(batches)], max_tokens=16_000)
            started = time.perf_counter()
            answer = engine.fetch(request)
            seconds.append(time.perf_counter() - started)
            assert len(answer.objects) == FETCHED
    finally:
        engine.close()
    return at_most(
        f"fetch of {FETCHED} chunks in process, p50 of {FETCHES}", 1e3 * percentile(seconds, 0.5), 4, "ms", 2
    )


async def _measured(port: int, pid: int) -> list[Figure]:
    await _Connection.to(port)
    healthz = await _cpu_ms(port, pid, "healthz", {})
    crowd = [await _crowd(port) for _ in range(5)]
    worst = [percentile(busy, 1.0) for busy in crowd if busy]
    before = _resident_mb(pid)
    load = await _load(port)
    return [
        at_most(f"CPU of a trivial tool, protocol included (mean of {CALLS})", healthz, 1.0, "ms", 2),
        at_most(
            f"slowest BUSY of {CROWD} searches at once (median of {len(worst)} crowds)",
            1e3 * percentile(worst, 0.5), 50, "ms",
        ),
        Figure(f"{CLIENTS} clients for {SECONDS:g} s", f"{load.answers['ok']} answers, {load.answers['BUSY']} BUSY"),
        at_most("other errors", sum(load.answers.values()) - load.answers["ok"] - load.answers["BUSY"], 0, "", 0),
        at_most("slowest /healthz meanwhile", 1e3 * max(load.health), 100, "ms"),
        at_most("growth of resident memory", _resident_mb(pid) - before, 20, "MB"),
    ]  # fmt: skip


@dataclass
class _Connection:
    """One keep-alive connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def to(cls, port: int) -> _Connection:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def send(self, request: bytes) -> bytes:
        """The body of the response."""
        self.writer.write(request)
        head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        length = next(line for line in head.split(b"\r\n") if line.startswith(b"content-length"))
        return await self.reader.readexactly(int(length.split(b":")[1]))

    async def call(self, tool: str, arguments: dict[str, Any]) -> str:
        """ "ok", or the code of the error."""
        answer = json.loads(await self.send(_request(tool, arguments)))
        content = answer.get("result", {}).get("structuredContent", {"error": {"code": "protocol"}})
        return content.get("error", {}).get("code", "ok")


def _request(tool: str, arguments: dict[str, Any]) -> bytes:
    params = {"name": tool, "arguments": arguments, "_meta": _META}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    return (
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json\r\n"
        f"MCP-Protocol-Version: {ERA}\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body


async def _cpu_ms(port: int, pid: int, tool: str, arguments: dict[str, Any]) -> float:
    connection = await _Connection.to(port)
    for _ in range(50):
        await connection.call(tool, arguments)
    before = _cpu_s(pid)
    for _ in range(CALLS):
        await connection.call(tool, arguments)
    return 1e3 * (_cpu_s(pid) - before) / CALLS


async def _crowd(port: int) -> list[float]:
    """Seconds to each BUSY of searches sent at once."""
    connections = [await _Connection.to(port) for _ in range(CROWD)]
    busy: list[float] = []

    async def ask(connection: _Connection) -> None:
        started = time.perf_counter()
        if await connection.call("search", {"query": "how are tools registered", "top_k": 50}) == "BUSY":
            busy.append(time.perf_counter() - started)

    await asyncio.gather(*map(ask, connections))
    for connection in connections:
        connection.writer.close()
    return busy


@dataclass
class _Load:
    answers: Counter[str] = field(default_factory=Counter)
    health: list[float] = field(default_factory=list)


async def _load(port: int) -> _Load:
    """Clients that search and fetch without a pause, and a probe beside them."""
    load, until = _Load(), time.monotonic() + SECONDS

    async def client(number: int) -> None:
        connection = await _Connection.to(port)
        while time.monotonic() < until:
            code = await connection.call("search", {"query": f"session {number} token refresh"})
            load.answers[code] += 1
            if code == "BUSY":
                await asyncio.sleep(0.05)

    async def probe() -> None:
        connection = await _Connection.to(port)
        while time.monotonic() < until:
            started = time.perf_counter()
            await connection.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            load.health.append(time.perf_counter() - started)
            await asyncio.sleep(0.1)

    await asyncio.gather(probe(), *(client(number) for number in range(CLIENTS)))
    return load


def _cpu_s(pid: int) -> float:
    """Seconds of CPU of all threads."""
    nanoseconds = (
        int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir()
    )  # fmt: skip
    return sum(nanoseconds) / 1e9


def _resident_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()[0]) / 1024


if __name__ == "__main__":
    run()

"""Cold start of the serving process over stdio: start, both handshake messages, first answer; and its memory."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.corpus import CODEQUARRY, HOME, index
from benchmarks.report import Figure, at_most, print_figures

RUNS = 5


def run() -> None:
    """Measure and print."""
    root, _, _ = index(HOME / "reindex")
    starts, memory = zip(*(_cold_start(root) for _ in range(RUNS)), strict=True)
    baseline = sorted(_seconds([sys.executable, "-c", "import fastmcp.server, mcp.server"]) for _ in range(RUNS))[
        RUNS // 2
    ]
    median = sorted(starts)[RUNS // 2]
    figures = [
        at_most(f"process start to first answer (median of {RUNS})", median, 2.5, "s", 2),
        Figure(
            "of which a bare `import fastmcp.server, mcp.server` takes",
            f"{baseline:.2f} s ({100 * baseline / median:.0f} %)",
        ),
        at_most("resident memory after the answers (largest)", max(memory), 250, "MB", 0),
    ]
    print_figures("Serving process", figures)


def _cold_start(root: Path) -> tuple[float, float]:
    """(seconds to the first answer, resident MB after a few more)."""
    started = time.perf_counter()
    command = [*CODEQUARRY, "serve", "--stdio", "--root", str(root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        try:
            info = {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "bench", "version": "1"},
            }
            _ask(server, 1, "initialize", info)
            _send(server, {"jsonrpc": "2.0", "method": "notifications/initialized"})
            answer = _search(server, 2, "how are tools registered")
            seconds = time.perf_counter() - started
            assert answer["result"]["structuredContent"]["results"], answer
            for n, query in enumerate(("session", "oauth token refresh", "middleware", "static files"), start=3):
                _search(server, n, query)
            return seconds, _resident_mb(server.pid)
        finally:
            server.terminate()


def _search(server: subprocess.Popen[bytes], number: int, query: str) -> dict[str, Any]:
    return _ask(server, number, "tools/call", {"name": "search", "arguments": {"query": query}})


def _ask(server: subprocess.Popen[bytes], number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    _send(server, {"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    assert server.stdout is not None
    for line in server.stdout:
        message = json.loads(line)
        if message.get("id") == number:
            return message
    raise SystemExit(f"the server ended without answering {method}")


def _send(server: subprocess.Popen[bytes], message: dict[str, Any]) -> None:
    assert server.stdin is not None
    server.stdin.write(json.dumps(message).encode() + b"\n")
    server.stdin.flush()


def _resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def _seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True)
    return time.perf_counter() - started


if __name__ == "__main__":
    run()

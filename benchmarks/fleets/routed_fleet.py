"""A router over two replicas of 32 bundles each, beside a server with all 64 and one bundle of the same repositories.

Every server is a process of its own and answers MCP over HTTP. The questions are those of
`benchmarks.fleets.served_fleet`.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import math
import os
import secrets
import shutil
import socket
import statistics
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.corpus import CODEQUARRY, HOME
from benchmarks.fleets.fleet_home import build_fleet, make_repositories, start, wait_for, write_settings
from benchmarks.fleets.served_fleet import PACKAGES, QUESTIONS_EACH, sentences_of
from benchmarks.report import Figure, at_most, print_figures
from benchmarks.server.service_clients import ERA

_TOKEN = secrets.token_hex()
"""Token of the router at the replicas, and of the caller everywhere."""
_ROUNDS = 2
"""Times that each question is asked; the first finds cold pages."""
_META = {
    "io.modelcontextprotocol/protocolVersion": ERA,
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
_HEADERS = {
    "Host": "localhost", "Content-Type": "application/json", "Accept": "application/json",
    "Authorization": f"Bearer {_TOKEN}", "MCP-Protocol-Version": ERA, "Mcp-Method": "tools/call",
}  # fmt: skip


def run() -> None:
    """Measure and print."""
    os.environ["CODEQUARRY_REPLICA_TOKEN"] = _TOKEN
    home = HOME / "routed_fleet"
    shutil.rmtree(home, ignore_errors=True)
    make_repositories(home, PACKAGES)
    digest = hashlib.sha256(_TOKEN.encode()).hexdigest()
    (home / "replica.toml").write_text(f'[auth]\ntokens = ["router:{digest}"]\nrouters = ["router"]\n')
    for kind, chunks in (("fleet", 1), ("single", 10_000_000)):
        write_settings(home, kind, PACKAGES, chunks)
        build_fleet(home, kind, "--full")
    questions = [one for package in PACKAGES for one in islice(sentences_of(package), QUESTIONS_EACH)]
    with ExitStack() as stack:
        one_bundle = stack.enter_context(_replica(home, "single", "1/1"))
        whole = stack.enter_context(_replica(home, "fleet", "1/1"))
        halves = [stack.enter_context(_replica(home, "fleet", share)) for share in ("1/2", "2/2")]
        router = stack.enter_context(_router(home, halves))
        single, served, routed = (_Asked(port, questions) for port in (one_bundle, whole, router))
        owner = {name: port for port in halves for name in _repositories(port)}
        direct, through = map(statistics.median, zip(*_filtered(owner, router, questions), strict=True))
    print_figures(
        f"a router over two replicas of {len(PACKAGES)} bundles, {len(questions)} questions over HTTP",
        [
            Figure("NDCG@10, one bundle", f"{single.ndcg:.3f}"),
            at_most("loss of NDCG@10, router", single.ndcg - routed.ndcg, 0.01, "", 3),
            at_most("loss of NDCG@10, one server with all bundles", single.ndcg - served.ndcg, 0.01, "", 3),
            Figure("p50, one bundle", f"{single.p50:.1f} ms"),
            Figure("p50, one server with all bundles", f"{served.p50:.1f} ms"),
            at_most("p50, router", routed.p50, 80, "ms"),
            Figure("p95, router", f"{routed.p95:.1f} ms"),
            Figure("p50 of one repository, asked of its replica", f"{direct:.1f} ms"),
            at_most("more through the router", through - direct, 3, "ms"),
        ],
    )


class _Asked:
    """Quality and times of a server."""

    def __init__(self, port: int, questions: Sequence[tuple[str, str]]) -> None:
        client = _Client(port)
        gains: list[float] = []
        times: list[float] = []
        for round_ in range(_ROUNDS):
            for query, uri in questions:
                taken, answer = client.call("search", {"query": query, "top_k": 10})
                if round_ == 0:
                    found = list(dict.fromkeys(one["metadata"]["uri"] for one in answer["results"]))
                    gains.append(1 / math.log2(2 + found.index(uri)) if uri in found else 0.0)
                else:
                    times.append(taken)
        self.ndcg, self.p50 = statistics.mean(gains), statistics.median(times)
        self.p95 = statistics.quantiles(times, n=20)[-1]


class _Client:
    """One connection that is kept."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port)

    def call(self, tool: str, arguments: dict[str, Any]) -> tuple[float, dict[str, Any]]:
        """Return milliseconds and the answer."""
        params = {"name": tool, "arguments": arguments, "_meta": _META}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        started = time.perf_counter()
        self._connection.request("POST", "/mcp", body, {**_HEADERS, "Mcp-Name": tool})
        raw = self._connection.getresponse().read()
        taken = 1000 * (time.perf_counter() - started)
        answer = json.loads(raw)["result"]["structuredContent"]
        if "error" in answer:
            raise SystemExit(f"a call of {tool} failed: {answer['error']}")
        return taken, answer


def _filtered(
    owner: Mapping[str, int], router: int, questions: Sequence[tuple[str, str]]
) -> Iterator[tuple[float, float]]:
    """Yield the milliseconds of searches in one repository: asked of its replica, and through the router.

    Each is asked first as often as the other, since the second of two equal searches finds warm pages.
    """
    clients = {port: _Client(port) for port in {*owner.values(), router}}
    for round_ in range(2 * _ROUNDS):
        for number, (query, uri) in enumerate(questions):
            repository = uri.partition("/")[0]
            given = {"query": query, "top_k": 10, "filters": {"repos": [repository]}}
            ports = [owner[repository], router]
            taken = {port: clients[port].call("search", given)[0] for port in ports[:: 1 - 2 * ((number + round_) % 2)]}
            if round_ >= _ROUNDS:
                yield taken[ports[0]], taken[ports[1]]


def _repositories(port: int) -> Iterator[str]:
    """Yield the names of the repositories of a replica."""
    _, described = _Client(port).call("describe_index", {})
    yield from (each["name"] for each in described["repositories"])


@contextmanager
def _replica(home: Path, kind: str, share: str) -> Iterator[int]:
    """Serve a share of a fleet; yields the port."""
    root = home / f"replica-{kind}-{share.replace('/', '-')}"
    pull = ["fleet", "pull", "--root", str(root), "--share", share, "--settings", f"{kind}.toml"]
    if start([*CODEQUARRY, *pull], home).wait():
        raise SystemExit(f"the replica could not pull share {share} of {kind}")
    with _server(home, ["serve", "--fleet", str(root)]) as port:
        yield port


@contextmanager
def _router(home: Path, replicas: Sequence[int]) -> Iterator[int]:
    with _server(
        home, ["route", *(word for port in replicas for word in ("--replica", f"http://127.0.0.1:{port}"))]
    ) as port:
        yield port


@contextmanager
def _server(home: Path, words: Sequence[str]) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with start([*CODEQUARRY, *words, "--port", str(port), "--settings", "replica.toml"], home) as process:
        try:
            wait_for(lambda: _is_up(port))
            yield port
        finally:
            process.terminate()


def _is_up(port: int) -> bool:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/healthz", headers={"Authorization": f"Bearer {_TOKEN}"})
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return json.load(answer)["status"] == "ok"
    except OSError:
        return False


if __name__ == "__main__":
    run()

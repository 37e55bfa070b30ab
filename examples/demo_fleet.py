"""A fleet on one machine: an object store, three nodes of Ray, four bundles of twelve repositories, replicas, a router.

Run it with ``make demo-fleet``. It builds the fleet, asks the router over two replicas with half of the bundles each,
pushes a commit, kills a replica, and rolls back. All that it starts ends with it, and its folder goes.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
from fastmcp import Client

from tests.pipelines.compute.ray_nodes import RayNodes
from tests.pipelines.publish.remote.servers import BUCKET, KEY, SECRET, free_ports, seaweed
from tests.pipelines.repositories import commit

CODEQUARRY = [sys.executable, "-P", "-m", "codequarry.pipelines.cli"]
TOKEN = secrets.token_hex()
"""Token of the router at the replicas, and of the caller at the router."""
NAMES = ("ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen", "ibis", "jay", "koi", "lynx")
PATIENCE_S = 90.0


def main() -> None:
    """Build, serve, push, query, kill a replica, roll back."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started ends then too
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="demo-fleet-")))
        (home / "objects").mkdir()
        port = stack.enter_context(seaweed(home / "objects"))
        print(f"== SeaweedFS speaks S3 at port {port}", flush=True)
        os.environ |= {  # before the nodes start, which push and so need the credentials too
            "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "CODEQUARRY_REPLICA_TOKEN": TOKEN,
        }  # fmt: skip
        nodes = stack.enter_context(RayNodes(3))
        print(f"== three nodes of Ray: {', '.join(nodes.addresses)}", flush=True)
        os.environ |= nodes.environment
        _write_repositories(home, nodes.address)
        _run(home, "build")
        replicas = [Replica(stack, home, name, share) for name, share in (("first", "1/2"), ("second", "2/2"))]
        router = Router(stack, home, replicas)
        router.ask("how is a value of the lynx settled", "lynx/lynx.py")
        print("\n== a push to lynx: one bundle is built, both replicas go over", flush=True)
        _save(home, "lynx", "refund_quickly")
        _run(home, "build")
        for replica in replicas:
            replica.wait_for_generation(2)
        router.ask("refund quickly", "lynx/lynx.py")
        print("\n== the first replica is killed; the router says what is missing", flush=True)
        replicas[0].kill()
        router.ask("refund quickly", "lynx/lynx.py")
        print("\n== rollback", flush=True)
        _run(home, "rollback")
        replicas[1].wait_for_generation(3)
        router.ask("settle a value of the lynx", "lynx/lynx.py")
        _run(home, "status")


class Replica:
    """A folder that follows a share of the fleet, and a server over it."""

    def __init__(self, stack: ExitStack, home: Path, name: str, share: str) -> None:
        self._name, self._root, port = name, home / name, free_ports(1)[0]
        self.url = f"http://127.0.0.1:{port}"
        held = ["--root", str(self._root), "--share", share]
        _run(home, "pull", *held)
        follow = ["fleet", "follow", *held, "--settings", "fleet.toml"]
        serve = ["serve", "--fleet", str(self._root), "--port", str(port), "--settings", "replica.toml"]
        self._running = [stack.enter_context(_Program(home, name, words)) for words in (follow, serve)]
        _wait(lambda: _is_up(self.url), f"replica {name} answers")

    def wait_for_generation(self, number: int) -> None:
        """Wait until the folder holds a generation."""
        file = self._root / "fleet.json"
        _wait(lambda: f'"generation": {number}' in file.read_text(), f"replica {self._name} has generation {number}")

    def kill(self) -> None:
        """Kill its processes."""
        for each in self._running:
            each.kill()


class Router:
    """The one address that callers ask."""

    def __init__(self, stack: ExitStack, home: Path, replicas: list[Replica]) -> None:
        port = free_ports(1)[0]
        self._url = f"http://127.0.0.1:{port}"
        named = [word for replica in replicas for word in ("--replica", replica.url)]
        words = ["route", *named, "--port", str(port), "--settings", "replica.toml"]
        stack.enter_context(_Program(home, "router", words))
        _wait(lambda: _is_up(self._url), "the router answers")

    def ask(self, query: str, expected: str) -> None:
        """Search until the best result is in a file, and print what came and what is missing."""
        answers: list[dict[str, Any]] = []

        def is_found() -> bool:
            answers.append(asyncio.run(self._ask(query)))
            return any(one["title"].startswith(expected) for one in answers[-1]["results"])

        _wait(is_found, f"{query!r} is answered by {expected}")
        for note in answers[-1].get("limits", []):
            if "missing" in note:
                print(f"    {note}", flush=True)

    async def _ask(self, query: str) -> dict[str, Any]:
        async with Client(f"{self._url}/mcp", auth=TOKEN) as client:
            answer = (await client.call_tool("search", {"query": query, "top_k": 1})).structured_content
        assert answer is not None
        return answer


def _is_up(url: str) -> bool:
    return httpx2.get(f"{url}/healthz").status_code < 500


def _wait(is_so: Callable[[], bool], what: str) -> None:
    """Wait until something is so, and say it."""
    ends = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends:
        try:
            if is_so():
                print(f"  {what}", flush=True)
                return
        except (httpx2.HTTPError, FileNotFoundError):
            pass
        time.sleep(0.2)
    raise SystemExit(f"within {PATIENCE_S:g} s it was not so that {what}")


class _Program:
    """A process in the background that ends with the block."""

    def __init__(self, home: Path, name: str, words: list[str]) -> None:
        self._log = (home / f"{name}-{words[0]}.log").open("wb")
        self._process = subprocess.Popen([*CODEQUARRY, *words], cwd=home, stdout=self._log, stderr=self._log)

    def __enter__(self) -> _Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._log.close()

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()
        self._process.wait()


def _write_repositories(home: Path, address: str) -> None:
    for name in NAMES:
        _save(home, name, "settle")
    listed = ", ".join(f'{{ url = "file://{home}/{name}", name = "{name}" }}' for name in NAMES)
    (home / "fleet.toml").write_text(
        f'[sources]\nrepositories = [{listed}]\n[retrieval]\nenabled = false\n[fleet]\nurl = "s3://{BUCKET}/demo"\n'
        f'bundle_chunks = 3\nbundle_chunks_max = 12\n[compute]\nengine = "ray"\naddress = "{address}"\n'
        f'node_folder = "{home}/nodes"\n'
    )
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    (home / "replica.toml").write_text(f'[auth]\ntokens = ["router:{digest}"]\nrouters = ["router"]\n')


def _save(home: Path, name: str, word: str) -> None:
    head = f"def {word}_{name}(value: int) -> int:"
    code = f'{head}\n    """{word.capitalize()} a value of the {name}."""\n    return value\n'
    commit(home / name, {f"{name}.py": code})


def _run(home: Path, *words: str) -> None:
    print(f"\n$ codequarry fleet {' '.join(words)}", flush=True)
    started = time.perf_counter()
    subprocess.run([*CODEQUARRY, "fleet", *words, "--settings", "fleet.toml"], cwd=home, check=True)
    print(f"  ({time.perf_counter() - started:.1f} s)", flush=True)


if __name__ == "__main__":
    main()

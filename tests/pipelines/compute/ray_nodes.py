"""Nodes of Ray on this machine, each with a loopback address of its own; all end with the block."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

_PATIENCE_S = 120.0
_MB = 1_000_000


class RayNodes:
    """A cluster: the first node is its head, on which this process is a driver.

    Args:
        count: Number of nodes.
        cpus: Cores that each says it has.
    """

    def __init__(self, count: int, cpus: int = 1) -> None:
        self._count, self._cpus = count, cpus
        self._sessions = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # paths of sockets must be short
        self.environment = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(16)}
        """What the nodes and their drivers need, else a node may ask for a token that others lack."""
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"

    def __enter__(self) -> Self:
        try:
            for number in range(1, self._count + 1):
                self._start(f"127.0.0.{number}")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for ip in reversed(list(self._running)):
            self.kill(ip)
        shutil.rmtree(self._sessions, ignore_errors=True)

    @property
    def addresses(self) -> list[str]:
        """Addresses of the nodes that run, the head's first."""
        return list(self._running)

    def kill(self, ip: str) -> None:
        """Kill a node with all its processes, as when its machine loses power."""
        process = self._running.pop(ip)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _start(self, ip: str) -> None:
        head = not self._running
        port = self.address.partition(":")[2]
        place = ["--head", f"--port={port}", f"--temp-dir={self._sessions}", "--include-dashboard=false"]
        log = Path(self._sessions) / f"{ip}.log"
        with log.open("wb") as output:
            self._running[ip] = subprocess.Popen(
                [
                    sys.executable, "-P", "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats",
                    f"--node-ip-address={ip}", f"--num-cpus={self._cpus}",
                    f"--memory={2_000 * _MB}", f"--object-store-memory={100 * _MB}",
                    *(place if head else ["--address", self.address]),
                ],
                cwd=self._sessions, env={**os.environ, **self.environment}, stdin=subprocess.DEVNULL, stdout=output,
                stderr=output, start_new_session=True,
            )  # fmt: skip
        until = time.monotonic() + _PATIENCE_S
        while b"Ray runtime started" not in log.read_bytes():
            if self._running[ip].poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"node {ip} did not start:\n{log.read_text(errors='replace')}")
            time.sleep(0.1)

"""The only place where git is started: it runs no program that a repository or a remote brings along.

A repository's own configuration may name programs (CVE-2025-68144 and similar): hooks, fsmonitor, pagers and prompts
are off. The environment names the one transport that may be used, because a setting on the command line would lose
against ``protocol.ext.allow`` in the repository's own configuration.
"""

from __future__ import annotations

import os
import select
import selectors
import subprocess
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from codequarry.pipelines.store.processes import start_group, stop_group
from codequarry.schemas.errors import SourceError, SourceLimitError
from codequarry.schemas.trust.programs import find_program, safe_path

_SAFE = (
    "--no-optional-locks",
    "--no-pager",
    "-c", "core.fsmonitor=false",
    "-c", "core.hooksPath=/dev/null",
    "-c", "core.untrackedCache=false",
    "-c", "protocol.allow=never",
    "-c", "safe.directory=*",
)  # fmt: skip
NO_PROTOCOL = "none"
LOCAL_TIMEOUT_S = 120.0
OUTPUT_BYTES = 64 << 20
"""Limit of output that is read whole; what may be longer is streamed."""
_BLOCK = 1 << 16
_COMPLAINT_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class GitResult:
    """Result of a git command."""

    done: bool
    output: bytes
    complaint: str
    """Text of standard error."""


def run_git(
    folder: Path,
    *arguments: str,
    protocol: str = NO_PROTOCOL,
    settings: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
    data: bytes = b"",
) -> GitResult:
    """Run git in a folder, without a terminal, for output that fits into memory.

    Whatever is raised, git and the programs it started have ended.

    Args:
        folder: Folder that git runs in.
        *arguments: Git command and its options.
        protocol: The only transport git may use.
        settings: Further git settings; they travel in the environment, which other users cannot list.
        timeout_s: Seconds git may take; LOCAL_TIMEOUT_S when None.
        data: Bytes of its standard input.

    Returns:
        Exit and output of git.

    Raises:
        SourceError: Git is not installed.
        TimeoutError: Git took too long.
        SourceLimitError: Git wrote more than OUTPUT_BYTES.
    """
    process = start_git(folder, *arguments, protocol=protocol, settings=settings)
    blocks: list[bytes] = []
    size = 0
    with _running(process):
        exchange = Exchange(process, data, LOCAL_TIMEOUT_S if timeout_s is None else timeout_s)
        for block in exchange.blocks():
            size += len(block)
            if size > OUTPUT_BYTES:
                raise SourceLimitError(
                    f"git {arguments[0]} in {folder} wrote more than {OUTPUT_BYTES:,} bytes", limit=""
                )
            blocks.append(block)
        return exchange.outcome(b"".join(blocks))


def stream_git(
    folder: Path, *arguments: str, timeout_s: float, data: bytes = b"", settings: Mapping[str, str] | None = None
) -> Generator[bytes, None, GitResult]:
    """Run git in a folder and yield its output block by block.

    Git and the programs it started have ended when the generator ends or is closed.

    Args:
        folder: Folder that git runs in.
        *arguments: Git command and its options.
        timeout_s: Seconds git may take.
        data: Bytes of its standard input.
        settings: Further git settings; they travel in the environment.

    Returns:
        The outcome, without the output, as the generator's value.

    Raises:
        SourceError: Git is not installed.
        TimeoutError: Git took too long.
    """
    process = start_git(folder, *arguments, settings=settings)
    with _running(process):
        exchange = Exchange(process, data, timeout_s)
        yield from exchange.blocks()
        return exchange.outcome(b"")


class Exchange:
    """Input and output of a running git, within a time limit."""

    def __init__(self, process: subprocess.Popen[bytes], data: bytes, timeout_s: float) -> None:
        self._process = process
        self._data = memoryview(data)
        self._ends = time.monotonic() + timeout_s
        self._complaint = b""

    def blocks(self) -> Iterator[bytes]:
        """Yield standard output as it comes.

        Yields:
            Blocks of bytes.

        Raises:
            TimeoutError: Git took too long.
        """
        process = self._process
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        with selectors.DefaultSelector() as selector:
            for stream in (process.stdout, process.stderr):
                selector.register(stream, selectors.EVENT_READ)
            if self._data:
                os.set_blocking(process.stdin.fileno(), False)
                selector.register(process.stdin, selectors.EVENT_WRITE)
            else:
                process.stdin.close()
            while selector.get_map():
                for key, _ in selector.select(self._seconds_left()):
                    if key.fileobj is process.stdin:
                        self._write(selector)
                    elif not (block := os.read(key.fd, _BLOCK)):
                        selector.unregister(key.fileobj)
                    elif key.fileobj is process.stdout:
                        yield block
                    else:
                        self._complaint = (self._complaint + block)[:_COMPLAINT_BYTES]
                self._seconds_left()

    def outcome(self, output: bytes) -> GitResult:
        """Wait for git to end, after its output has ended.

        Args:
            output: Output to put into the outcome.

        Returns:
            Exit, output and complaint of git.

        Raises:
            TimeoutError: Git took too long.
        """
        try:
            status = self._process.wait(self._seconds_left())
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        return GitResult(status == 0, output, self._complaint.decode("utf-8", "replace").strip())

    def _seconds_left(self) -> float:
        left = self._ends - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def _write(self, selector: selectors.BaseSelector) -> None:
        stream = self._process.stdin
        assert stream is not None
        try:
            self._data = self._data[os.write(stream.fileno(), self._data[: select.PIPE_BUF]) :]
        except BrokenPipeError:  # it wants no more
            self._data = self._data[:0]
        if not self._data:
            selector.unregister(stream)
            stream.close()


def start_git(
    folder: Path, *arguments: str, protocol: str = NO_PROTOCOL, settings: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start git with pipes for its streams, in a session of its own.

    Args:
        folder: Folder that git runs in.
        *arguments: Git command and its options.
        protocol: The only transport git may use.
        settings: Further git settings; they travel in the environment.

    Returns:
        The running process.

    Raises:
        SourceError: Git is not installed.
    """
    program = find_program("git", [folder])
    if program is None:
        raise SourceError("git is not installed", suggestion="install git and make sure it is on PATH")
    try:
        return start_group(
            lambda: subprocess.Popen(
                [os.fspath(program), *_SAFE, "-C", os.fspath(folder), *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=_environment(folder, protocol, settings or {}),
                start_new_session=True,
            )
        )
    except FileNotFoundError:
        raise SourceError("git is not installed", suggestion="install git and make sure it is on PATH") from None


def stop_git(process: subprocess.Popen[bytes]) -> None:
    """End git and the helper programs it started, if they still run."""
    stop_group(process)


@contextmanager
def _running(process: subprocess.Popen[bytes]) -> Iterator[None]:
    with process:
        try:
            yield
        finally:
            stop_git(process)


def _environment(folder: Path, protocol: str, settings: Mapping[str, str]) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {
        "PATH": safe_path([folder]),  # git looks there for ssh and its helpers
        "GIT_ALLOW_PROTOCOL": protocol,
        "GIT_ASKPASS": "",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
        "SSH_ASKPASS_REQUIRE": "never",
    }
    environment["GIT_CONFIG_COUNT"] = str(len(settings))
    for n, (key, value) in enumerate(settings.items()):
        environment |= {f"GIT_CONFIG_KEY_{n}": key, f"GIT_CONFIG_VALUE_{n}": value}
    return environment

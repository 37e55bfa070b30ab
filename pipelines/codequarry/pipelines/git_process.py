"""The one way git is started: nothing of what a repository or a remote brings along runs.

A repository's own configuration is somebody else's program (CVE-2025-68144 and its kin): hooks, fsmonitor, pagers and
prompts are off, and the environment names the one transport that may be used, because a setting on the command line
would lose against ``protocol.ext.allow`` in the repository's own configuration.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from codequarry.schemas.errors import SourceError

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


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a git command ended."""

    done: bool
    output: bytes
    complaint: str
    """What it said on standard error."""


def run_git(
    folder: Path,
    *arguments: str,
    protocol: str = NO_PROTOCOL,
    settings: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
    data: bytes = b"",
) -> Outcome:
    """Run git in a folder, without a terminal.

    protocol: the only transport git may use.
    settings: further git settings; they travel in the environment, which other users cannot list.
    timeout_s: LOCAL_TIMEOUT_S when None.
    data: what it reads from its standard input.

    Raises SourceError: git is not installed. TimeoutError: it took too long; it and what it started are gone.
    """
    process = start_git(folder, *arguments, protocol=protocol, settings=settings or {})
    with process:
        try:
            output, complaint = process.communicate(data, timeout=LOCAL_TIMEOUT_S if timeout_s is None else timeout_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"git {arguments[0]} did not finish") from None
        finally:
            stop_git(process)
    return Outcome(process.returncode == 0, output, complaint.decode("utf-8", "replace").strip())


def start_git(
    folder: Path, *arguments: str, protocol: str = NO_PROTOCOL, settings: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """A running git with pipes to talk to, in a session of its own. Raises SourceError: git is not installed."""
    try:
        return subprocess.Popen(
            ["git", *_SAFE, "-C", os.fspath(folder), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_environment(protocol, settings or {}),
            start_new_session=True,
        )
    except FileNotFoundError:
        raise SourceError("git is not installed", suggestion="install git and make sure it is on PATH") from None


def stop_git(process: subprocess.Popen[bytes]) -> None:
    """End git and the helpers it started, if they still run."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


def _environment(protocol: str, settings: Mapping[str, str]) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {
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

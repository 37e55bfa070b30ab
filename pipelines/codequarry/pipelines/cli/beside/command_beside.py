"""A command in a process of its own beside a server, which ends with the server.

The serving layer starts no process and writes nothing; the command line, which is of this layer, does. The command
reads a pipe from the server. It closes however the server ends, even by SIGKILL, and the command ends then.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from codequarry.pipelines.store.processes import start_group, stop_group
from codequarry.schemas.errors import UnavailableError

StdinOption = Annotated[
    bool, typer.Option("--until-stdin-closes", help="End when standard input ends: for programs that start this one.")
]
_LOOK_S = 0.1
_END_S = 5.0


@contextmanager
def command_beside(
    arguments: Sequence[str], folder: Path, *, ready: Callable[[], bool], unready: str, goes_on: str
) -> Iterator[None]:
    """Run a command for the block; its lines go to standard error.

    A command that ends leaves the block alone, and one line says so.

    Args:
        arguments: The command without ``codequarry``; it knows ``--until-stdin-closes``, which is added.
        folder: Folder to run it in.
        ready: Tells whether the block may begin.
        unready: What is so when the command ends before that, for the message.
        goes_on: What the server does after it ended, for the message.

    Yields:
        Nothing.

    Raises:
        UnavailableError: The command ended before the block could begin.
    """
    process = start_group(lambda: _start(arguments, folder))
    ending = threading.Event()
    try:
        while not ready():
            if process.poll() is not None:
                raise UnavailableError(unready, suggestion="its last lines above say why")
            time.sleep(_LOOK_S)
        report = (process, ending, f"`codequarry {arguments[0]}`", goes_on)
        threading.Thread(target=_report_end, args=report, name=arguments[0], daemon=True).start()
        yield
    finally:
        ending.set()
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
        stop_group(process)


def end_with_stdin() -> None:
    """End this process by SIGTERM, from a thread of its own, when whoever started it has ended."""
    threading.Thread(target=_wait_for_stdin, name="stdin", daemon=True).start()


def _wait_for_stdin() -> None:
    with suppress(OSError):
        while os.read(0, 1 << 12):
            pass
    os.kill(os.getpid(), signal.SIGTERM)


def _start(arguments: Sequence[str], folder: Path) -> subprocess.Popen[bytes]:
    # -P: a repository's folder must not be where Python looks for modules.
    command = [sys.executable, "-P", "-m", "codequarry.pipelines.cli", *arguments, "--until-stdin-closes"]
    return subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=sys.__stderr__, start_new_session=True)


def _report_end(process: subprocess.Popen[bytes], ending: threading.Event, name: str, goes_on: str) -> None:
    code = process.wait()
    if not ending.is_set():
        typer.echo(f"{name} ended with exit code {code}: {goes_on}", err=True)

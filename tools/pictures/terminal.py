"""Commands in a terminal of a given width, as a person sees them."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import NamedTuple

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]")
_MOVE = re.compile(r"\x1b\[[0-9;?]*[A-Zac-ln-z]|\x1b[()][A-Z0-9]")
"""Control sequences but those of colours, which end with m."""
_ROWS = 50


class Screen(NamedTuple):
    """Lines that a command left on the terminal."""

    code: int
    lines: list[str]
    """Lines without colours; of a line that was written over, what stood there last."""
    coloured: list[str]
    """The same with the sequences that colour them."""


def run_in_terminal(arguments: list[str], folder: Path, columns: int, pager: str = "cat") -> Screen:
    """Run ``codequarry`` in a terminal of its own.

    Args:
        arguments: The command and its arguments.
        folder: The working folder.
        columns: Width of the terminal, which has 50 rows.
        pager: The program that shows what is longer than the screen.

    Returns:
        What is on the screen at the end.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "PAGER": pager}
    for name in ("COLUMNS", "LINES", "NO_COLOR"):
        environment.pop(name, None)
    process = subprocess.Popen(
        [sys.executable, "-m", "codequarry.pipelines.cli", *arguments],
        cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, env=environment,
    )  # fmt: skip
    os.close(theirs)
    received = b""
    while True:
        try:
            piece = os.read(ours, 65_536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        received += piece
    os.close(ours)
    text = received.decode()
    return Screen(process.wait(), _last_written(_CONTROL.sub("", text)), _last_written(_MOVE.sub("", text)))


def _last_written(text: str) -> list[str]:
    return [line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n")]

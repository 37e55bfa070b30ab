"""Answers longer than the screen go through a pager, as git's do."""

from __future__ import annotations

import io
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, cast

from codequarry.pipelines.cli.command_groups import GROUPS

PAGED = frozenset((*GROUPS["Search"], "settings", "tools", "versions", "verdict", "usage")) - {"open"}
"""Commands whose answers are read, and which show no progress while they work."""
_USUAL = "less"
_LESS_OPTIONS = "FRX"
"""Options for less where the user has set none: end at once for one screen, pass colours, leave the text there."""


@contextmanager
def paged_output() -> Iterator[None]:
    """Send what is printed within the block to the terminal, or to the pager once it is longer than the screen.

    Notes on standard error keep their place among the lines, as long as it is the terminal, too. Nothing changes where
    standard output is no terminal, or ``PAGER`` is empty or ``cat``.
    """
    pager = _pager_command(os.environ.get("PAGER", _USUAL))
    can_page = sys.stdout.isatty() and hasattr(sys.stdout, "buffer")  # what replaces it in a process may have no bytes
    if not can_page or pager in ([], ["cat"]) or shutil.which(pager[0]) is None:
        yield
        return
    out, err = sys.stdout, sys.stderr
    pages = _Pages(out.buffer, pager, rows=shutil.get_terminal_size().lines - 1)
    binary = cast(BinaryIO, pages)  # no name and no mode, which nobody asks for
    sys.stdout = io.TextIOWrapper(binary, encoding=out.encoding, errors=out.errors, write_through=True)
    if err.isatty():
        sys.stderr = io.TextIOWrapper(binary, encoding=err.encoding, errors=err.errors, write_through=True)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = out, err
        pages.finish()


def _pager_command(text: str) -> list[str]:
    """Return the words of a pager's command, which the shell reads where it has more than words; none if malformed."""
    if set(text) & set("|&;<>()$`"):
        return ["sh", "-c", text]
    with suppress(ValueError):
        return shlex.split(text)
    return []


class _Pages(io.BufferedIOBase):
    """Binary stream that holds back one screen of text, and starts the pager when there is more."""

    def __init__(self, terminal: BinaryIO, pager: list[str], rows: int) -> None:
        """Hold text back for a terminal.

        Args:
            terminal: The stream that the terminal shows.
            pager: The program and its arguments.
            rows: Lines that fit on the screen.
        """
        self._terminal = terminal
        self._pager = pager
        self._rows = rows
        self._held = bytearray()
        self._running: subprocess.Popen[bytes] | None = None
        self._on_interrupt: Any = None

    def writable(self) -> bool:
        """Tell that the stream can be written to."""
        return True

    def isatty(self) -> bool:
        """Tell that a person reads the stream: the pager passes colours on."""
        return True

    def fileno(self) -> int:
        """Return the terminal's descriptor, of which the width is asked."""
        return self._terminal.fileno()

    def write(self, data: bytes | bytearray | memoryview) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Hold the data back, or pass it on to the pager when there is more than a screen of it."""
        self._held += data
        if self._running is None and self._held.count(b"\n") > self._rows:
            environment = {"LESS": _LESS_OPTIONS, **os.environ}
            self._running = subprocess.Popen(self._pager, stdin=subprocess.PIPE, env=environment)
            # Ctrl-C is the pager's from here on: it must not cut the answer short.
            self._on_interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
        if self._running is not None:
            self._pass_on(self._running)
        return len(data)

    def finish(self) -> None:
        """Print what was held back, or wait until the user leaves the pager."""
        if self._running is None:
            self._terminal.write(self._held)
            self._terminal.flush()
            return
        assert self._running.stdin is not None  # a pipe was asked for
        with suppress(BrokenPipeError):  # the user has left the pager
            self._running.stdin.close()
        self._running.wait()
        signal.signal(signal.SIGINT, self._on_interrupt)

    def _pass_on(self, pager: subprocess.Popen[bytes]) -> None:
        assert pager.stdin is not None  # a pipe was asked for
        with suppress(BrokenPipeError):  # the user has left the pager; what follows is not wanted
            pager.stdin.write(self._held)
            pager.stdin.flush()
        self._held.clear()

"""MCP over stdin and stdout, where every line that needs an answer gets one."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from io import TextIOWrapper
from typing import Any, cast

import anyio
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from codequarry.serving.server.json_rpc import line_refusal

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AGAIN_S = 0.05


def close_before_ending(close: Callable[[], object]) -> None:
    """Call ``close`` when a signal tells the process to end, and end by that signal afterwards.

    The client reads how the process ended, and a second signal ends it at once. Closing happens on a thread of its own:
    the main thread may hold a lock that ``close`` needs, and a read of stdin cannot be cancelled. That thread runs from
    the start: the signal may come while the main thread starts another one, and holds the lock for that.

    It learns of the signal from a pipe that Python writes to at once. The handler runs only when the main thread runs,
    and that would sleep on when the signal came just before it began to wait.

    Args:
        close: Writes what is left to write; returns within seconds.
    """

    heard, told = os.pipe()
    os.set_blocking(told, False)
    main = threading.main_thread().ident
    assert main is not None

    def close_and_end() -> None:
        while (number := os.read(heard, 1)[0]) not in _ENDING:
            pass
        try:
            close()
        finally:
            while True:  # the first wakes the main thread where it has not run the handler, and a later one ends it
                signal.pthread_kill(main, number)
                time.sleep(_AGAIN_S)

    def end(_: int, __: object) -> None:
        for ending in _ENDING:
            signal.signal(ending, signal.SIG_DFL)

    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    threading.Thread(target=close_and_end, name="closing", daemon=True).start()
    for ending in _ENDING:
        if ending == signal.SIGHUP and signal.getsignal(ending) == signal.SIG_IGN:
            continue  # started with nohup
        signal.signal(ending, end)


@asynccontextmanager
async def answering_stdio() -> AsyncIterator[tuple[Any, Any]]:
    """Open the protocol's streams for reading and writing.

    The protocol drops unreadable lines, and their senders would wait for ever; here they get a JSON-RPC error.
    """
    text = TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="replace")
    lines = _AnsweredLines(anyio.wrap_file(text))
    async with stdio_server(stdin=cast("anyio.AsyncFile[str]", lines)) as (read_stream, write_stream):
        lines.answers = write_stream
        yield read_stream, write_stream


class _AnsweredLines:
    """Input lines for the protocol, which reads them only after `answers` is set."""

    def __init__(self, lines: anyio.AsyncFile[str]) -> None:
        self._lines = lines
        self.answers: Any = None

    async def __aiter__(self) -> AsyncIterator[str]:
        async for line in self._lines:
            if not line.strip():
                continue
            refusal = line_refusal(line)
            if refusal is None:
                yield line
            else:
                await self.answers.send(SessionMessage(refusal))

"""Process that does units of work for another one, see `unit_processes`.

A thread reads the requests: when they end, because the other process has ended, however that happened, this one ends at
once, in the middle of its work, and with it what it started.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable
from importlib import import_module
from typing import Any, BinaryIO

from codequarry.pipelines.compute.unit_errors import describe_error
from codequarry.pipelines.store.processes import end_for_good
from codequarry.schemas.resources import collect_seldom, return_freed_memory

_SHOW_EVERY_S = 0.2
"""Seconds between two lines about the progress of one piece of work."""


def _read_requests(requests: queue.SimpleQueue[bytes]) -> None:
    """Read requests ahead until the input ends, and end the process then."""
    for line in sys.stdin.buffer:
        requests.put(line)
    end_for_good()
    os._exit(0)


class _AnswerLines:
    """Lines that the other process reads."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._shown: dict[str, float] = {}

    def write(self, line: list[Any]) -> None:
        """Write a line at once."""
        with self._lock:
            self._stream.write(json.dumps(line).encode() + b"\n")
            self._stream.flush()

    def show(self, what: str, done: int, total: int) -> None:
        """Tell the progress of a piece of work; a `Progress`."""
        now = time.monotonic()
        if done == total or now - self._shown.get(what, 0.0) >= _SHOW_EVERY_S:
            self._shown[what] = now
            self.write([what, done, total, None])


class _UnitInUse:
    """The function that was asked for last, and the value that it gets with every item."""

    def __init__(self) -> None:
        self._name = ""
        self._function: Callable[..., Any] = print
        self.common: Any = None

    def load(self, name: str) -> Callable[..., Any]:
        """Return a function by its module and name."""
        if name != self._name:
            module, _, function = name.partition(":")
            self._function, self._name = getattr(import_module(module), function), name
        return self._function


def _answer(request: dict[str, Any], unit: _UnitInUse, answers: _AnswerLines) -> None:
    if "common" in request:
        unit.common = request["common"]
        return
    result = error = None
    try:
        function = unit.load(request["unit"])
        item = request["item"]
        result = function(unit.common, item, answers.show) if request["told"] else function(item)
    except BaseException as raised:  # noqa: BLE001 - the other process raises it; a panic in Rust is no Exception
        error = describe_error(raised, traceback.format_exc())
    answers.write([request["number"], result, error])


def main() -> None:
    """Answer requests; what libraries print goes to standard error."""
    stream = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    collect_seldom()
    return_freed_memory()
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read_requests, args=(requests,), daemon=True).start()
    unit, answers = _UnitInUse(), _AnswerLines(stream)
    while True:
        _answer(json.loads(requests.get()), unit, answers)


if __name__ == "__main__":
    main()

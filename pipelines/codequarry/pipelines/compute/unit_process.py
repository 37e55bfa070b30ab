"""Process that does units of work for another one, see `work_units`.

A thread reads the requests: when they end, because the other process has ended, however that happened, this one ends at
once, in the middle of its work.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import traceback
from importlib import import_module

from codequarry.pipelines.compute.work_units import describe_error
from codequarry.schemas.resources import collect_seldom


def _read_requests(requests: queue.SimpleQueue[bytes]) -> None:
    """Read requests ahead until the input ends, and end the process then."""
    for line in sys.stdin.buffer:
        requests.put(line)
    os._exit(0)


def _answer(request: bytes) -> bytes:
    name, number, item = json.loads(request)
    result = error = None
    try:
        module, _, function = name.partition(":")
        result = getattr(import_module(module), function)(item)
    except BaseException as raised:  # noqa: BLE001 - the other process raises it; a panic in Rust is no Exception
        error = describe_error(raised, traceback.format_exc())
    return json.dumps([number, result, error]).encode() + b"\n"


def main() -> None:
    """Answer requests; what libraries print goes to standard error."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    collect_seldom()
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read_requests, args=(requests,), daemon=True).start()
    while True:
        answers.write(_answer(requests.get()))
        answers.flush()


if __name__ == "__main__":
    main()

"""Every call of a publish that changes the disk, seen and tampered with from inside the process.

The publisher is plain Python: `test_strace.py` compares what is seen here with what the kernel saw.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CALLS = ("open", "write", "fsync", "rename", "replace", "link", "unlink", "rmdir", "mkdir")
_TAKES_DESCRIPTOR = ("write", "fsync")
_TAKES_TWO = ("rename", "replace", "link")
_opened: dict[int, str] = {}
"""What descriptors were opened by, for systems without /proc."""


@dataclass(frozen=True)
class Call:
    """One call: its name, the absolute paths it concerns, and the bytes it writes."""

    name: str
    path: str
    target: str = ""
    data: bytes = b""


Before = Callable[[Call], int | None]
"""Sees a call before it is made; a number is returned in the call's place, after that many bytes were written."""


@contextmanager
def intercepted(below: Path, before: Before) -> Iterator[None]:
    """Show every call that changes something below a folder to a function, which may raise, kill, or shorten it."""
    real = {name: getattr(os, name) for name in _CALLS}
    top = str(below)

    def patched(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            seen = _seen(name, arguments, options, real["open"])
            if seen is None or not seen.path.startswith(top):
                return _remembered(name, arguments, options, real[name](*arguments, **options))
            short = before(seen)
            if short is not None:
                return real["write"](arguments[0], arguments[1][:short])
            return _remembered(name, arguments, options, real[name](*arguments, **options))

        return call

    try:
        for name in _CALLS:
            setattr(os, name, patched(name))
        yield
    finally:
        for name, function in real.items():
            setattr(os, name, function)


def _seen(name: str, arguments: tuple[Any, ...], options: dict[str, Any], _open: Any) -> Call | None:
    if name in _TAKES_DESCRIPTOR:
        path = _path_of(arguments[0])
        return Call(name, path, data=bytes(arguments[1]) if name == "write" else b"")
    if name == "open" and not arguments[1] & os.O_CREAT:
        return None
    path = _absolute(arguments[0], options.get("dir_fd", options.get("src_dir_fd")))
    if name in _TAKES_TWO:
        return Call("rename" if name == "replace" else name, path, _absolute(arguments[1], options.get("dst_dir_fd")))
    return Call(name, path)


def _remembered(name: str, arguments: tuple[Any, ...], options: dict[str, Any], result: Any) -> Any:
    if name == "open":
        _opened[result] = _absolute(arguments[0], options.get("dir_fd"))
    return result


def _path_of(descriptor: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return _opened.get(descriptor, "")


def _absolute(path: Any, dir_fd: int | None) -> str:
    text = os.fspath(path)
    if os.path.isabs(text) or dir_fd is None:
        return os.path.abspath(text)
    return os.path.join(_path_of(dir_fd), text)


class Recorder:
    """Keeps every call."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def __call__(self, call: Call) -> None:
        self.calls.append(call)


class Killer:
    """Ends the process with SIGKILL before the n-th call."""

    def __init__(self, n: int) -> None:
        self.left = n

    def __call__(self, call: Call) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class Refuser:
    """Lets the n-th call of a kind fail with an errno, and, where the disk stays broken, all after it."""

    def __init__(self, n: int, code: int, *, kinds: tuple[str, ...] = (), forever: bool = False) -> None:
        self.left, self.code, self.kinds, self.forever = n, code, kinds, forever
        self.hit = False

    def __call__(self, call: Call) -> None:
        if self.kinds and call.name not in self.kinds:
            return
        self.left -= 1
        if self.left == 0 or (self.forever and self.left < 0):
            self.hit = True
            raise OSError(self.code, os.strerror(self.code), call.path)


class ShortWriter:
    """Writes only some bytes of every write, as a signal or a nearly full disk may."""

    def __init__(self, kept: int) -> None:
        self.kept = kept

    def __call__(self, call: Call) -> int | None:
        return self.kept if call.name == "write" else None


ERRNOS = (errno.EIO, errno.ENOSPC, errno.EFBIG)

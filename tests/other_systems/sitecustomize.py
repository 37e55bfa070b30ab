"""Python as on a system that is not Linux: what only Linux has is hidden from this process and from those it starts.

Python imports this module by its name when it starts, where the folder is on PYTHONPATH. ``tests/conftest.py`` puts it
there for ``CODEQUARRY_TESTS_HIDE_LINUX=1``. What libraries in C do, and psutil, which has other ways elsewhere, is left
alone.
"""

from __future__ import annotations

import builtins
import errno
import io
import mmap
import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any

HIDDEN_FOLDERS = ("/proc", "/dev/shm")
_NAMES = {
    os: (
        "sched_getaffinity", "sched_setaffinity", "sched_getparam", "sched_setparam", "sched_getscheduler",
        "sched_setscheduler", "sched_rr_get_interval", "posix_fadvise", "posix_fallocate", "pidfd_open",
        "memfd_create", "eventfd", "splice", "fdatasync", "getrandom", "unshare", "setns",
    ),
    resource: ("RLIMIT_AS", "RLIMIT_MSGQUEUE", "RLIMIT_NICE", "RLIMIT_RTPRIO", "RLIMIT_SIGPENDING", "prlimit"),
    mmap: ("MAP_POPULATE", "MAP_STACK", "MADV_HUGEPAGE"),
    signal: ("pidfd_send_signal", "sigwaitinfo", "sigtimedwait"),
}  # fmt: skip
_PATH_FUNCTIONS = ("open", "stat", "lstat", "listdir", "scandir", "readlink", "access", "mkdir", "chdir")
_TRUSTED = "psutil"


def hide() -> None:
    """Take the names away; a second time does nothing."""
    if getattr(os, "_codequarry_hidden", False):
        return
    os._codequarry_hidden = True  # pyright: ignore[reportAttributeAccessIssue]
    for module, names in _NAMES.items():
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    if hasattr(os, "process_cpu_count"):  # Python 3.13, by sched_getaffinity
        os.process_cpu_count = os.cpu_count
    for name in _PATH_FUNCTIONS:
        _replace(os, name)
    builtins.open = io.open = _guarded(io.open)


def _replace(module: Any, name: str) -> None:
    real = getattr(module, name)
    guarded = _guarded(real)
    for functions in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids):
        if real in functions:
            functions.add(guarded)
    setattr(module, name, guarded)


def _guarded(real: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        path = arguments[0] if arguments else options.get("path", options.get("file"))
        if _is_hidden(path) and not sys._getframe(1).f_globals.get("__name__", "").startswith(_TRUSTED):
            if real.__name__ == "access":
                return False
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return real(*arguments, **options)

    call.__name__ = real.__name__
    return call


def _is_hidden(path: Any) -> bool:
    if not isinstance(path, str | bytes | os.PathLike):
        return False
    text = os.fsdecode(path)
    return any(text == folder or text.startswith(f"{folder}/") for folder in HIDDEN_FOLDERS)


hide()

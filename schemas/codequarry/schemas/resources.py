"""Telling a lack of descriptors or memory from damage: the first passes, and says nothing about the file."""

from __future__ import annotations

import ctypes
import errno
import gc
import os

from codequarry.schemas.errors import CodequarryError, ResourcesError

_FOUND = {
    errno.ENFILE: "too many open files on this machine",  # first, as its text begins with that of the next
    errno.EMFILE: "too many open files in this process",
    errno.ENOMEM: "out of memory",
}
_REMEDIES = {
    errno.EMFILE: "raise the limit of open files (`ulimit -n`), then try again",
    errno.ENFILE: "close programs or raise the machine's limit of open files, then try again",
    errno.ENOMEM: "free memory, then try again",
}


def exhaustion(error: BaseException | None) -> int | None:
    """Return the errno of a lack of descriptors or memory that an error or one of its causes reports, or None.

    Libraries that open files by themselves report only the system's text.

    >>> exhaustion(OSError(errno.EMFILE, "Too many open files")) == errno.EMFILE
    True
    >>> exhaustion(ValueError("IO Error: Cannot open file: Too many open files")) == errno.EMFILE
    True
    >>> exhaustion(OSError(errno.EIO, "Input/output error")) is None
    True
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, MemoryError):
            return errno.ENOMEM
        if isinstance(error, OSError) and error.errno in _FOUND:
            return error.errno
        told = "" if isinstance(error, CodequarryError) else str(error)  # ours may tell names of files
        for code in _FOUND:
            if os.strerror(code) in told:
                return code
        error = error.__cause__ or error.__context__
    return None


def raise_if_exhausted(error: BaseException, failure: str) -> None:
    """Raise ResourcesError when an error reports a lack of descriptors or memory instead of a fault of what was read.

    Args:
        error: The error that was caught.
        failure: Sentence that says what could not be done.

    Raises:
        ResourcesError: The error, or one of its causes, reports such a lack.
    """
    if isinstance(error, ResourcesError):
        try:
            raise error
        finally:
            del error  # a frame that keeps the error it raises is a cycle, which keeps open all that the frames hold
    if (code := exhaustion(error)) is not None:
        raise ResourcesError(f"{failure}: {_FOUND[code]}", suggestion=_REMEDIES[code]) from error


def available_cores() -> int:
    """Return the number of cores that this process may use; all of the machine when the system does not say (macOS)."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


_THRESHOLDS = 20_000, 20, 20


def collect_seldom() -> None:
    """Look for cyclic garbage after 20,000 new objects instead of 700.

    What imports and tables of rows make is kept or freed by its references, so that looking finds next to nothing: it
    took 4 % of the CPU time of a run. Garbage that does arise waits for some megabytes.
    """
    gc.set_threshold(*_THRESHOLDS)


_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
"""Parameters of glibc's ``mallopt``."""
_BLOCK_BYTES = 1 << 20


def return_freed_memory() -> None:
    """Make the C library give freed memory back to the system, where it is glibc.

    By default each thread has a heap of its own, and a heap keeps what a block above it needs. One heap for all,
    with blocks of a megabyte outside it, takes a fifth to a quarter less memory at the peak of an index, for equal CPU
    time. Call it before threads start.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)
        mallopt(_M_MMAP_THRESHOLD, _BLOCK_BYTES)


def trim_memory() -> None:
    """Give back to the system what lies free between blocks in use, where the C library is glibc."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)

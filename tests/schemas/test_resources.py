"""A lack of descriptors or memory is told from damage, whoever tells of it."""

from __future__ import annotations

import errno
import gc
import os
import platform
import subprocess
import sys
import weakref

import pytest

from codequarry.schemas.errors import IntegrityError, ResourcesError, UnavailableError
from codequarry.schemas.resources import exhaustion, raise_if_exhausted


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_the_system_and_libraries_are_understood(code: int) -> None:
    told = os.strerror(code)
    for error in (OSError(code, told), RuntimeError(f"IO Error: Cannot open file: {told}")):
        assert exhaustion(error) == code
        with pytest.raises(ResourcesError) as caught:
            raise_if_exhausted(error, "it cannot be read now")
        assert (caught.value.code, caught.value.retryable) == ("UNAVAILABLE", True)
        assert isinstance(caught.value, UnavailableError)
        assert not isinstance(caught.value, IntegrityError)
        assert caught.value.suggestion


def test_a_cause_is_understood() -> None:
    try:
        try:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        except OSError as error:
            raise IntegrityError("it is damaged") from error
    except IntegrityError as error:
        assert exhaustion(error) == errno.EMFILE
    assert exhaustion(MemoryError()) == errno.ENOMEM


@pytest.mark.parametrize(
    "error", [None, OSError(errno.EIO, "Input/output error"), IntegrityError("the file Too many open files differs")]
)
def test_damage_stays_damage(error: BaseException | None) -> None:
    assert exhaustion(error) is None


class _Opened:
    """Something that a failed function still names."""


def test_a_lack_that_is_raised_again_keeps_nothing_open() -> None:
    """The frame that raised it named it: a cycle, so that files of a failed opening stayed open until a collection."""
    opened: list[weakref.ref[_Opened]] = []

    def failed_opening() -> None:
        one = _Opened()
        opened.append(weakref.ref(one))
        try:
            raise ResourcesError("too many open files")
        except ResourcesError as error:
            raise_if_exhausted(error, "it cannot be opened now")

    gc.disable()
    try:
        with pytest.raises(ResourcesError) as caught:
            failed_opening()
        del caught
        assert opened[0]() is None
    finally:
        gc.enable()


_THREADS = """
import sys, threading
from pathlib import Path
from codequarry.schemas.resources import return_freed_memory

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1])

def work():
    for _ in range(8):
        large = [bytearray(2 << 20) for _ in range(8)]
        kept.append(bytearray(1 << 17))
        del large

if sys.argv[1] == "returned":
    return_freed_memory()
del bytearray(8 << 20)[:]  # after it, glibc keeps blocks of that size
kept = []
before = resident()
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(resident() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told to")
def test_freed_memory_goes_back_to_the_system() -> None:
    returned, kept = (
        int(subprocess.run([sys.executable, "-c", _THREADS, how], check=True, capture_output=True).stdout)
        for how in ("returned", "kept")
    )
    assert returned < kept / 3

"""The ways in which CURRENT can be broken."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def replaced(content: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """Break CURRENT by other bytes."""
    return lambda current: (current.write_bytes(content(current.read_bytes())), None)[1]


def as_link(current: Path) -> None:
    current.rename(current.with_name("elsewhere"))
    current.symlink_to("elsewhere")


def as_dangling_link(current: Path) -> None:
    current.unlink()
    current.symlink_to("nowhere")


def as_pipe(current: Path) -> None:
    current.unlink()
    os.mkfifo(current)


def as_folder(current: Path) -> None:
    current.unlink()
    current.mkdir()


SHAPES: dict[str, Callable[[Path], None]] = {
    "missing": Path.unlink,
    "empty": replaced(lambda line: b""),
    **{f"torn at {cut}": replaced(lambda line, cut=cut: line[:cut]) for cut in (1, 25, 26, 27, 60)},
    "without its line end": replaced(lambda line: line[:-1]),
    "two lines": replaced(lambda line: line * 2),
    "text behind": replaced(lambda line: line + b"x"),
    "a blank before": replaced(lambda line: b" " + line),
    "a DOS line end": replaced(lambda line: line[:-1] + b"\r\n"),
    "capital digits": replaced(lambda line: line.upper()),
    "garbage": replaced(lambda line: bytes(range(256))),
    "zeros": replaced(lambda line: bytes(len(line))),
    "a path": replaced(lambda line: b"../../etc/passwd " + line.split()[1] + b"\n"),
    "a gigabyte": lambda current: os.truncate(current, 1 << 30),
    "a version that is not there": replaced(lambda line: b"2099" + line[4:]),
    "another manifest's digest": replaced(lambda line: line.split()[0] + b" " + b"0" * 64 + b"\n"),
    "a link": as_link,
    "a dangling link": as_dangling_link,
    "a pipe": as_pipe,
    "a folder": as_folder,
}

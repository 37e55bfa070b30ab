"""A running watch, and writers that save as editors do."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from codequarry.schemas.bundle.layout import BundleRoot
from tests.pipelines.conftest import run_here

COMMAND = [sys.executable, "-P", "-m", "codequarry.pipelines.cli"]
DEADLINE_S = 90.0


class Watch:
    """A running watch, the lines it printed, and the repository it is about."""

    def __init__(self, folder: Path, store: Path, *arguments: str) -> None:
        self.folder = folder
        self.environment = {"CODEQUARRY__PATHS__STORE": str(store), "COLUMNS": "200"}
        self.process = subprocess.Popen(
            [*COMMAND, "watch", *arguments],
            cwd=folder, env={**os.environ, **self.environment}, text=True, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.lines: list[str] = []
        self._queue: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.wait_for("watching")

    def close(self) -> None:
        """End the process, if it runs, and close its streams."""
        self.process.kill()
        self._reader.join()
        with self.process:
            pass

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._queue.put(line)

    def next_line(self) -> str:
        """Wait for the next line."""
        ends = time.monotonic() + DEADLINE_S
        while time.monotonic() < ends:
            try:
                line = self._queue.get(timeout=0.1)
            except queue.Empty:
                assert self.process.poll() is None or self._reader.is_alive() or not self._queue.empty(), self.lines
                continue
            self.lines.append(line)
            return line
        raise AssertionError(f"no line follows {self.lines}")

    def wait_for(self, text: str) -> str:
        """Return the next line that holds a text."""
        ends = time.monotonic() + DEADLINE_S
        while time.monotonic() < ends:
            if text in (line := self.next_line()):
                return line
        raise AssertionError(f"{text!r} is in none of {self.lines}")

    def finds(self, word: str) -> bool:
        """Return whether the published version holds a word."""
        return word in run_here(self.folder, self.environment, "grep", word).stdout

    def wait_until_found(self, word: str) -> None:
        """Wait for the version that holds a word, which may be the second one."""
        while not self.finds(word):
            self.wait_for("published in")

    @property
    def current(self) -> str:
        return BundleRoot(self.folder / ".codequarry" / "bundles").read_current().version

    def end(self, number: signal.Signals) -> int:
        """Send a signal, and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(DEADLINE_S)


def write_aside(file: Path, text: str) -> None:
    """Write a file beside another one, and rename it into its place."""
    aside = file.with_name(f".{file.name}.swp")
    aside.write_text(text)
    os.replace(aside, file)


def truncate_and_write(file: Path, text: str) -> None:
    """Empty a file, and write into it a moment later."""
    with file.open("w") as stream:
        stream.flush()
        time.sleep(0.05)
        stream.write(text)


def append(file: Path, text: str) -> None:
    """Write at the end of a file."""
    with file.open("a") as stream:
        stream.write(text)


def write_with_backup(file: Path, text: str) -> None:
    """Rename a file, write it anew, and remove the renamed one, as Vim does with its backup."""
    backup = file.with_name(f"{file.name}~")
    file.rename(backup)
    with file.open("w") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    backup.unlink()


def swap(file: Path, text: str) -> None:
    """Write aside, rename the file away and the new one into its place, as the IDEs of JetBrains do."""
    new, old = (file.with_name(f"{file.name}___jb_{kind}___") for kind in ("tmp", "old"))
    new.write_text(text)
    file.rename(old)
    new.rename(file)
    old.unlink()

"""Complete versions that a watch builds while nothing changes, in a process of their own.

A change ends the process, so that its delta version is made at once, over the old base: the outputs that belong to it
are kept (see `base_work`), and a run that is killed leaves CURRENT whole. What a run has read, cut and embedded when it
ends is in the work folder and the store, so that the next one goes on from there.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from codequarry.pipelines.publish.retention import created
from codequarry.pipelines.run import index_repositories
from codequarry.pipelines.store.processes import ending_groups, start_group, stop_group
from codequarry.schemas.bundle.manifest import Manifest
from codequarry.schemas.errors import CodequarryError
from codequarry.schemas.settings.bundle import BundleSettings
from codequarry.schemas.settings.load import Settings
from codequarry.schemas.wording import counted

FIRST_QUIET_S, LAST_QUIET_S = 5.0, 300.0
"""A complete version is begun when nothing changed for so long; each one that a change ended doubles the time."""
_NICENESS = 10
_MODULE = "codequarry.pipelines.cli.watch.compaction"


@dataclass(frozen=True, slots=True)
class Compacted:
    """End of a run."""

    version: str
    """Name of the complete version; "" when there is none."""
    sentence: str


def is_due(manifest: Manifest, settings: BundleSettings) -> bool:
    """Return whether a complete version is to be built over a delta version: it is large, or its base is old.

    Args:
        manifest: Manifest of the version; a complete one hides and adds nothing.
        settings: Say how large and how old.

    Returns:
        True when it is.
    """
    stack = manifest.stack
    if stack is None:
        return False
    base = manifest.counts.chunks - stack.chunks + stack.hidden_chunks
    old = timedelta(hours=settings.delta_hours)
    return stack.hidden_chunks + stack.chunks > settings.delta_share * base or (
        old > timedelta() and datetime.now(UTC) - created(stack.base) > old
    )


class Compactor:
    """The complete versions of a watch.

    Args:
        settings: Settings of the watch.
        now: Clock.
    """

    def __init__(self, settings: Settings, now: Callable[[], float] = time.monotonic) -> None:
        self._settings, self._now = settings, now
        self._process: subprocess.Popen[bytes] | None = None
        self._due, self._accept = False, ""
        self._quiet_s, self._quiet_since, self._began = FIRST_QUIET_S, now(), 0.0

    def note_version(self, manifest: Manifest, accept: str) -> None:
        """Take what a round published.

        Args:
            manifest: Its manifest.
            accept: Reason for publishing though checks fail that compare with the version before; "" for none.
        """
        self._quiet_since = self._now()
        self._due = is_due(manifest, self._settings.bundle)
        self._accept = "" if manifest.stack is None else accept or self._accept

    def stop(self) -> None:
        """End a run because something changed."""
        self._quiet_since = self._now()
        if self._process is not None:
            self._end()
            self._quiet_s = min(2 * self._quiet_s, LAST_QUIET_S)

    def look(self) -> Compacted | None:
        """Begin a run when one is due and it was quiet for long enough.

        Returns:
            How a run ended since the last look.
        """
        if self._process is None:
            if self._due and self._now() - self._quiet_since >= self._quiet_s:
                self._begin()
            return None
        if self._process.poll() is None:
            return None
        return self._take_result()

    def _begin(self) -> None:
        # -P: a repository's folder must not be where Python looks for modules.
        command = [sys.executable, "-P", "-m", _MODULE]
        self._began = self._now()
        self._process = start_group(
            lambda: subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        )
        assert self._process.stdin is not None
        message = {"settings": self._settings.model_dump(mode="json"), "accept": self._accept}
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:  # it ended already, and its exit code says so
            pass

    def _take_result(self) -> Compacted:
        assert self._process is not None and self._process.stdout is not None
        said, seconds = self._process.stdout.read(), self._now() - self._began
        code = self._process.returncode
        self._end()
        self._due = False  # one that failed is tried again after the next version
        try:
            result: dict[str, Any] = json.loads(said)
        except ValueError:
            result = {"failed": f"its process ended with exit code {code}"}
        if "failed" in result:
            return Compacted("", f"no complete version could be built: {result['failed']}; delta versions go on")
        self._quiet_s = FIRST_QUIET_S
        chunks = counted(result["chunks"], "chunk")
        return Compacted(result["version"], f"one complete version of {chunks} again, built in {seconds:.1f} s")

    def _end(self) -> None:
        process, self._process = self._process, None
        assert process is not None
        stop_group(process)
        with process:  # closes the pipes, and waits
            pass


def _end_with_input() -> None:
    """End this process, as a signal does, when the watch has ended."""
    while os.read(0, 1 << 12):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _build(message: dict[str, Any]) -> dict[str, Any]:
    settings = Settings.model_validate_json(json.dumps(message["settings"]))
    try:
        with ending_groups():
            manifest = index_repositories(settings, accept=message["accept"], whole=True).manifest
    except CodequarryError as error:
        return {"failed": error.message}
    return {"version": manifest.version, "chunks": manifest.counts.chunks}


def main() -> None:
    """Build a complete version for the watch that started this process."""
    result = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print goes to standard error
    os.nice(_NICENESS)  # searches and the next save come first
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(0, 1)):
        line += byte
    if not line.endswith(b"\n"):
        return
    threading.Thread(target=_end_with_input, name="stdin", daemon=True).start()
    result.write(json.dumps(_build(json.loads(line))).encode() + b"\n")
    result.close()


if __name__ == "__main__":
    main()

"""The time that the stages of a run take."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager


class StageClock:
    """Seconds by stage, in the order in which the stages began; a stage that runs several times has their sum."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        """Wall-clock seconds by stage."""
        self.cpu_seconds: dict[str, float] = {}
        """CPU seconds by stage, those of the processes it started included."""

    @contextmanager
    def time(self, stage: str) -> Iterator[None]:
        """Add the time of the block to a stage, also when the block raises."""
        started, cpu_started = time.perf_counter(), _cpu_seconds()
        try:
            yield
        finally:
            self.add(stage, time.perf_counter() - started, _cpu_seconds() - cpu_started)

    def add(self, stage: str, seconds: float, cpu_seconds: float) -> None:
        """Add time to a stage.

        Args:
            stage: Name of the stage.
            seconds: Wall-clock seconds.
            cpu_seconds: CPU seconds.
        """
        self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds
        self.cpu_seconds[stage] = self.cpu_seconds.get(stage, 0.0) + cpu_seconds


def _cpu_seconds() -> float:
    """Return the CPU seconds of this process and of its child processes that have ended."""
    return sum(os.times()[:4])

"""Cooperative deadlines: a stage asks before it starts, nothing is interrupted.

A deadline also passes when nobody waits for the answer any more.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from codequarry.schemas.errors import DeadlineError


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment on a clock."""

    seconds: float
    """What was granted."""
    at: float
    clock: Callable[[], float]
    abandoned: Callable[[], bool] = _never
    """Whether nobody waits any more."""

    @classmethod
    def after(
        cls, seconds: float, *, clock: Callable[[], float] = time.monotonic, abandoned: Callable[[], bool] = _never
    ) -> Self:
        """The moment that many seconds from now."""
        return cls(seconds, clock() + seconds, clock, abandoned)

    def half(self) -> Self:
        """The moment halfway from now to this one."""
        left = max(0.0, self.at - self.clock()) / 2
        return type(self)(left, self.at - left, self.clock, self.abandoned)

    @property
    def passed(self) -> bool:
        """True from the moment on, and once the call is abandoned."""
        return self.clock() >= self.at or self.abandoned()

    def check(self) -> None:
        """Raises DeadlineError: the moment has passed."""
        if self.passed:
            raise DeadlineError(f"no time left of {self.seconds:g} s", suggestion="call again")

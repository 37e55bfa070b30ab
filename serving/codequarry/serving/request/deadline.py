"""Cooperative deadlines: each stage checks before it starts, and no work is interrupted.

A deadline also passes when the client has stopped waiting for the answer.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from codequarry.schemas.errors import DeadlineError


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Deadline:
    """Deadline as a moment on a clock."""

    seconds: float
    """Seconds that were granted."""
    at: float
    clock: Callable[[], float]
    abandoned: Callable[[], bool] = _never
    """Tells whether the client has stopped waiting."""

    @classmethod
    def after(
        cls, seconds: float, *, clock: Callable[[], float] = time.monotonic, abandoned: Callable[[], bool] = _never
    ) -> Self:
        """Return the deadline that many seconds from now."""
        return cls(seconds, clock() + seconds, clock, abandoned)

    def restart(self, seconds: float) -> Self:
        """Return the deadline that many seconds from now, on the same clock and for the same caller."""
        return type(self)(seconds, self.clock() + seconds, self.clock, self.abandoned)

    def within(self, budget_ms: int) -> Self:
        """Return the deadline that many milliseconds from now, or this one if it is earlier; 0 is no budget."""
        sooner = self.restart(budget_ms / 1000) if budget_ms else self
        return sooner if sooner.at < self.at else self

    def half(self) -> Self:
        """Return the deadline halfway from now to this one."""
        left = max(0.0, self.at - self.clock()) / 2
        return type(self)(left, self.at - left, self.clock, self.abandoned)

    @property
    def passed(self) -> bool:
        """True from the moment on, and once the call is abandoned."""
        return self.clock() >= self.at or self.abandoned()

    def check(self) -> None:
        """Raise DeadlineError when the moment has passed."""
        if self.passed:
            raise DeadlineError(f"no time left of {self.seconds:g} s", suggestion="call again")


NEVER = Deadline.after(math.inf)
"""A deadline that does not pass."""

"""Progress of the first version: what a server tells its clients while another process makes one.

The server itself makes nothing. Whoever started it beside such a process gives it a `FirstVersion` and notes progress
there; the server reads it, and serves the version as soon as CURRENT names one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from codequarry.schemas.errors import StartingError, UnavailableError
from codequarry.schemas.wording import counted

_LEAST_SHARE, _LEAST_S = 0.15, 1.0
"""Share of the work, and its time, from which on the time for the rest is estimated."""
_LATER_S = 5
"""Seconds after which to call again, where there is no estimate."""


class Step(NamedTuple):
    """Work that is being done."""

    text: str
    """For people: ``cutting files into chunks``."""
    done: int = 0
    total: int = 0
    """0 where nothing is counted."""
    unit: str = ""
    """Noun of what is counted, in the singular."""
    share: float = 0.0
    """Share of the whole work that is done; 0 where it is not known."""


@dataclass(frozen=True, slots=True)
class _State:
    step: Step
    ends_at: float | None = None
    """Estimated time of the end, as the step was noted."""
    ended_s: float | None = None
    """Seconds that it took, once the version is published."""
    failure: UnavailableError | None = None


class FirstVersion:
    """Progress of the process that makes the first version. One thread notes it, any may read it.

    Args:
        name: Repository, for people.
        clock: Seconds that only grow.
    """

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.name = name
        self._clock, self._begun = clock, clock()
        self._worked_from = 0.0
        """Time of the first step: starting a process takes its own time."""
        self._state = _State(Step("starting"))

    def note(self, step: Step) -> None:
        """Note what is being done now."""
        now, share = self._clock(), step.share
        self._worked_from = self._worked_from or now
        worked = now - self._worked_from
        known = share >= _LEAST_SHARE and worked >= _LEAST_S
        ends_at = now + worked * (1 - share) / share if known else None
        self._state = replace(self._state, step=step, ends_at=ends_at)

    def publish(self) -> None:
        """Note that the version is published: CURRENT names it."""
        self._state = replace(self._state, ended_s=self._elapsed())

    def fail(self, message: str, suggestion: str) -> None:
        """Note that there will be no version, until somebody mends what is wrong.

        Args:
            message: Reason, a sentence for people.
            suggestion: Remedy.
        """
        what = f"the first index of {self.name} failed: {message}"
        self._state = replace(self._state, failure=UnavailableError(what, suggestion=suggestion))

    @property
    def has_failed(self) -> bool:
        """True when the process has ended without a version."""
        return self._state.failure is not None

    def sentence(self) -> str:
        """Return what is done, for how long, and how long it may still take."""
        state = self._state
        if state.failure is not None:
            return f"{state.failure}"
        if state.ended_s is not None:
            return f"{self.name} was indexed in {_seconds(state.ended_s)}, and is being opened"
        parts = [f"{self.name} is being indexed for the first time: {state.step.text}", self._count(state.step)]
        parts.append(f"{_seconds(self._elapsed())} so far")
        if (left := self._left_s(state)) is not None:
            parts.append(f"about {_seconds(left)} more")
        return ", ".join(filter(None, parts))

    def error(self) -> UnavailableError:
        """Return the error for a call that needs a version."""
        state = self._state
        if state.failure is not None:
            return state.failure
        left = 1.0 if state.ended_s is not None else self._left_s(state)
        again = _LATER_S if left is None else max(1, math.ceil(left))
        return StartingError(
            self.sentence(), suggestion=f"call again in {_seconds(again)}; until then read the files themselves"
        )

    def _count(self, step: Step) -> str:
        return f"{step.done:,} of {counted(step.total, step.unit)}" if step.total and step.unit else ""

    def _elapsed(self) -> float:
        return self._clock() - self._begun

    def _left_s(self, state: _State) -> float | None:
        """Estimate the seconds that are left; None where too little is known, and where it took longer."""
        left = None if state.ends_at is None else state.ends_at - self._clock()
        return left if left is not None and left > 0 else None


def _seconds(seconds: float) -> str:
    """Write seconds for people.

    >>> [_seconds(each) for each in (0.2, 59, 300)]
    ['1 s', '59 s', '5 min']
    """
    return f"{max(1, round(seconds))} s" if seconds < 120 else f"{round(seconds / 60)} min"

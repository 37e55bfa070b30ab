"""One check of a version and its result."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """One check and its result."""

    name: str
    passed: bool
    found: str
    expected: str
    examples: tuple[str, ...] = ()
    """At most three offending rows, values or queries."""
    regression: bool = False
    """True for a comparison with CURRENT, which may be accepted by name and reason."""
    warning: str = ""
    """For whoever publishes, though the check passed."""

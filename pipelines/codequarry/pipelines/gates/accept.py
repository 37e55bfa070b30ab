"""Acceptance of failed checks: only comparisons with CURRENT may fail, and only for a reason that is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from codequarry.schemas.bundle.manifest import AcceptedEntry
from codequarry.schemas.errors import GateError, InvalidArgumentError

if TYPE_CHECKING:  # every command has the options of this module; few need Arrow
    from codequarry.serving.version.check import Check

MAX_REASON_CHARS = 1_000


def judge(version: str, checks: Sequence[Check], reason: str = "") -> tuple[AcceptedEntry, ...]:
    """Stop a version whose checks failed, unless the failures are accepted regressions.

    Args:
        version: Name of the staged version.
        checks: All its checks.
        reason: Why regressions are acceptable; "" accepts none.

    Returns:
        Accepted failures, for the manifest.

    Raises:
        GateError: A failed check is no regression, or was not accepted; each is named.
    """
    failed = [check for check in checks if not check.passed]
    stopped = [check for check in failed if not (check.regression and reason)]
    if not stopped:
        return tuple(AcceptedEntry(check=each.name, found=each.found, expected=each.expected, reason=reason)
                     for each in failed)  # fmt: skip
    remedy = "fix the cause or change [checks], then run again"
    if all(check.regression for check in stopped):
        remedy = "fix the cause, change [drift] or [retrieval], or say why this is well with --accept-regression REASON"
    raise GateError(
        f"the staged version {version} is not fit to publish: {'; '.join(map(describe_failure, stopped))}",
        suggestion=f"CURRENT is unchanged; {remedy}",
    )


def describe_failure(check: Check) -> str:
    """Describe a failed check in a line."""
    example = f" (for example {check.examples[0]})" if check.examples else ""
    return f"{check.name}: {check.found}, expected {check.expected}{example}"


def checked_reason(reason: str | None) -> str:
    """Return a reason as it is kept: in one line.

    Args:
        reason: The user's reason; None when none was given.

    Returns:
        The line; "" for None.

    Raises:
        InvalidArgumentError: The reason is empty or too long.
    """
    if reason is None:
        return ""
    line = " ".join(reason.split())
    if not line or len(line) > MAX_REASON_CHARS:
        raise InvalidArgumentError(
            f"found a reason of {len(line)} characters, expected 1 to {MAX_REASON_CHARS}",
            suggestion='say why the regression is well: --accept-regression "moved the tests to their own repository"',
        )
    return line

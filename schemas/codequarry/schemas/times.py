"""Times that somebody else wrote: a manifest's, a version's name. They may hold any year, or no time at all."""

from __future__ import annotations

from datetime import UTC, datetime

from codequarry.schemas.errors import IntegrityError

_SHOWN_CHARS = 40


def parse_time(text: str) -> datetime:
    """Parse a time in ISO 8601.

    >>> parse_time("2300-01-01T00:00:00Z").year
    2300

    Args:
        text: The time; without a zone it is in UTC.

    Returns:
        The time, with its zone.

    Raises:
        IntegrityError: The text is not a time.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise IntegrityError(
            f"the manifest was created at {text[:_SHOWN_CHARS]!r}, expected a time in ISO 8601",
            suggestion="do not serve this version; publish again",
        ) from error
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def age_s(text: str) -> int:
    """Return the age of a time in seconds.

    Args:
        text: A time as `parse_time` reads it.

    Returns:
        Whole seconds since then; 0 when it is in the future.

    Raises:
        IntegrityError: As `parse_time` does.
    """
    return max(0, int((datetime.now(UTC) - parse_time(text)).total_seconds()))


def in_words(seconds: int) -> str:
    """Return a time span in the largest unit of which there is one at least.

    >>> in_words(7_300), in_words(59)
    ('2 h', '59 s')
    """
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def build_time(version: str) -> datetime | None:
    """Return the time at which a version was built, from its name; None when its digits are no date.

    >>> build_time("20261121T120000Z-0123abcd").isoformat()
    '2026-11-21T12:00:00+00:00'
    """
    try:
        return datetime.strptime(version[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None

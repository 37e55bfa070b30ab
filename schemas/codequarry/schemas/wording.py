"""Words of messages that follow from numbers."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun.

    >>> counted(1, "file"), counted(1_200, "file"), counted(0, "match", "matches"), counted(2, "repository")
    ('1 file', '1,200 files', '0 matches', '2 repositories')

    Args:
        count: The number.
        noun: Noun in the singular.
        plural: Its plural; by default made from the noun by rule.

    Returns:
        Both, the number with thousands separators.
    """
    if not plural:
        plural = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"

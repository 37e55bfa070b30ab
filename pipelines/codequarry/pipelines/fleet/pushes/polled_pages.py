"""Pages of repositories that are asked for their heads in turn, because a webhook may be missing or get lost."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from codequarry.pipelines.store.workspace import replacing

PAGE = 100
"""Repositories of a page: as many are asked together within one deadline."""


class PolledPages:
    """Pages in the order of names. The last name of a page is the cursor, kept in a file, so that a restart goes on."""

    def __init__(self, file: Path) -> None:
        """Go on where the file says.

        Args:
            file: File of the cursor; it need not exist, and what cannot be read begins anew.
        """
        self._file = file
        self._after = ""
        with suppress(OSError, ValueError, TypeError, KeyError):
            self._after = str(json.loads(file.read_bytes())["after"])

    def next_page(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the repositories that are to be asked now.

        Args:
            names: Names of all repositories; they may have changed since the last page.

        Returns:
            At most `PAGE` of them: those after the cursor, and the first ones after the last ones.
        """
        ordered = sorted(names)
        start = bisect_right(ordered, self._after)
        if len(ordered) <= PAGE:
            return tuple(ordered)
        return tuple((ordered[start:] + ordered[:start])[:PAGE])

    def move_on(self, page: Sequence[str]) -> None:
        """Keep in the file that a page was asked.

        Args:
            page: The page.

        Raises:
            UnavailableError: The file cannot be written.
        """
        if not page:
            return
        self._after = page[-1]
        with replacing(self._file) as temporary:
            temporary.write_text(json.dumps({"after": self._after}) + "\n", encoding="utf-8")


def seconds_between(every_s: float, repositories: int) -> float:
    """Return the seconds between two pages, so that every repository is asked once in a period.

    >>> seconds_between(300, 40), seconds_between(300, 5_000)
    (300.0, 6.0)

    Args:
        every_s: The period in seconds.
        repositories: How many there are.

    Returns:
        Seconds.
    """
    return every_s / max(1, -(-repositories // PAGE))

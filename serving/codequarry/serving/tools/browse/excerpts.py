"""Excerpts of files within a budget of characters; those of a file that meet become one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from codequarry.serving.catalog import present
from codequarry.serving.tools.browse.file_text import read_lines
from codequarry.serving.version.open import Bundle

_NEAR = 2
"""Lines between two excerpts of a file that are shown with them: a heading costs as much."""


class Excerpt(NamedTuple):
    """Lines of a file, 0-based and inclusive, with a heading."""

    file: int
    first: int
    last: int
    heading: str

    def holds(self, file: int, line: int) -> bool:
        """True when a line of a file is among the lines."""
        return self.file == file and self.first <= line <= self.last


class Excerpts:
    """Excerpts of a version, in the order in which their first parts came.

    Sizes are those of the text that a model reads: a heading, and each line with its number.
    """

    def __init__(self, bundle: Bundle, budget: int) -> None:
        """Begin without any.

        Args:
            bundle: The version.
            budget: Characters.
        """
        self.left = budget
        """Characters that are left of the budget."""
        self.shown: list[Excerpt] = []
        self._bundle = bundle
        self._lines: dict[int, dict[int, str]] = {}

    def holds(self, file: int, line: int) -> bool:
        """True when a line is shown."""
        return any(one.holds(file, line) for one in self.shown)

    def cost(self, wanted: Excerpt) -> int:
        """Return the characters that an excerpt adds to those that are shown."""
        merged, met = self._merge(wanted)
        return self._size(merged) - sum(self._size(one) for one in met)

    def add(self, wanted: Excerpt, most: int) -> bool:
        """Show an excerpt if it costs no more than is left.

        Args:
            wanted: The excerpt; one that it meets keeps its place and heading.
            most: Most characters that it may cost.

        Returns:
            Whether it is shown.
        """
        cost = self.cost(wanted)
        if cost > min(self.left, most):
            return False
        merged, met = self._merge(wanted)
        at = min((self.shown.index(one) for one in met), default=len(self.shown))
        rest = [one for one in self.shown if one not in met]
        self.shown = [*rest[:at], merged, *rest[at:]]
        self.left -= cost
        return True

    def code(self, excerpt: Excerpt) -> list[str]:
        """Return the lines of an excerpt, long ones cut."""
        return self.lines(excerpt.file, excerpt.first, excerpt.last)

    def lines(self, file: int, first: int, last: int) -> list[str]:
        """Return lines of a file, long ones cut.

        Args:
            file: Row of the file in the directory.
            first: First line, 0-based.
            last: Last line, 0-based, inclusive.

        Returns:
            Lines.
        """
        known = self._lines.setdefault(file, {})
        if any(number not in known for number in range(first, last + 1)):
            read = read_lines(self._bundle, file, first, last)
            for number, line in enumerate(read.text.removesuffix("\n").split("\n"), start=read.first):
                known.setdefault(number, present.window_lines(line, 0, 0))
        return [known.setdefault(number, "") for number in range(first, last + 1)]

    def trim(self, excerpt: Excerpt) -> Excerpt:
        """Return an excerpt without blank lines at its ends; one of blank lines keeps its first."""
        lines = self.code(excerpt)
        filled = [number for number, line in enumerate(lines) if line.strip()] or [0]
        return excerpt._replace(first=excerpt.first + filled[0], last=excerpt.first + filled[-1])

    def _merge(self, wanted: Excerpt) -> tuple[Excerpt, list[Excerpt]]:
        """Return an excerpt with those that it meets, and these."""
        met: list[Excerpt] = []
        first, last = wanted.first, wanted.last
        for one in sorted(self.shown, key=lambda one: one.first):
            if one.file == wanted.file and one.first <= last + 1 + _NEAR and first <= one.last + 1 + _NEAR:
                met.append(one)
                first, last = min(first, one.first), max(last, one.last)
        met.sort(key=self.shown.index)
        heading = met[0].heading if met else wanted.heading
        return Excerpt(wanted.file, first, last, heading), met

    def _size(self, excerpt: Excerpt) -> int:
        directory = self._bundle.directory
        uri = f"{directory.repos[excerpt.file]}/{directory.paths[excerpt.file]}"
        return excerpt_chars(uri, excerpt, self.code(excerpt))


def excerpt_chars(uri: str, excerpt: Excerpt, lines: Sequence[str]) -> int:
    """Return the characters of an excerpt in an answer's text, at most.

    Args:
        uri: ``repository/path``.
        excerpt: Its place.
        lines: Its lines.

    Returns:
        Characters, line breaks included.
    """
    width = len(str(excerpt.last + 1))
    heading = len(f"{uri}:{excerpt.first + 1}-{excerpt.last + 1}  {excerpt.heading}\n")
    return heading + sum(width + len(line) + len(" | \n") for line in lines)

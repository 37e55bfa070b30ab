"""Questions, the places that answer them, and the results that came back."""

from __future__ import annotations

from typing import NamedTuple


class Target(NamedTuple):
    """A place that answers a question: a file, or lines of it."""

    path: str
    repo: str = ""
    """Name of the repository; "" for whichever has the path."""
    start_line: int = -1
    """First line, 0-based; -1 for the whole file."""
    end_line: int = -1
    """Last line, 0-based, inclusive; -1 for the whole file."""

    def text(self) -> str:
        """Return ``repo/path:first-last``, lines 1-based, as people read it."""
        place = f"{self.repo}/{self.path}" if self.repo else self.path
        return place if self.start_line < 0 else f"{place}:{self.start_line + 1}-{self.end_line + 1}"


class Question(NamedTuple):
    """A query and every place that answers it."""

    id: str
    kind: str
    """Class under which it is reported, e.g. ``A doc``."""
    query: str
    targets: tuple[Target, ...]
    """At least one."""


class Hit(NamedTuple):
    """One returned chunk."""

    repo: str
    path: str
    start_line: int
    """0-based."""
    end_line: int
    """0-based, inclusive."""
    chars: int
    """Characters of the whole chunk."""
    id: str = ""

    def answers(self, target: Target) -> bool:
        """Return whether the chunk is in the target's file and overlaps its lines, if it has any.

        >>> chunk = Hit("app", "io.py", 10, 20, 400)
        >>> chunk.answers(Target("io.py")), chunk.answers(Target("io.py", "lib"))
        (True, False)
        >>> chunk.answers(Target("io.py", "app", 20, 30)), chunk.answers(Target("io.py", "app", 21, 30))
        (True, False)
        """
        if self.path != target.path or (target.repo and self.repo != target.repo):
            return False
        return target.start_line < 0 or (self.start_line <= target.end_line and target.start_line <= self.end_line)

    def text(self) -> str:
        """Return the place as `Target.text` does."""
        return Target(self.path, self.repo, self.start_line, self.end_line).text()

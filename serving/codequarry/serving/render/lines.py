"""Lines that all answers share: places, numbered code, and the last line with the versions and the limits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from codequarry.schemas.wire.search import BundleInfo, OnDisk
from codequarry.serving.catalog import present

NOTHING_FOUND = "nothing found: use other words or fewer filters; overview tells what is indexed"
MAX_COMMITS = 3
"""Repositories whose commits the last line names."""
_SHORT_COMMIT = 7


def shown_path(uri: str, bundle: BundleInfo) -> str:
    """Return the path of a file as answers show it: the repository in front only where the index has several.

    >>> shown_path("app/src/a.py", BundleInfo(version="v", created="", commits={"app": "3f2c1ab0"}))
    'src/a.py'
    """
    single = len(bundle.commits) == 1
    return present.printable(uri.partition("/")[2] if single else uri)


def place(path: str, first: int, last: int) -> str:
    """Return ``path:first-last``, 1-based.

    >>> place("src/a.py", 4, 9), place("src/a.py", 4, 4)
    ('src/a.py:5-10', 'src/a.py:5')

    Args:
        path: Path as `shown_path` returns it.
        first: First line, 0-based.
        last: Last line, 0-based, inclusive.

    Returns:
        The place.
    """
    return f"{path}:{first + 1}" + (f"-{last + 1}" if last > first else "")


def numbered(lines: Sequence[str], first: int) -> list[str]:
    """Return lines of code with their numbers in front, without invisible characters.

    >>> numbered(["def f():", "    pass"], 8)
    [' 9 | def f():', '10 |     pass']

    Args:
        lines: Lines without line breaks.
        first: Number of the first, 0-based.

    Returns:
        One line for each.
    """
    width = len(str(first + len(lines)))
    return [
        f"{number:>{width}} | {present.code_line(line)}".rstrip() for number, line in enumerate(lines, start=first + 1)
    ]


def on_disk(state: OnDisk | None) -> str:
    """Return what to say of a file on disk; "" where it is as it was indexed.

    >>> on_disk("deleted"), on_disk(None)
    ('(deleted since)', '')
    """
    if state is None:
        return ""
    return "(deleted since)" if state == "deleted" else "(changed since)"


def footer(bundle: BundleInfo, uris: Iterable[str], facts: Iterable[str], limits: Iterable[str]) -> list[str]:
    """Return the last lines of an answer.

    Args:
        bundle: Version that answered.
        uris: ``repository/path`` of the places in the answer; only their repositories are named.
        facts: Short facts such as "12 of 40"; empty ones are left out.
        limits: Sentences about what was clamped, missing, weak or cut.

    Returns:
        A line with commits and facts, and a line for each limit.
    """
    named = list(dict.fromkeys(uri.partition("/")[0] for uri in uris)) or list(bundle.commits)
    commits = [_commit(name, bundle.commits[name]) for name in named[:MAX_COMMITS] if name in bundle.commits]
    first = " · ".join(part for part in (", ".join(commits), *facts) if part)
    return [*([first] if first else []), *(f"note: {limit}" for limit in limits)]


def _commit(name: str, commit: str) -> str:
    """Return a repository with its short commit.

    >>> _commit("app", "3f2c1ab0d9e8+dirty"), _commit("notes", "")
    ('app@3f2c1ab+dirty', 'notes')
    """
    digest, dirty, _ = commit.partition("+")
    return f"{name}@{digest[:_SHORT_COMMIT]}{dirty}{'dirty' if dirty else ''}" if digest else name

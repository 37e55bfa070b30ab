"""Path globs as users of ripgrep and .gitignore write them, matched in time linear in the path for every wildcard.

======== ==========================================================================================
``*``    any characters but a slash
``?``    one character but a slash
``[ab]`` one of these characters, ``[a-z]`` a range, ``[!ab]`` or ``[^ab]`` none of them
``**``   any number of folders, none included
======== ==========================================================================================

A glob without a slash matches file and folder names at any depth; one that ends in a plain name or a slash also matches
everything below the folder of that name. Upper and lower case differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.wire.search import MAX_GLOB_CHARS

_WILD = re.compile(r"[*?\[]")
_EXAMPLE = "write globs like 'src/**', '**/tests/*.py' or '*.md', relative to the repository"


def compile_glob(glob: str) -> Callable[[str], bool]:
    """Return a predicate over '/'-separated relative paths.

    >>> [compile_glob("src/**/*.py")(path) for path in ("src/a.py", "src/b/c.py", "lib/src/a.py")]
    [True, True, False]
    >>> [compile_glob("tests")(path) for path in ("tests/a.py", "x/tests/b/c.py", "mytests/a.py")]
    [True, True, False]

    Args:
        glob: Path glob in the syntax above.

    Returns:
        A function that tells whether a path matches.

    Raises:
        InvalidArgumentError: The glob is empty, too long or absolute, or holds '..', '~', a backslash or a control
            character.
    """
    _check(glob)
    segments = [segment for segment in glob.split("/") if segment not in ("", ".")]
    if not segments:
        raise InvalidArgumentError("glob: names no path", suggestion=_EXAMPLE)
    if len(segments) == 1 and "/" not in glob.removesuffix("/"):
        segments.insert(0, "**")
    if glob.endswith("/") and segments[-1] != "**":
        segments.append("**")
    segments = [part for segment in segments for part in _spread(segment)]
    below = "" if _WILD.search(segments[-1]) else "(?:/.*)?"
    pattern = re.compile(_regex(segments) + below, re.DOTALL)
    return lambda path: pattern.fullmatch(path) is not None


def _check(glob: str) -> None:
    if len(glob) > MAX_GLOB_CHARS:
        raise InvalidArgumentError(f"glob: longer than {MAX_GLOB_CHARS} characters", suggestion=_EXAMPLE)
    if any(ord(character) < 32 or ord(character) == 127 or 0xD800 <= ord(character) < 0xE000 for character in glob):
        raise InvalidArgumentError("glob: holds a control character", suggestion=_EXAMPLE)
    if "\\" in glob:
        raise InvalidArgumentError("glob: holds a backslash, paths are separated by '/'", suggestion=_EXAMPLE)
    if glob.startswith(("/", "~")):
        raise InvalidArgumentError("glob: is absolute, expected a path inside the repository", suggestion=_EXAMPLE)
    if ".." in glob.split("/"):
        raise InvalidArgumentError("glob: holds '..', expected a path inside the repository", suggestion=_EXAMPLE)


def _spread(segment: str) -> list[str]:
    """Split ``**`` from the characters it is glued to: ``**.py`` means ``**/*.py``."""
    if "**" not in segment or segment == "**":
        return [segment]
    core = segment.strip("*")
    if "**" in core or set(segment) == {"*"}:
        raise InvalidArgumentError("glob: '**' must stand alone between slashes", suggestion=_EXAMPLE)
    parts = ["**"] if segment.startswith("**") else []
    parts.append(("*" if segment.startswith("*") else "") + core + ("*" if segment.endswith("*") else ""))
    return parts + (["**"] if segment.endswith("**") else [])


def _regex(segments: list[str]) -> str:
    """Return the regular expression of whole segments.

    Between two ``**`` the leftmost match is always good enough, so what follows a ``**`` up to the next one goes into
    an atomic group: the engine never comes back to try another place, and no glob can make it try all combinations. The
    same holds for the ``*`` inside one segment.
    """
    blocks: list[list[str]] = [[]]
    for segment in segments:
        if segment != "**":
            blocks[-1].append(segment)
        elif blocks[-1] or len(blocks) == 1:
            blocks.append([])
    first, *rest = ["/".join(_segment(segment) for segment in block) for block in blocks]
    if not rest:
        return first
    head = f"{first}/" if first else ""
    *middle, last = rest
    # The last block is tied to the end of the path, so only the number of its segments decides where it starts.
    tail = f"(?:[^/]+/)*{last}" if last else ".+"
    return head + "".join(f"(?>(?:[^/]+/)*?{block}/)" for block in middle) + tail


def _segment(glob: str) -> str:
    """Return the regular expression of one segment.

    A ``*`` and the literal after it form an atomic group, except for the last one.
    """
    pieces = [_literal(piece) for piece in re.split(r"\*+", glob)]
    first, *rest = pieces
    if not rest:
        return first
    *middle, last = rest
    tail = rf"[^/]*{last}(?=/|\Z)" if last else "[^/]*"
    return first + "".join(f"(?>[^/]*?{piece})" for piece in middle) + tail


def _literal(text: str) -> str:
    """Return the regular expression of text without ``*``: ``?`` and ``[..]`` are wildcards, the rest is literal."""
    result, position = "", 0
    while position < len(text):
        character = text[position]
        position += 1
        if character == "?":
            result += "[^/]"
            continue
        # A "]" right after the bracket or its "!" belongs to the class.
        close = text.find("]", position + (2 if text[position : position + 1] in ("!", "^") else 1))
        if character != "[" or close < 0:
            result += re.escape(character)
            continue
        inside, position = text[position:close], close + 1
        negated = inside[:1] in ("!", "^")
        members = _members(inside[1:] if negated else inside)
        result += f"(?!/)[^{members}]" if negated else f"(?!/)[{members}]"
    return result


def _members(inside: str) -> str:
    """Return the members of a bracket class as a regular expression.

    A range is a character, a dash, and a character that does not sort before the first.
    """
    result, position = "", 0
    while position < len(inside):
        if inside[position + 1 : position + 2] == "-" and position + 2 < len(inside):
            low, high = inside[position], inside[position + 2]
            if low > high:
                raise InvalidArgumentError("glob: a range in [..] runs backwards", suggestion=_EXAMPLE)
            result += f"{re.escape(low)}-{re.escape(high)}"
            position += 3
        else:
            result += re.escape(inside[position])
            position += 1
    return result

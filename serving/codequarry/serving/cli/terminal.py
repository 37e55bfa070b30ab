"""Output of untrusted text on a terminal: escape sequences in it must not take effect.

Programs that read a pipe get every byte as it is.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import typer

_OUTSIDE_ASCII = re.compile(r"[^\x20-\x7e\n]")


def for_terminal(text: str) -> str:
    """Remove control and invisible characters from indexed code.

    >>> for_terminal("a\\x1b[2Jb")
    'a[2Jb'
    """
    return "".join(character for character in text if character in "\n\t" or _is_visible(character))


def escaped(text: str) -> str:
    """Replace control and invisible characters by visible escapes.

    >>> print(escaped("a\\x1b[2Jb"), escaped("a\\u202eb"))
    a\\x1b[2Jb a\\u202eb
    """
    return "".join(
        character if character in "\n\t" or _is_visible(character) else repr(character)[1:-1] for character in text
    )


def echo_json(value: Any) -> None:
    """Print a value as JSON; on a terminal, invisible characters are escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    typer.echo(_OUTSIDE_ASCII.sub(_json_escape, text) if sys.stdout.isatty() else text)


def _is_visible(character: str) -> bool:
    return character.isprintable() or character == " "


def _json_escape(match: re.Match[str]) -> str:
    """Escape a character that JSON leaves as it is: one outside of ASCII, or DEL."""
    character = match[0]
    if _is_visible(character):
        return character
    return "\\u007f" if character == "\x7f" else json.dumps(character)[1:-1]

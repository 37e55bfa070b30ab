"""Presentation of a chunk: title, link, first lines, location. Text from the index is untrusted."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import quote

from codequarry.schemas.wire.search import MAX_SNIPPET_LINES, Location
from codequarry.serving.catalog.catalog import ChunkRow

MAX_LINE_CHARS = 200
MAX_ECHO_CHARS = 32

# Control and format characters (bidirectional overrides, zero-width, tags), line separators, surrogates, private use.
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def printable(text: str) -> str:
    """Return the text without characters that are invisible or reorder the text.

    >>> printable("src/\\u202egnp.exe\\n")
    'src/gnp.exe'
    """
    if text.isprintable():
        return text
    return "".join(character for character in text if unicodedata.category(character) not in _INVISIBLE)


def safe_echo(raw: str) -> str:
    """Return at most 32 harmless characters of what a caller sent.

    >>> safe_echo("../../etc/passwd"), safe_echo("12\\n34")
    ('../../etc/passwd', '12?34')
    """
    kept = raw[:MAX_ECHO_CHARS]
    shown = "".join(one if one.isascii() and (one.isalnum() or one in "._-/:%") else "?" for one in kept)
    return shown + ("…" if len(raw) > MAX_ECHO_CHARS else "")


def code_line(line: str) -> str:
    """Return a line of code without invisible characters; tabs stay.

    >>> code_line("\\tdef f():\\x1b[2J\\r")
    '\\tdef f():[2J'
    """
    return line if line.isprintable() else "\t".join(printable(part) for part in line.split("\t"))


def title(row: ChunkRow) -> str:
    """Return ``repository/path: lines a-b``, 1-based."""
    return range_title(row.uri, row.start_line, row.end_line)


def range_title(uri: str, first: int, last: int) -> str:
    """Return ``repository/path: lines a-b``, 1-based.

    Args:
        uri: ``repository/path``.
        first: First line, 0-based.
        last: Last line, 0-based, inclusive.

    Returns:
        The title.
    """
    return f"{printable(uri)}: " + (f"line {first + 1}" if first == last else f"lines {first + 1}-{last + 1}")


def url(row: ChunkRow) -> str:
    """Return ``repo://repository/path#La-Lb``, 1-based, percent-encoded."""
    return f"{line_url(row.uri, row.start_line)}-L{row.end_line + 1}"


def line_title(uri: str, line: int) -> str:
    """Return ``repository/path: line n``, 1-based.

    Args:
        uri: ``repository/path``.
        line: 0-based.

    Returns:
        The title.
    """
    return f"{printable(uri)}: line {line + 1}"


def line_url(uri: str, line: int) -> str:
    """Return ``repo://repository/path#Ln``, 1-based, percent-encoded.

    Args:
        uri: ``repository/path``.
        line: 0-based.

    Returns:
        The link.
    """
    return f"repo://{_quote_uri(uri)}#L{line + 1}"


@lru_cache(maxsize=4_096)
def _quote_uri(uri: str) -> str:
    return quote(printable(uri), safe="/")


def one_line(text: str, limit: int = MAX_LINE_CHARS) -> str:
    """Return the text as one printable line.

    >>> one_line("def f(\\n    x,\\n)")
    'def f( x, )'
    """
    return _cut(printable(" ".join(text[: 8 * limit].split())), limit)


def paragraphs(text: str, limit: int) -> str:
    """Return the printable text with its line breaks."""
    lines = (printable(line.replace("\t", "    ")).rstrip() for line in text[: 2 * limit].split("\n"))
    return _cut("\n".join(lines), limit)


def first_lines(text: str) -> str:
    """Return at most eight lines from the first that is not blank, each cut at 200 characters.

    >>> first_lines("\\n\\ndef open():\\n    pass\\n")
    'def open():\\n    pass'
    """
    lines = text.split("\n")
    start = next((number for number, line in enumerate(lines) if line.strip()), len(lines))
    shown = [_cut(line.rstrip("\r")) for line in lines[start : start + MAX_SNIPPET_LINES]]
    return "\n".join(shown).rstrip()


def window_lines(text: str, first: int, last: int) -> str:
    """Return some lines of a text, each cut at 200 characters.

    >>> window_lines("a\\nb\\nc", 1, 2)
    'b\\nc'

    Args:
        text: The text.
        first: First line, from 0.
        last: Last line, inclusive.

    Returns:
        The lines.
    """
    return "\n".join(_cut(line.rstrip("\r")) for line in text.split("\n")[first : last + 1]).rstrip()


def _cut(text: str, limit: int = MAX_LINE_CHARS) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def location(row: ChunkRow) -> Location:
    """Return the location of the chunk; bytes and lines as in the catalog."""
    return Location(
        uri=row.uri,
        start_line=row.start_line,
        end_line=row.end_line,
        start_byte=row.start_byte,
        end_byte=row.end_byte,
        lang=row.lang,
        symbols=symbols(row),
    )


def symbols(row: ChunkRow) -> list[str]:
    """Return the qualified names of the definitions that start in a chunk."""
    return [f"{row.module}.{name}" if row.module else name for name in row.symbols]


def sentence_list(names: Iterable[str]) -> str:
    """Return ``a, b``, or ``none``."""
    return ", ".join(names) or "none"

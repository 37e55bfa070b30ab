"""Code-aware text analyzer shared by index build and query.

A token is an identifier, a number or an operator. An identifier yields itself (lower-cased) *and* its camelCase,
snake_case and digit parts. So both ``getUserName`` and "user name" find it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

MAX_TOKEN_CHARS = 120
_OTHERS = (
    r"|\d\w*(?:\.\d\w*)*"  # numbers: 42, 0x1f, 3.14, 1_000; a dot before a name ends one, as in "1.open"
    r"|-[>=]|=[>=]|::|!=|<[=<]|>[=>]|&&|\|\||\+=|\*\*|:=|\.\.\.|\?[?.]"
)
_TOKEN = re.compile(r"[^\W\d]\w*" + _OTHERS)
"""Identifiers and words of any script, numbers and operators."""

_ASCII_TOKEN = re.compile(r"[A-Za-z_]\w*" + _OTHERS, re.ASCII)
"""The same in a text of ASCII alone, where it finds them in less time."""

_RUN = re.compile(r"\w+")
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\dA-Za-z_]+")


class AnalyzedToken(NamedTuple):
    """One index term."""

    text: str
    position: int
    """Ordinal of the source token; an identifier and its parts share one."""


@lru_cache(maxsize=8_192)
def identifier_parts(identifier: str) -> tuple[str, ...]:
    """Return the lower-cased parts of an identifier; empty when it has only one part.

    >>> identifier_parts("parseHTTPResponse2"), identifier_parts("max_file_bytes"), identifier_parts("open")
    (('parse', 'http', 'response', '2'), ('max', 'file', 'bytes'), ())
    """
    parts = tuple(part.lower() for part in _PART.findall(identifier))
    if len(parts) < 2 and identifier.lower() in parts:
        return ()
    return parts


def source_tokens(text: str) -> list[str]:
    """Return identifiers, numbers and operators of a text as written, in order."""
    return (_ASCII_TOKEN if text.isascii() else _TOKEN).findall(text)


@lru_cache(maxsize=8_192)
def terms_of(token: str) -> tuple[str, ...]:
    """Return the index terms of a source token: itself in lower case, then its parts if it has several."""
    whole = token.lower()[:MAX_TOKEN_CHARS]
    parts = identifier_parts(token) if token[0].isalpha() or token[0] == "_" else ()
    return tuple(dict.fromkeys((whole, *(part[:MAX_TOKEN_CHARS] for part in parts))))


def analyze(text: str) -> Iterator[AnalyzedToken]:
    """Split a text into index terms, in order.

    >>> [tuple(token) for token in analyze("a.openFile(0x1f)")]
    [('a', 0), ('openfile', 1), ('open', 1), ('file', 1), ('0x1f', 2)]
    """
    for position, token in enumerate(source_tokens(text)):
        for term in terms_of(token):
            yield AnalyzedToken(term, position)


def query_terms(text: str) -> list[str]:
    """Return the distinct terms of a query in first-seen order."""
    # Take distinct source tokens first: this gives the same terms in the same order, at half the cost on code.
    return list(dict.fromkeys(term for token in dict.fromkeys(source_tokens(text)) for term in terms_of(token)))


class Word(NamedTuple):
    """Word of a text: a part of an identifier, or a number."""

    text: str
    start: int
    end: int


def words(text: str) -> Iterator[Word]:
    """Split a text into words as written, in order, without operators. The lower case of each is an index term.

    >>> [word.text for word in words("self.openFile(max_bytes == 0x1f)")]
    ['self', 'open', 'File', 'max', 'bytes', '0x1f']
    """
    for match in _TOKEN.finditer(text):
        token, offset = match.group(), match.start()
        if token[0].isalpha() or token[0] == "_":
            for part in _PART.finditer(token):
                yield Word(part.group(), offset + part.start(), offset + part.end())
        elif token[0].isalnum():
            yield Word(token, offset, match.end())


class Fragment(NamedTuple):
    """A part of an identifier, a word or a number, in lower case."""

    text: str
    starts: bool
    """Its word begins with it."""
    ends: bool
    """Its word ends with it; it is an index term where both are true."""


def whole(term: str) -> Fragment:
    """Return an index term as a fragment."""
    return Fragment(term, True, True)


def fragments(text: str, *, left: bool = False, right: bool = False) -> list[Fragment]:
    """Return what every text containing this one has in the words of the index.

    >>> fragments("raise ValueError(f")
    [Fragment(text='raise', starts=False, ends=True), Fragment(text='valueerror', starts=True, ends=True), \
Fragment(text='f', starts=True, ends=False)]
    >>> fragments("open", left=True, right=True)
    [Fragment(text='open', starts=True, ends=True)]

    Args:
        text: Text to split.
        left: No word continues beyond the left end of the text.
        right: No word continues beyond the right end of the text.

    Returns:
        Fragments in order, each once. A part of a word in letters beyond ASCII is left out: their lower case depends
        on what follows.
    """
    found: list[Fragment] = []
    for match in _RUN.finditer(text):
        run, (first, last) = match.group(), match.span()
        starts, ends = left or first > 0, right or last < len(text)
        if run[0].isdecimal():
            starts = ends = False  # a number goes on behind a point
        elif not starts and text[last : last + 1] == ".":
            ends = False  # it may be the end of a number's first half
        if starts and ends:
            found.append(whole(run.lower()[:MAX_TOKEN_CHARS]))
        elif run.isascii() and len(run) <= MAX_TOKEN_CHARS:
            found.append(Fragment(run.lower(), starts, ends))
    return list(dict.fromkeys(found))

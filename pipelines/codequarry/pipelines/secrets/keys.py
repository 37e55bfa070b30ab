"""Finding private keys by their armour (PEM, PGP and PuTTY), also where its end is missing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

PUTTY = "putty-private-key"
_MIN_KEY_BYTES = 40
_MIN_DIFFERENT = 16
"""Different base64 characters that a key has at least; a body of XXXX has one."""
# Between two lines of a key: line breaks, written as such or as escapes, and characters of quotes, comments and lists.
_GAP = rb"(?:\\[nrt]|//(?=[ \t])|[ \t\r\n\"'`+,;#*.>|()\[\]\\]|-(?!-))"
_LINE = rb"[A-Za-z0-9+/]{16,}+={0,2}"
# The last line may be short, but is not a word.
_LAST = rb"(?:" + _GAP + rb"{1,60}+(?=[a-z]*[A-Z0-9+/=])=?[A-Za-z0-9+/]{4,}+={0,2}(?=[ \t]*(?:[\"'`\r\n\\]|\Z)))?"
_BODY = rb"(?P<body>" + _LINE + rb"(?:" + _GAP + rb"{1,60}+" + _LINE + rb")*+" + _LAST + rb")"
_HEADERS = rb"(?:" + _GAP + rb"{0,60}+[A-Z][A-Za-z-]{2,30}: [^\n\\\"]{1,200}(?=\n|\\n)){0,4}"
_ARMOURED = re.compile(
    rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----" + _HEADERS + _GAP + rb"{0,60}+" + _BODY
)
_PUTTY = re.compile(rb"Private-Lines: {0,3}[0-9]{1,4}" + _GAP + rb"{1,60}+" + _BODY)


def find_keys(text: bytes, starts: Iterable[int]) -> Iterator[tuple[int, int, str]]:
    """Yield each key as (start, end, kind); a key in armour includes the armour.

    Args:
        text: Contents of a file.
        starts: Positions where an armour, or the first line of a PuTTY key, begins.

    Yields:
        First byte, end and kind of each key.
    """
    for start, following in pairwise([*sorted(set(starts)), len(text)]):
        if (key := _ARMOURED.match(text, start)) and _is_key(key["body"]):
            yield key.start(), key.end(), "private-key"
        elif not text.startswith(b"PuTTY", start):
            continue
        elif (key := _PUTTY.search(text, start, following)) and _is_key(key["body"]):
            yield key.start("body"), key.end("body"), PUTTY


def _is_key(body: bytes) -> bool:
    return len(body) >= _MIN_KEY_BYTES and len(set(body)) >= _MIN_DIFFERENT

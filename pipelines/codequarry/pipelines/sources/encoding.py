"""Decoding of source text to UTF-8: by its byte-order mark, or by a guess from bytes that are not UTF-8.

Bytes that are valid UTF-8 are never guessed. A guess depends on the bytes alone, and is used only when no other is as
good. Without a guess the file is indexed byte by byte, and its letters beyond ASCII are unknown.
"""

from __future__ import annotations

import codecs
import re

from codequarry.schemas.encodings import MARKED, UNKNOWN, UTF_8, WESTERN, WIDE

_MARKS = tuple(zip((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE), MARKED, strict=True))
# Cyrillic is a candidate so that it is not taken for Western letters; the two cannot be told apart in a few words.
_CANDIDATES = [*WIDE, WESTERN, "cp1251", "koi8_r"]
_SAMPLE_BYTES = 1 << 16
_MOST_CHAOS = 0.1
_LEAST_WIDE = 4
"""Least number of letters that take two bytes: fewer look alike in several encodings."""
_LONGEST_WESTERN_RUN = 3
"""Longest run of bytes beyond ASCII in a Western language, where most stand alone; others write whole words of them."""
_BEYOND_ASCII = re.compile(rb"[\x80-\xff]+")


def decoded_source(raw: bytes) -> tuple[bytes, str]:
    """Return (text in UTF-8, name of its encoding) of a file.

    UTF-16 loses its byte-order mark and nothing else: encoding the text again gives the bytes of the file. Bytes
    without a known encoding are returned as they are, with ``unknown-8bit``.

    >>> decoded_source("é\\n".encode("utf-16-le").join([codecs.BOM_UTF16_LE, b""]))
    (b'\\xc3\\xa9\\n', 'utf-16-le')
    >>> decoded_source(b"# caf\\xe9\\n")
    (b'# caf\\xc3\\xa9\\n', 'cp1252')
    """
    for mark, encoding in _MARKS:
        if raw.startswith(mark):
            return _decoded(raw[len(mark) :], encoding) or (raw, UNKNOWN)
    try:
        raw.decode(UTF_8)
    except UnicodeDecodeError:
        guess = None if b"\0" in raw else _guess(raw)
        return (_decoded(raw, guess) if guess else None) or (raw, UNKNOWN)
    return raw, UTF_8


def _decoded(raw: bytes, encoding: str) -> tuple[bytes, str] | None:
    """Return the same text in UTF-8 and the encoding; None if the conversion is not reversible."""
    try:
        text = raw.decode(encoding)
        return (text.encode(UTF_8), encoding) if text.encode(encoding) == raw else None
    except UnicodeError:
        return None


def _guess(raw: bytes) -> str | None:
    from charset_normalizer import from_bytes

    matches = from_bytes(_sample(raw), cp_isolation=_CANDIDATES, preemptive_behaviour=False, enable_fallback=False)
    scores = sorted((match.chaos, -match.coherence, match.encoding) for match in matches)
    wide = [(score, name) for *score, name in scores if name in WIDE and _wide_letters(raw, name) >= _LEAST_WIDE]
    if wide and scores[0][2] == wide[0][1]:
        (best, name), *others = wide
        alone = all(other != best for other, _ in others)
        return name if alone and best[0] <= _MOST_CHAOS else None
    runs = [len(run) for run in _BEYOND_ASCII.findall(raw)]
    western = max(runs) <= _LONGEST_WESTERN_RUN and 2 * runs.count(1) >= len(runs)
    return WESTERN if western else None


def _sample(raw: bytes) -> bytes:
    """Return the first lines that hold more than ASCII: code around comments would outweigh them."""
    lines: list[bytes] = []
    size = 0
    for line in raw.split(b"\n"):
        if not line.isascii():
            lines.append(line)
            size += len(line)
            if size > _SAMPLE_BYTES:
                break
    return b"\n".join(lines)


def _wide_letters(raw: bytes, encoding: str) -> int:
    """Return the number of characters of more than one byte; 0 where the bytes are invalid in the encoding."""
    sample = _sample(raw)
    try:
        text = sample.decode(encoding)
    except UnicodeDecodeError:
        return 0
    return len(sample) - len(text)

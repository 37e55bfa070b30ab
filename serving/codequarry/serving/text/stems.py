"""Words of prose for index and query: stop words are left out, endings removed.

The stemmer is deliberately crude: both sides use it, so a stem need not be a word. It joins the forms that programmers
use for one word (parsing, parser, parsed; session, sessions) and leaves short words alone.
"""

from __future__ import annotations

from functools import lru_cache

STOP_WORDS = frozenset(
    "a about across an and are as at be between by can could do does during for from get gets had has have how i if in "
    "into is it its me my not of on or our should that the their then there these they this those to used uses use "
    "using use was we what when where which who why will with would you your than via".split()
)
"""Left out of questions; code keeps them."""

_SUFFIXES = (
    *("ization", "isation", "ations", "ation", "ition", "tion", "sion", "ing", "ers", "er", "ed", "or", "ment"),
    *("able", "ance", "ence", "ive", "ly", "e", "y"),
)
_LEAST = 4
"""Letters that a stem keeps."""


@lru_cache(maxsize=16_384)
def stem(word: str) -> str:
    """Remove the ending of a word.

    >>> [stem(word) for word in ("parsing", "parser", "parsed", "sessions", "queries", "class", "type")]
    ['pars', 'pars', 'pars', 'session', 'quer', 'class', 'type']

    Args:
        word: Word in lower case.

    Returns:
        The stem.
    """
    word = _singular(word)
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _LEAST:
            return word[: -len(suffix)]
    return word


def _singular(word: str) -> str:
    if len(word) > _LEAST and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > _LEAST - 1 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word

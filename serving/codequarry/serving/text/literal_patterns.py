"""Patterns without regular expressions: exact text, whole words, phrases; and what a matching file must contain."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

from codequarry.serving.request.deadline import Deadline
from codequarry.serving.text.analyzer import MAX_TOKEN_CHARS, Fragment, fragments, whole, words

Span = tuple[int, int]
"""Start and end in characters; never empty."""

_MAX_RUN = 256
"""Longest unbroken run of word characters and dots that is split into words; longer ones are data."""
_RUN = re.compile(r"[\w.]*")
_ASCII = re.compile(r"[\x01-\x09\x0b-\x7f]+")


class Required(NamedTuple):
    """Content that every file with a match has."""

    fragments: tuple[Fragment, ...] = ()
    """Parts of words; a file holds all of them, not necessarily in the same chunk."""
    in_line: bool = False
    """A match lies in one line."""
    folded: bool = False
    """`TextPattern.find` wants text in lower case."""
    found: bool = True
    """`TextPattern.find` leaves texts out."""


class TextPattern(Protocol):
    """Compiled pattern."""

    @property
    def required(self) -> Required:
        """Content by which an index can be searched before any text is read."""
        ...

    def find(self, data: bytes, at: int) -> int:
        """Find where a match may begin.

        Args:
            data: Text in UTF-8.
            at: Where to begin.

        Returns:
            The first byte at or behind ``at`` such that no match begins between them; -1 where there is none.
        """
        ...

    def spans(self, text: str, deadline: Deadline) -> Iterator[Span]:
        """Find matches in a file's text, leftmost first, without overlaps.

        Args:
            text: Text of the file.
            deadline: Deadline of the request.

        Returns:
            Start and end of each match.

        Raises:
            OutOfTimeError: The deadline passed during the search.
        """
        ...


class OutOfTimeError(Exception):
    """Raised when the deadline passes inside a file; never leaves the package."""


def fold(text: str) -> str:
    """Convert the text to lower case, character for character.

    `str.lower` does that except for two letters: İ would become two characters, and stays as it is; the final sigma
    depends on what follows, and is like any other.

    >>> fold("ΟΔΟΣ Ab"), fold("İA")
    ('οδοσ ab', 'İa')
    """
    if text.isascii():
        return text.lower()
    return "İ".join(part.lower() for part in text.split("İ")).replace("ς", "σ")


@dataclass(frozen=True)
class Literal:
    """Pattern of text as typed."""

    text: str
    whole_words: bool
    case_sensitive: bool

    @property
    def required(self) -> Required:
        held = fragments(self.text, left=self.whole_words, right=self.whole_words)
        in_line, found = "\n" not in self.text, bool(self._needle)
        if self.case_sensitive:
            return Required(tuple(held), in_line, found=found)
        # For other scripts, lower case differs between the index and `fold`.
        held = [fragment for fragment in held if fragment.text.isascii()]
        return Required(tuple(held), in_line, folded=True, found=found)

    @cached_property
    def _needle(self) -> bytes:
        """A text of one line that stands in every match."""
        pieces = self.text.split("\n") if self.case_sensitive else _ASCII.findall(fold(self.text))
        return longest(pieces).encode("utf-8", "surrogatepass")

    def find(self, data: bytes, at: int) -> int:
        return data.find(self._needle, at)

    def spans(self, text: str, deadline: Deadline) -> Iterator[Span]:
        needle = self.text if self.case_sensitive else fold(self.text)
        haystack = text if self.case_sensitive else fold(text)
        at = haystack.find(needle)
        while at >= 0:
            end = at + len(needle)
            if not self.whole_words or self._stands_alone(text, at, end):
                yield at, end
                at = haystack.find(needle, end)
            else:
                at = haystack.find(needle, at + 1)

    def _stands_alone(self, text: str, start: int, end: int) -> bool:
        return not (
            (_in_word(self.text[0]) and start > 0 and _in_word(text[start - 1]))
            or (_in_word(self.text[-1]) and end < len(text) and _in_word(text[end]))
        )


@dataclass(frozen=True)
class Phrase:
    """Pattern of words in this order, with anything between them that is not a word."""

    words: tuple[str, ...]
    """Not empty, folded."""

    @classmethod
    def of(cls, text: str) -> Phrase | None:
        """Make a phrase of the words of a text; None when it has none."""
        found = tuple(fold(word.text) for word in words(text))
        return cls(found) if found else None

    @property
    def required(self) -> Required:
        held = tuple(whole(word[:MAX_TOKEN_CHARS]) for word in self._ascii_words)
        return Required(held, folded=True, found=bool(held))

    @cached_property
    def _ascii_words(self) -> tuple[str, ...]:
        """The words whose lower case is the same everywhere."""
        return tuple(word for word in dict.fromkeys(self.words) if word.isascii())

    def find(self, data: bytes, at: int) -> int:
        return data.find(longest(self._ascii_words).encode(), at)

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        # Words hold no gap character and the gap is possessive, so the search is linear for each word.
        return re.compile(r"[\W_]*+".join(re.escape(word) for word in self.words))

    def spans(self, text: str, deadline: Deadline) -> Iterator[Span]:
        folded, at, tried = fold(text), 0, 0
        while (match := self._regex.search(folded, at)) is not None:
            tried += 1
            if tried % 1024 == 0 and deadline.passed:
                raise OutOfTimeError
            start, end = match.span()
            if _amid(text, start) or _amid(text, end):
                at = start + 1
            elif (first := _run_start(text, start)) < 0:
                at = _run_end(text, start)
            elif self._at_words(text, first, start, end):
                yield start, end
                at = end
            else:
                at = start + 1

    def _at_words(self, text: str, first: int, start: int, end: int) -> bool:
        """Check that a match covers whole words: it neither starts nor ends inside a word, nor joins two.

        Args:
            text: Text of the file.
            first: Start of the run around the first word.
            start: Start of the match.
            end: End of the match.

        Returns:
            True for whole words.
        """
        last = _run_end(text, end)
        if last - end > _MAX_RUN:
            return False
        parts = [word for word in words(text[first:last]) if start <= first + word.start and first + word.end <= end]
        return (
            tuple(fold(word.text) for word in parts) == self.words
            and first + parts[0].start == start
            and first + parts[-1].end == end
        )


def _amid(text: str, at: int) -> bool:
    """Tell whether the position cannot be a word boundary: it is between two small letters or two digits."""
    pair = text[at - 1 : at + 1] if at else ""
    return len(pair) == 2 and pair.isascii() and ((pair.isalpha() and pair.islower()) or pair.isdecimal())


def _run_start(text: str, at: int) -> int:
    """Return the start of the run around a character; -1 when it is too far away."""
    first = at
    while first > 0 and (_in_word(text[first - 1]) or text[first - 1] == "."):
        first -= 1
        if at - first > _MAX_RUN:
            return -1
    return first


def _run_end(text: str, at: int) -> int:
    match = _RUN.match(text, at)
    return match.end() if match else at


def _in_word(character: str) -> bool:
    """Tell whether a character matches ``\\w`` of Python's regular expressions."""
    return character.isalnum() or character == "_"


def longest(pieces: Iterable[str]) -> str:
    """Return the longest piece, the first among equals; "" when there is none."""
    return max(pieces, key=len, default="")

"""Regular expressions by RE2: linear time for every pattern; no back-references, no look-around."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from codequarry.schemas.errors import InvalidArgumentError
from codequarry.serving.request.deadline import Deadline
from codequarry.serving.text.analyzer import Fragment, fragments
from codequarry.serving.text.literal_patterns import OutOfTimeError, Required, Span

if TYPE_CHECKING:
    import re2

_MAX_MEM = 4 << 20
"""Bytes RE2 may take for one pattern, program and states; eight calls may run at once."""
_MAX_PROGRAM = 5_000
"""Instructions of a pattern: what a byte may cost where RE2 has to follow all alternatives one by one."""
_WINDOW = 1 << 16
"""Bytes searched between two looks at the clock."""

_SYNTAX = "write RE2 syntax, or use mode 'exact' for text as it is"
_EXPLAINED = {
    "invalid perl operator": ("look-around and the like are unknown to RE2", "match more and read the results"),
    "invalid escape sequence": ("an escape is unknown to RE2, which has no back-references", _SYNTAX),
    "invalid repetition size": ("a repetition count is over 1000", "use * or +, or a smaller count"),
    "invalid character class range": ("a character class is unknown or runs backwards", _SYNTAX),
    "trailing \\": ("ends in a backslash", _SYNTAX),
    "missing ]": ("a character class is not closed", _SYNTAX),
    "missing )": ("a group is not closed", _SYNTAX),
    "unexpected )": ("a group is closed that was not opened", _SYNTAX),
    "no argument for repetition operator": ("a repetition has nothing to repeat", _SYNTAX),
    "bad repetition operator": ("a repetition is repeated", _SYNTAX),
    "pattern too large - compile failed": ("the pattern is too large", "use fewer or smaller repetition counts"),
}


@dataclass(frozen=True)
class Regex:
    """Compiled regular expression."""

    required: Required
    _compiled: re2._Regexp
    _line_by_line: bool

    @classmethod
    def of(cls, pattern: str, *, case_sensitive: bool) -> Regex:
        """Compile a pattern.

        ``^`` and ``$`` are ends of lines. A match stays inside a line unless the pattern names ``\\n``.

        Args:
            pattern: Regular expression in RE2's syntax.
            case_sensitive: Tell upper from lower case.

        Returns:
            The compiled expression.

        Raises:
            InvalidArgumentError: RE2 cannot read the pattern, it is too large, or it can match the empty text.
        """
        import re2

        line_by_line = "\n" not in pattern and "\\n" not in pattern
        options = re2.Options()
        options.max_mem = _MAX_MEM
        options.never_nl = line_by_line
        options.case_sensitive = case_sensitive
        options.never_capture = True
        options.log_errors = False
        try:
            compiled = re2.compile(f"(?m){pattern}".encode(), options)
        except re2.error as error:
            raise _explain_refusal(error) from None
        finally:
            # The library keeps its last 128 patterns, with all the memory each was allowed.
            re2.purge()
        if compiled.programsize > _MAX_PROGRAM:
            raise InvalidArgumentError(
                f"pattern: compiles to {compiled.programsize} instructions, expected at most {_MAX_PROGRAM}",
                suggestion="use fewer or smaller repetition counts and classes",
            )
        if any((match := compiled.search(probe)) and match.start() == match.end() for probe in (b"", b"a")):
            raise InvalidArgumentError(
                "pattern: can match the empty text, and would do so everywhere",
                suggestion="let it match at least one character, e.g. + instead of *",
            )
        held = required_fragments(pattern) if case_sensitive else ()
        return cls(Required(held, line_by_line), compiled, line_by_line)

    def find(self, data: bytes, at: int) -> int:
        match = self._compiled.search(data, at)
        return match.start() if match else -1

    def spans(self, text: str, deadline: Deadline) -> Iterator[Span]:
        data = text.encode()
        same = len(data) == len(text)
        byte = character = 0
        for start, end in self._windows(data):
            if deadline.passed:
                raise OutOfTimeError
            for match in self._compiled.finditer(data, start, end):
                first, last = match.span()
                if first == last:
                    continue
                if same:
                    yield first, last
                    continue
                character += len(data[byte:first].decode("utf-8", "ignore"))
                byte = first
                yield character, character + len(data[first:last].decode("utf-8", "ignore"))

    def _windows(self, data: bytes) -> Iterator[tuple[int, int]]:
        start = 0
        while start < len(data):
            end = data.find(b"\n", start + _WINDOW) + 1 if self._line_by_line else 0
            end = end or len(data)
            yield start, end
            start = end


def _explain_refusal(error: Exception) -> InvalidArgumentError:
    """Return RE2's reason in our own words, because its messages repeat the pattern."""
    raw = error.args[0] if error.args else ""
    reason = (raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)).split(":")[0]
    found, suggestion = _EXPLAINED.get(reason, ("RE2 cannot read it", _SYNTAX))
    return InvalidArgumentError(f"pattern: {found}", suggestion=suggestion)


def required_fragments(pattern: str) -> tuple[Fragment, ...]:
    """Return parts of words that every match of a case-sensitive pattern holds.

    >>> required_fragments(r"class \\w+Error:")
    (Fragment(text='class', starts=False, ends=True), Fragment(text='error', starts=False, ends=True))
    """
    return tuple(dict.fromkeys(chain.from_iterable(map(fragments, required_literals(pattern)))))


_COUNT = re.compile(r"\{\d+(?:,\d*)?\}")
_NAMED_GROUP = re.compile(r"\(\?P?<\w+>")
_STOPS = "dDsSwWbBAznrtfva"
"""Escapes that are no literal and end a run of them; after any other letter or digit nothing is concluded."""


def required_literals(pattern: str) -> list[str]:
    """Return texts that every match of a case-sensitive pattern holds.

    The list is incomplete rather than wrong: the scan ends at syntax that it does not understand.

    >>> required_literals(r"^class (\\w+)\\(Base\\):"), required_literals("ab*c+d"), required_literals("open|close")
    (['class ', '(Base):'], ['a', 'c', 'd'], [])
    """
    found: list[str] = []
    run, at = "", 0
    while at < len(pattern):
        character = pattern[at]
        atom = ""
        if character == "|":
            return []
        if character == "(":
            if pattern.startswith("(?", at) and not (pattern.startswith("(?:", at) or _NAMED_GROUP.match(pattern, at)):
                return []  # flags, which may change what everything means
            at = _after_group(pattern, at)
        elif character == "[":
            at = _after_class(pattern, at)
        elif character == "\\":
            escaped = pattern[at + 1 : at + 2]
            if escaped.isascii() and escaped and not escaped.isalnum():
                atom = escaped
            elif not escaped or escaped not in _STOPS:
                return []
            at += 2
        else:
            atom = "" if character in ".^$" else character
            at += 1
        if at < 0:
            return []
        quantifier = _quantifier(pattern, at)
        if quantifier and quantifier != "+":
            atom = ""
        run += atom
        if not atom or quantifier:
            found.append(run)
            run = ""
        at += len(quantifier)
        if quantifier and pattern[at : at + 1] == "?":
            at += 1
    return [literal for literal in (*found, run) if literal]


def _quantifier(pattern: str, at: int) -> str:
    if pattern[at : at + 1] in ("*", "+", "?"):
        return pattern[at]
    count = _COUNT.match(pattern, at)
    return count.group() if count else ""


def _after_class(pattern: str, at: int) -> int:
    """Return the index behind the character class that opens here; -1 when that is not clear."""
    at += 2 if pattern.startswith("[^", at) else 1
    first = True
    while at < len(pattern):
        character = pattern[at]
        if character == "[":
            return -1  # "[:alpha:]" or a bracket: too rare to tell apart
        if character == "]" and not first:
            return at + 1
        if character == "\\":
            at += 1
        at += 1
        first = False
    return -1


def _after_group(pattern: str, at: int) -> int:
    """Return the index behind the group that opens here; -1 when that is not clear."""
    depth = 0
    while at < len(pattern):
        character = pattern[at]
        if character == "[":
            at = _after_class(pattern, at)
            if at < 0:
                return -1
            continue
        if character == "\\":
            if pattern.startswith("\\Q", at):
                return -1
            at += 1
        elif pattern.startswith("(?", at) and not pattern.startswith("(?:", at) and not _NAMED_GROUP.match(pattern, at):
            return -1
        depth += (character == "(") - (character == ")")
        at += 1
        if not depth:
            return at
    return -1

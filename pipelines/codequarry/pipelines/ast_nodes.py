"""What a reader sees of a definition without opening it: signature, documentation, parent and exact place.

Documentation is the comment that ends on the line above, or above the attributes and decorators in between, or the
string that begins the body where the language has docstrings. A comment after code on its own line documents nothing.
"""

from __future__ import annotations

import inspect
import re
from bisect import bisect_left
from collections.abc import Iterator

from codequarry.pipelines.definitions import Outline
from codequarry.pipelines.source_text import SourceText
from codequarry.schemas.records import AstNode, Definition, Leading

MAX_SIGNATURE_CHARS = 300
MAX_DOC_CHARS = 2_000
# A character takes four bytes at most, and indentation is still to be removed.
_SIGNATURE_BYTES = 8 * MAX_SIGNATURE_CHARS
_DOC_BYTES = 8 * MAX_DOC_CHARS
_GAP_BYTES = 200

_CALLABLE = frozenset({"function", "method", "macro"})
_MODIFIERS = re.compile(rb"[A-Za-z_][A-Za-z_ \t]*")
_COMMENT_GAP = re.compile(rb"[ \t]*(?:\r?\n)?[A-Za-z_ \t]*")
_ATTRIBUTE_GAP = re.compile(rb"\s*[A-Za-z_ \t]*")
_BLOCK_COMMENTS = (b"/*", b"<!--", b"=begin", b"{-", b"--[[", b"--[=")
_NO_DOC = re.compile(rb"#!|//!|(?:--+|\{-+)[ \t]*\^")
"""A line that starts programs, documentation of what it stands in, and Haddock's of what stands before it."""
_OPENER = re.compile(r"^(?:/\*+!?|<!--|=begin|//+!?|#+|--\[=*\[|(?:--+|\{-+)(?:[ \t]*\|)?)[ \t]?")
_CLOSER = re.compile(r"[ \t]*(?:\*+/|-->|\n=end|-+\}|(?<!\])\]=*\])$")
_STAR = re.compile(r"^[ \t]*\*+[ \t]?")
_DOCSTRING = re.compile(r"""^~?[A-Za-z]*(\"{3}|'{3}|"|')(.*)\1$""", re.DOTALL)
_OPENING = " {([;,"


def ast_nodes(outline: Outline, text: SourceText) -> tuple[AstNode, ...]:
    """The definitions of a file with what describes them, in the order of the outline."""
    definitions = outline.definitions
    starts = text.lines_at([entry.start_byte for entry in definitions])
    ends = text.lines_at([max(entry.end_byte - 1, entry.start_byte) for entry in definitions])
    names = zip(*text.places_at([entry.name_byte for entry in definitions]), strict=True)
    surroundings = Surroundings(outline.leading, text.data)
    return tuple(
        AstNode(
            entry.qualified_name,
            entry.name,
            entry.kind,
            entry.start_byte,
            entry.end_byte,
            start_line,
            end_line,
            entry.name_byte,
            *name_place,
            surroundings.signature(entry),
            surroundings.doc(entry),
            entry.parent,
        )
        for entry, start_line, end_line, name_place in zip(definitions, starts, ends, names, strict=True)
    )


class Surroundings:
    """The comments, attributes and modifiers around the definitions of one file."""

    def __init__(self, leading: tuple[Leading, ...], data: bytes) -> None:
        self._leading = leading
        self._starts = [entry.start for entry in leading]
        self._data = data

    def signature(self, entry: Definition) -> str:
        """The definition up to its body on one line, comments left out."""
        start = self._declaration_start(entry.start_byte)
        end = entry.body_byte
        if end == entry.end_byte and entry.kind not in _CALLABLE:
            line_end = self._data.find(b"\n", entry.name_byte, end)
            end = line_end if line_end >= 0 else end
        parts: list[bytes] = []
        end = min(end, start + _SIGNATURE_BYTES)
        at = bisect_left(self._starts, start)
        while at < len(self._leading) and self._leading[at].start < end:
            if self._leading[at].is_comment:
                parts.append(self._data[start : self._leading[at].start])
                start = self._leading[at].end
            at += 1
        parts.append(self._data[start:end])
        words = " ".join(b" ".join(parts).decode("utf-8", "replace").split())
        return _without_opening(words[:MAX_SIGNATURE_CHARS])

    def doc(self, entry: Definition) -> str:
        """The text of the docstring, or else of the comment above."""
        declared = self._declaration_start(entry.start_byte)
        start, end = self._docstring(entry, declared)
        if end:
            return clean_docstring(self._data[start:end].decode("utf-8", "replace"))
        return clean_comment([self._data[start:end][:_DOC_BYTES] for start, end in self._comments_above(declared)])

    def doc_ranges(self, entry: Definition) -> list[tuple[int, int]]:
        """Where that text is written: inside the quotes of the docstring, or the comments above with their markers.

        Empty when there is none, and where blanks in its place would be another program: strings that are joined.
        """
        declared = self._declaration_start(entry.start_byte)
        start, end = self._docstring(entry, declared)
        if not end:
            return self._comments_above(declared)
        match = _DOCSTRING.match(self._data[start:end].decode("latin-1"))  # a byte is a character
        if match is None or (len(match[1]) == 1 and "\n" in match[2]):
            return []
        return [(start + match.start(2), start + match.end(2))]

    def _docstring(self, entry: Definition, start: int) -> tuple[int, int]:
        """The string inside that documents it, or one in an attribute above; (0, 0) when there is none."""
        if entry.docstring[1]:
            return entry.docstring
        while (above := self._before(start)) is not None:
            if not _ATTRIBUTE_GAP.fullmatch(self._data, above.end, start):
                break
            if above.doc[1]:
                return above.doc
            start = above.start
        return 0, 0

    def _declaration_start(self, start: int) -> int:
        """Where the modifiers and template parameters before a definition begin."""
        while True:
            line_start = self._data.rfind(b"\n", max(0, start - _GAP_BYTES), start) + 1
            before = self._data[line_start:start].lstrip() if line_start or start < _GAP_BYTES else b""
            if before and _MODIFIERS.fullmatch(before):
                return start - len(before)
            above = self._before(start)
            if above is None or above.is_comment or above.is_attribute:
                return start
            if not _ATTRIBUTE_GAP.fullmatch(self._data, above.end, start):
                return start
            start = above.start

    def _comments_above(self, start: int) -> list[tuple[int, int]]:
        """The comment that ends right above: one block, or several lines in their order."""
        found: list[tuple[int, int]] = []
        while (above := self._before(start)) is not None:
            written = self._data[above.start : above.end].rstrip()
            end = above.start + len(written)
            if above.is_attribute and not found:
                if not _ATTRIBUTE_GAP.fullmatch(self._data, end, start):
                    break
            elif not above.is_comment or not _COMMENT_GAP.fullmatch(self._data, end, start):
                break
            else:
                is_block = written.startswith(_BLOCK_COMMENTS)
                if not self._starts_line(above.start) or (is_block and found) or len(found) > MAX_DOC_CHARS:
                    break
                if _NO_DOC.match(written):
                    break
                found.insert(0, (above.start, end))
                if is_block:
                    break
            start = above.start
        return found

    def _starts_line(self, start: int) -> bool:
        near = max(0, start - _GAP_BYTES)
        line_start = self._data.rfind(b"\n", near, start) + 1
        return not self._data[line_start or near : start].strip()

    def _before(self, start: int) -> Leading | None:
        """The last comment or attribute that ends at most a line's length before a position."""
        at = bisect_left(self._starts, start) - 1
        if at < 0:
            return None
        above = self._leading[at]
        return above if start - _GAP_BYTES <= above.end <= start else None


def _without_opening(signature: str) -> str:
    """A signature without what only announces its body.

    >>> _without_opening("def f(x):"), _without_opening("def f: Int ="), _without_opening("const f = () =>")
    ('def f(x)', 'def f: Int', 'const f = () =>')
    """
    trimmed = signature.removesuffix(" where").rstrip(_OPENING)
    while trimmed[-1:] in (":", "=") and (trimmed[-2:-1].isalnum() or trimmed[-2:-1] in (" ", ")", "]", "_", '"')):
        trimmed = trimmed[:-1].rstrip(_OPENING)
    return trimmed


def clean_docstring(written: str) -> str:
    match = _DOCSTRING.match(written)
    return inspect.cleandoc(match.group(2) if match else written)[:MAX_DOC_CHARS].rstrip()


def clean_comment(comments: list[bytes]) -> str:
    """Comments without their markers, nor lines that only draw a rule.

    >>> clean_comment([b"/**\\n * Opens it.\\n *\\n * Twice is an error.\\n */"])
    'Opens it.\\n\\nTwice is an error.'
    >>> clean_comment([b"# ----", b"# Says hello."])
    'Says hello.'
    """
    lines: list[str] = []
    for written in _single(comments):
        text = _CLOSER.sub("", _OPENER.sub("", written))
        first, *others = text.split("\n")
        if any(map(_STAR.match, others)):
            lines += [first, *(_STAR.sub("", line) for line in others)]
        else:
            lines += inspect.cleandoc(text).split("\n")
    while lines and not any(map(str.isalnum, lines[0])):
        lines.pop(0)
    while lines and not any(map(str.isalnum, lines[-1])):
        lines.pop()
    return "\n".join(line.rstrip() for line in lines)[:MAX_DOC_CHARS].strip()


def _single(comments: list[bytes]) -> Iterator[str]:
    """Comments as text, those of one line each apart: in Haskell's grammar such lines are one comment together."""
    for comment in comments:
        text = comment.decode("utf-8", "replace").replace("\r\n", "\n")
        if text.startswith("--") and not text.startswith(("--[[", "--[=")):
            yield from (line.strip() for line in text.split("\n"))
        else:
            yield text

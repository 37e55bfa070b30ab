"""Description of definitions for readers: signature, documentation, parent and exact place.

Documentation is the comment that ends on the line above, or above the attributes and decorators in between. In
languages with docstrings it is also the string that begins the body. A comment after code on its own line documents
nothing.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

from codequarry.pipelines.syntax.text import SourceText
from codequarry.schemas.records import AstNode, Definition, Leading

MAX_SIGNATURE_CHARS = 300
MAX_DOC_CHARS = 2_000
# A character takes four bytes at most, and indentation is still to be removed.
_SIGNATURE_BYTES = 8 * MAX_SIGNATURE_CHARS
_DOC_BYTES = 8 * MAX_DOC_CHARS
_GAP_BYTES = 200
_MIN_DOC_CHARS = 1 << 16
_DOC_CHARS_PER_BYTE = 4

_CALLABLE = frozenset({"function", "method", "macro"})
_MODIFIERS = re.compile(rb"[A-Za-z_][A-Za-z_ \t]*")
_COMMENT_GAP = re.compile(rb"[ \t]*(?:\r?\n)?[A-Za-z_ \t]*")
_ATTRIBUTE_GAP = re.compile(rb"\s*[A-Za-z_ \t]*")
_BLOCK_COMMENTS = (b"/*", b"<!--", b"=begin", b"{-", b"--[[", b"--[=")
_NO_DOC = re.compile(rb"#!|//!|(?:--+|\{-+)[ \t]*\^")
"""Shebang lines, documentation of the enclosing item, and Haddock's documentation of the preceding item."""
_OPENER = re.compile(r"^(?:/\*+!?|<!--|=begin|//+!?|#+|--\[=*\[|(?:--+|\{-+)(?:[ \t]*\|)?)[ \t]?")
_CLOSERS = (("*/", "*"), ("-->", ""), ("\n=end", ""), ("-}", "-"))
"""Ends of comments, and the mark that may be repeated before each."""
_STAR = re.compile(r"^[ \t]*\*+[ \t]?")
_DOCSTRING = re.compile(r"""^~?[A-Za-z]*(\"{3}|'{3}|"|')(.*)\1$""", re.DOTALL)
_OPENING = " {([;,"


def ast_nodes(definitions: Sequence[Definition], leading: tuple[Leading, ...], text: SourceText) -> tuple[AstNode, ...]:
    """Return definitions of a file with their descriptions, in their order.

    Args:
        definitions: The definitions.
        leading: Comments and attributes of the file, by start.
        text: Text of the file.

    Returns:
        Rows of ``ast_nodes`` or ``ast_members``.
    """
    starts = text.lines_at([entry.start_byte for entry in definitions])
    ends = text.lines_at([max(entry.end_byte - 1, entry.start_byte) for entry in definitions])
    names = zip(*text.places_at([entry.name_byte for entry in definitions]), strict=True)
    surroundings = Surroundings(leading, text.data)
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
        self._declared: dict[int, int] = {}
        self._docs: dict[int, str] = {}
        """Documentation by start of the declaration: a thousand names may be declared below one comment."""
        self._attribute_docs: dict[int, tuple[int, int]] = {}
        """Range of the string in the attributes right above, by start of a comment or attribute; (0, 0) for none."""
        self._doc_chars = _MIN_DOC_CHARS + _DOC_CHARS_PER_BYTE * len(data)

    def signature(self, entry: Definition) -> str:
        """Return the definition up to its body on one line, without comments."""
        start = self._declaration_start(entry.start_byte)
        end = entry.body_byte
        if end == entry.end_byte and entry.kind not in _CALLABLE:
            line_end = self._data.find(b"\n", entry.name_byte, min(end, max(entry.name_byte, start) + _SIGNATURE_BYTES))
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
        """Return the text of the docstring, or else of the comment above.

        One comment above a declaration of a thousand names documents each of them; once the texts exceed a limit for
        the file, the result is "".
        """
        declared = self._declaration_start(entry.start_byte)
        start, end = self._docstring(entry, declared)
        if end:
            doc = clean_docstring(self._data[start:end].decode("utf-8", "replace"))
        else:
            if declared not in self._docs:
                comments = [self._data[start:end][:_DOC_BYTES] for start, end in self._comments_above(declared)]
                self._docs[declared] = clean_comment(comments)
            doc = self._docs[declared]
        self._doc_chars -= len(doc)
        return doc if self._doc_chars >= 0 else ""

    def doc_ranges(self, entry: Definition) -> list[tuple[int, int]]:
        """Return the ranges of that text: inside the quotes of the docstring, or the comments above with their markers.

        Empty without documentation, and for joined strings, where blanks in place of the text would change the program.
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
        """Return the range of the docstring, or of a string in an attribute above; (0, 0) for none."""
        if entry.docstring[1]:
            return entry.docstring
        passed: list[int] = []
        doc = (0, 0)
        while (above := self._before(start)) is not None:
            if not _ATTRIBUTE_GAP.fullmatch(self._data, above.end, start):
                break
            if above.doc[1]:
                doc = above.doc
                break
            start = above.start
            if start in self._attribute_docs:
                doc = self._attribute_docs[start]
                break
            passed.append(start)
        self._attribute_docs.update(dict.fromkeys(passed, doc))
        return doc

    def _declaration_start(self, start: int) -> int:
        """Return the start of the modifiers and template parameters before a definition."""
        if start not in self._declared:
            self._declared[start] = self._find_declaration_start(start)
        return self._declared[start]

    def _find_declaration_start(self, start: int) -> int:
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
        """Return the comment that ends right above: one block, or several lines in their order."""
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
        """Return the last comment or attribute that ends at most `_GAP_BYTES` before a position."""
        at = bisect_left(self._starts, start) - 1
        if at < 0:
            return None
        above = self._leading[at]
        return above if start - _GAP_BYTES <= above.end <= start else None


def _without_opening(signature: str) -> str:
    """Return a signature without the tokens that open its body.

    >>> _without_opening("def f(x):"), _without_opening("def f: Int ="), _without_opening("const f = () =>")
    ('def f(x)', 'def f: Int', 'const f = () =>')
    """
    trimmed = signature.removesuffix(" where").rstrip(_OPENING)
    while trimmed[-1:] in (":", "=") and (trimmed[-2:-1].isalnum() or trimmed[-2:-1] in (" ", ")", "]", "_", '"')):
        trimmed = trimmed[:-1].rstrip(_OPENING)
    return trimmed


def clean_docstring(written: str) -> str:
    match = _DOCSTRING.match(written)
    return "\n".join(_unindented(match.group(2) if match else written))[:MAX_DOC_CHARS].rstrip()


def clean_comment(comments: list[bytes]) -> str:
    """Return comments without their markers and without lines that only draw a rule.

    >>> clean_comment([b"/**\\n * Opens it.\\n *\\n * Twice is an error.\\n */"])
    'Opens it.\\n\\nTwice is an error.'
    >>> clean_comment([b"# ----", b"# Says hello."])
    'Says hello.'
    """
    lines: list[str] = []
    for written in _single(comments):
        text = _without_closer(_OPENER.sub("", written))
        first, *others = text.split("\n")
        if any(map(_STAR.match, others)):
            lines += [first, *(_STAR.sub("", line) for line in others)]
        else:
            lines += _unindented(text) or [""]
    return "\n".join(line.rstrip() for line in _trimmed(lines, _holds_words))[:MAX_DOC_CHARS].strip()


def _without_closer(text: str) -> str:
    """Return a comment without the mark that ends it.

    >>> _without_closer("Opens it. **/"), _without_closer("Opens it. ]==]"), _without_closer("a[0]")
    ('Opens it.', 'Opens it.', 'a[0]')
    """
    # No regular expression: one that begins with a run of spaces takes quadratic time in the run.
    for closer, repeated in _CLOSERS:
        if text.endswith(closer):
            shorter = text.removesuffix(closer)
            return (shorter.rstrip(repeated) if repeated else shorter).rstrip(" \t")
    if text.endswith("]"):
        bracket = text[:-1].rstrip("=")
        if bracket.endswith("]") and not bracket.endswith("]]"):
            return bracket[:-1].rstrip(" \t")
    return text


def _unindented(text: str) -> list[str]:
    """Return the lines of a text as `inspect.cleandoc` does, in time linear in the text.

    >>> _unindented("\\n\\n  One.\\n    Two.\\n")
    ['One.', '  Two.']
    """
    first, *others = text.expandtabs().split("\n")
    margin = min((len(line) - len(line.lstrip()) for line in others if not line.isspace() and line), default=0)
    return _trimmed([first.lstrip(), *(line[margin:] for line in others)], bool)


def _trimmed(lines: list[str], keeps: Callable[[str], bool]) -> list[str]:
    """Return the lines from the first to the last for which `keeps` is true."""
    kept = [at for at, line in enumerate(lines) if keeps(line)]
    return lines[kept[0] : kept[-1] + 1] if kept else []


def _holds_words(line: str) -> bool:
    return any(map(str.isalnum, line))


def _single(comments: list[bytes]) -> Iterator[str]:
    """Yield comments as text, with line comments one by one: in Haskell's grammar adjacent ones are one comment."""
    for comment in comments:
        text = comment.decode("utf-8", "replace").replace("\r\n", "\n")
        if text.startswith("--") and not text.startswith(("--[[", "--[=")):
            yield from (line.strip() for line in text.split("\n"))
        else:
            yield text

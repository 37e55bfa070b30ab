"""Training pairs of the encoder: texts that mean the same, found in source files and in their history by syntax.

* ``doc``: the first paragraph of a definition's documentation, and the definition without its documentation;
* ``name``: the name of an undocumented definition and its body;
* ``block``: a comment inside a body and the lines below it;
* ``commit``: the message of a commit, and a definition that it changed.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from codequarry.pipelines.syntax.definitions.definitions import Leading, Outline, outline
from codequarry.pipelines.syntax.definitions.nodes import Surroundings, clean_comment
from codequarry.pipelines.syntax.grammars import grammar
from codequarry.pipelines.syntax.parsing import parse
from codequarry.schemas.languages import BY_NAME
from codequarry.schemas.records import Definition

MIN_DOC_WORDS = 3
_MIN_CODE_WORDS = 8
_MAX_COMMENT_WORDS = 60
_DOC_CHARS = 300
_CODE_BYTES = 2_400
_BLOCK_BYTES = 1_500
_DEFINITION_BYTES = range(40, 20_000)
_WORD = re.compile(r"\w+")
_PARAGRAPH = re.compile(r"\n\s*\n")
_KINDS_WITHOUT_CODE = frozenset({"constant", "module", "namespace"})
NO_DOCUMENTATION = re.compile(
    r"(?i)copyright|licen[sc]e|todo|fixme|eslint|noqa|pylint|type: ignore|^\s*@|nolint|clang-format|coverage"
)
"""Comments for lawyers and tools that stand in the place of documentation."""


class Pair(NamedTuple):
    """Two texts that belong together."""

    kind: str
    """doc, name, block or commit."""
    text: str
    """Words of a person about the code."""
    qualified_name: str
    """Name of the definition; "" for a block."""
    code: str


def pairs_of(data: bytes, language: str) -> Iterator[Pair]:
    """Yield the pairs of one file; none when it cannot be parsed.

    Args:
        data: Contents of the file, UTF-8.
        language: A language with a grammar.

    Yields:
        Pairs of definitions, then of comments.
    """
    name = BY_NAME[language].grammar
    assert name is not None
    loaded = grammar(name)
    tree = parse(loaded, data)
    if tree is None:
        return
    found = outline(loaded, tree, data)
    surroundings = Surroundings(found.leading, data)
    for entry in found.definitions:
        if entry.end_byte - entry.start_byte in _DEFINITION_BYTES and entry.kind not in _KINDS_WITHOUT_CODE:
            yield from _of_definition(entry, surroundings.doc(entry), data)
    yield from _of_comments(found, data)


def word_count(text: str) -> int:
    """Return the number of words and identifiers in a text."""
    return len(_WORD.findall(text))


def _of_definition(entry: Definition, doc: str, data: bytes) -> Iterator[Pair]:
    if word_count(doc) >= MIN_DOC_WORDS and not NO_DOCUMENTATION.search(doc[:200]):
        start, end = entry.docstring
        # A definition without a docstring has the empty range at 0.
        code = data[entry.start_byte : start] + data[end : entry.end_byte] if end else _own(entry, data)
        code = _text(code[:_CODE_BYTES])
        if word_count(code) >= _MIN_CODE_WORDS:
            yield Pair("doc", _PARAGRAPH.split(doc)[0][:_DOC_CHARS], entry.qualified_name, code)
    elif entry.body_byte < entry.end_byte:
        body = _text(data[entry.body_byte : entry.end_byte][:_CODE_BYTES])
        if word_count(body) >= _MIN_CODE_WORDS:
            yield Pair("name", entry.name, entry.qualified_name, body)


def _own(entry: Definition, data: bytes) -> bytes:
    return data[entry.start_byte : entry.end_byte]


def _of_comments(found: Outline, data: bytes) -> Iterator[Pair]:
    comments = [entry for entry in found.leading if entry.is_comment]
    begins = sorted(entry.start_byte for entry in found.definitions)
    at = 0
    while at < len(comments):
        start, upto = comments[at].start, _run(comments, at, data)
        parts, end = [data[one.start : one.end] for one in comments[at:upto]], comments[upto - 1].end
        at = upto
        indent = start - data.rfind(b"\n", 0, start) - 1
        if indent < 2 or data[start - indent : start].strip():
            continue  # a comment on the whole file, or behind code
        following = bisect_left(begins, end)
        if following < len(begins) and not data[end : begins[following]].strip():
            continue  # documents a definition
        text = clean_comment(parts)
        if not MIN_DOC_WORDS <= word_count(text) <= _MAX_COMMENT_WORDS or NO_DOCUMENTATION.search(text):
            continue
        blank = data.find(b"\n\n", end)
        stops = [end + _BLOCK_BYTES, *([blank] if blank >= 0 else []), *(one.start for one in comments[at : at + 1])]
        block = _text(data[end : min(stops)]).strip("\n")
        if word_count(block) >= _MIN_CODE_WORDS:
            yield Pair("block", text, "", block)


def _run(comments: list[Leading], at: int, data: bytes) -> int:
    """Return the end of the run of comments on adjacent lines that starts at ``at``."""
    upto = at + 1
    while upto < len(comments):
        between = data[comments[upto - 1].end : comments[upto].start]
        if between.strip() or between.count(b"\n") > 1:
            break
        upto += 1
    return upto


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


class Row(NamedTuple):
    """A pair with its language, path and name."""

    lang: str
    kind: str
    text: str
    header: str
    """Path and qualified name, as they stand in front of embedded code."""
    code: str


COMMIT = "commit"
"""Kind of the pairs of commits."""
_MAX_CHANGED_DEFINITIONS = 6
"""Most definitions of one file: commits that change more give no pairs."""
_MAX_MESSAGE_CHARS = 600
_KINDS_WITHOUT_CHANGES = frozenset({"constant", "module", "namespace", "section", "key"})


def commit_pairs(message: str, old: bytes, new: bytes, language: str) -> Iterator[Pair]:
    """Yield the message with each innermost definition that differs in the new file; none when it is too short.

    Args:
        message: Message of the commit.
        old: The file before, UTF-8.
        new: The file after, UTF-8.
        language: A language with a grammar.

    Yields:
        Pairs of message and code.
    """
    if word_count(message) < MIN_DOC_WORDS:
        return
    before = {(entry.qualified_name, old[entry.start_byte : entry.end_byte]) for entry in _definitions(old, language)}
    changed = [
        entry
        for entry in _definitions(new, language)
        if (entry.qualified_name, new[entry.start_byte : entry.end_byte]) not in before
    ]
    inner = [entry for entry in changed if not any(_inside(other, entry) for other in changed)]
    if len(inner) > _MAX_CHANGED_DEFINITIONS:
        return
    for entry in inner:
        code = new[entry.start_byte : entry.end_byte][:_CODE_BYTES].decode("utf-8", "replace")
        fits = entry.end_byte - entry.start_byte in _DEFINITION_BYTES and word_count(code) >= _MIN_CODE_WORDS
        if fits and entry.kind not in _KINDS_WITHOUT_CHANGES:
            yield Pair(COMMIT, message[:_MAX_MESSAGE_CHARS], entry.qualified_name, code)


def _definitions(data: bytes, language: str) -> list[Definition]:
    name = BY_NAME[language].grammar
    assert name is not None
    loaded = grammar(name)
    tree = parse(loaded, data)
    return list(outline(loaded, tree, data).definitions) if tree is not None else []


def _inside(inner: Definition, outer: Definition) -> bool:
    return inner is not outer and outer.start_byte <= inner.start_byte and inner.end_byte <= outer.end_byte

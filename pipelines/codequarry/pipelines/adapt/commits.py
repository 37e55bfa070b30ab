"""Training pairs from history: the message of a commit, and the definitions it changed."""

from __future__ import annotations

from collections.abc import Iterator

from codequarry.pipelines.adapt.pairs import MIN_DOC_WORDS, Pair, word_count
from codequarry.pipelines.syntax.definitions.definitions import outline
from codequarry.pipelines.syntax.grammars import grammar
from codequarry.pipelines.syntax.parsing import parse
from codequarry.schemas.languages import BY_NAME
from codequarry.schemas.records import Definition

KIND = "commit"
_MAX_DEFINITIONS = 6
"""Most definitions of one file: commits that change more give no pairs."""
_MAX_MESSAGE_CHARS = 600
_CODE_BYTES = 2_400
_MIN_CODE_WORDS = 8
_DEFINITION_BYTES = range(40, 20_000)
_KINDS_WITHOUT_CODE = frozenset({"constant", "module", "namespace", "section", "key"})


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
    if len(inner) > _MAX_DEFINITIONS:
        return
    for entry in inner:
        code = new[entry.start_byte : entry.end_byte][:_CODE_BYTES].decode("utf-8", "replace")
        fits = entry.end_byte - entry.start_byte in _DEFINITION_BYTES and word_count(code) >= _MIN_CODE_WORDS
        if fits and entry.kind not in _KINDS_WITHOUT_CODE:
            yield Pair(KIND, message[:_MAX_MESSAGE_CHARS], entry.qualified_name, code)


def _definitions(data: bytes, language: str) -> list[Definition]:
    name = BY_NAME[language].grammar
    assert name is not None
    loaded = grammar(name)
    tree = parse(loaded, data)
    return list(outline(loaded, tree, data).definitions) if tree is not None else []


def _inside(inner: Definition, outer: Definition) -> bool:
    return inner is not outer and outer.start_byte <= inner.start_byte and inner.end_byte <= outer.end_byte

"""Pairs from history: what a commit says, and the definitions it changed."""

from __future__ import annotations

from collections.abc import Iterator

from codequarry.pipelines.definitions import outline, parse
from codequarry.pipelines.grammars import grammar
from codequarry.pipelines.training.pairs import MIN_DOC_WORDS, Pair, word_count
from codequarry.schemas.languages import BY_NAME
from codequarry.schemas.records import Definition

KIND = "commit"
_MAX_DEFINITIONS = 6
"""Of one file: a commit that changes more of them is about none."""
_MAX_MESSAGE_CHARS = 600
_CODE_BYTES = 2_400
_MIN_CODE_WORDS = 8
_DEFINITION_BYTES = range(40, 20_000)
_KINDS_WITHOUT_CODE = frozenset({"constant", "module", "namespace", "section", "key"})


def commit_pairs(message: str, old: bytes, new: bytes, language: str) -> Iterator[Pair]:
    """The message with each innermost definition that is another in the new file; none when it is too short.

    old, new: the file before and after, UTF-8. language: one with a grammar.
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

"""Misspelt words of a question: words that no chunk holds, and words of names one typo away that may be meant."""

from __future__ import annotations

from collections import Counter

from codequarry.serving.catalog import present
from codequarry.serving.catalog.chunk_arrays import ChunkRows
from codequarry.serving.channels.bm25 import Bm25Channel
from codequarry.serving.text.analyzer import words
from codequarry.serving.text.query_classes import PROSE, Query, analyze_query
from codequarry.serving.text.stems import STOP_WORDS
from codequarry.serving.text.typos import is_near

_SHORTEST = 4
"""Letters of the shortest word that may be misspelt; shorter ones have neighbours with another meaning."""
_SHORTEST_REPLACED = 7
"""The same where one letter stands for another: ``reader`` is no misspelt ``header``."""
_MOST_WORDS = 8
"""Most words that are looked up."""


def correct_words(query: Query, names: Bm25Channel, index: ChunkRows) -> tuple[Query, list[str]]:
    """Replace the misspelt words of a question.

    A word is misspelt if no path, name or text has it or its stem, and a word of a name is one typo away and begins
    with the same letter. Of several such words the one in most names is meant.

    Args:
        query: Analyzed query; a path, a qualified name and code stay as they are.
        names: Lexical index.
        index: Index of definitions.

    Returns:
        The query as it may be meant, and notes for the caller.

    Raises:
        UnavailableError: The index is damaged.
    """
    if query.kind == "identifier":
        return _correct_name(query, names, index)
    if query.kind not in PROSE:
        return query, []
    written = [word for word in words(query.text) if _may_be_misspelt(word.text)]
    meant: dict[str, str] = {}
    for word in dict.fromkeys(each.text.lower() for each in written[:_MOST_WORDS]):
        if not names.has_word(word) and (near := _nearest(word, names, index)):
            meant[word] = near
    if not meant:
        return query, []
    text = query.text
    for word in reversed(written):
        if (near := meant.get(word.text.lower())) is not None:
            text = text[: word.start] + near + text[word.start + len(word.text) :]
    return analyze_query(text), [_note(word, near) for word, near in meant.items()]


def _correct_name(query: Query, names: Bm25Channel, index: ChunkRows) -> tuple[Query, list[str]]:
    """Replace a name that stands nowhere by the only name of a definition that is one typo away."""
    (name,) = query.plain or ("",)
    if not name or names.has_word(name.lower()) or len(near := index.near_names(name.lower())) != 1:
        return query, []
    return analyze_query(near[0]), [_note(name, near[0])]


def _note(word: str, near: str) -> str:
    return f"nothing holds {present.safe_echo(word)}; looked for {present.safe_echo(near)} instead"


def _may_be_misspelt(word: str) -> bool:
    return len(word) >= _SHORTEST and word.isalpha() and word.lower() not in STOP_WORDS


def _nearest(word: str, names: Bm25Channel, index: ChunkRows) -> str:
    """Return the word of names that a misspelt word means; "" when there is none."""
    definitions = index.definitions_in(names.holding_near_name(word))
    found: Counter[str] = Counter()
    for number in index.column("name", definitions).tolist():
        found.update({part.text.lower() for part in words(index.texts[number])})
    near = [(-count, each) for each, count in found.items() if _is_meant(word, each)]
    return min(near)[1] if near else ""


def _is_meant(word: str, other: str) -> bool:
    replaced = len(word) == len(other) and sorted(word) != sorted(other)
    if word[0] != other[0] or (replaced and len(word) < _SHORTEST_REPLACED):
        return False
    return is_near(word, other)

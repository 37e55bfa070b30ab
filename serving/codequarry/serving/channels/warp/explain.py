"""Explanation of late interaction: which word of the query matched which token of the code, and its place.

A model's tokens are pieces of words. They are shown as the whole words and identifiers they lie in; pieces of one word
that matched the same identifier are one pair. Nothing of it is stored. The shown chunk is tokenized again, which takes
a millisecond, and its similarities come from the codes that were scored.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from codequarry.schemas.wire.search import TokenPair
from codequarry.serving.catalog.catalog import ChunkRow, DefinitionSpan
from codequarry.serving.catalog.present import one_line
from codequarry.serving.channels.warp.query import QueryVectors
from codequarry.serving.channels.warp.search import Searcher
from codequarry.serving.encoders.tokens import QueryTokens, TokenEncoder, token_text

MAX_PAIRS = 8
MAX_BYTES = 2048
"""Largest size of the pairs of a hit, as JSON."""
_MAX_TOKEN_CHARS = 40
_MAX_SYMBOL_CHARS = 80


def token_pairs(
    searcher: Searcher,
    encoder: TokenEncoder,
    tokens: QueryTokens,
    query: QueryVectors,
    document: int,
    row: ChunkRow,
    definitions: Sequence[DefinitionSpan],
    *,
    before: int = 0,
) -> list[TokenPair]:
    """Return the best token of a chunk for each word of the query, as the eight best pairs.

    Args:
        searcher: Searcher of the index.
        encoder: Encoder that tokenizes the chunk's text.
        tokens: Tokens of the query.
        query: Prepared query.
        document: Number of the chunk in the index.
        row: Row of the chunk.
        definitions: Definitions that start in the chunk.
        before: Bytes of the chunk's first line that belong to the chunk before it.

    Returns:
        Pairs by descending score; empty when the chunk's text has other tokens than the index holds.
    """
    text, header = token_text(path=row.path, qualified_name=row.qualified_name, text=row.text)
    spans = encoder.document_spans(text)
    similarities = searcher.similarities(query, document)
    if len(spans) != len(similarities):
        return []
    best = similarities.argmax(axis=0)
    scores = similarities[best, np.arange(len(best))]
    added: dict[tuple[tuple[int, int], tuple[int, int]], float] = {}
    for (asked, asked_end), (start, end), score in zip(
        tokens.spans.tolist(), spans[best].tolist(), scores.tolist(), strict=True
    ):
        # Special tokens stand for the whole text, not for a place in it.
        if asked < asked_end and start < end:
            pair = _whole(tokens.text, asked, asked_end), _whole(text, start, end, 0 if start < header else header)
            added[pair] = added.get(pair, 0.0) + score
    pairs: list[TokenPair] = []
    for (asked, place), score in sorted(added.items(), key=lambda item: -item[1])[:MAX_PAIRS]:
        line, column = _position(row, place[0] - header, before) if place[0] >= header else (-1, 0)
        pairs.append(
            TokenPair(
                query_token=one_line(tokens.text[slice(*asked)], _MAX_TOKEN_CHARS),
                token=one_line(text[slice(*place)], _MAX_TOKEN_CHARS),
                score=round(score, 4),
                line=line,
                column=column,
                symbol=one_line(_symbol(row, line, definitions), _MAX_SYMBOL_CHARS),
            )
        )
    while pairs and _size(pairs) > MAX_BYTES:
        pairs.pop()
    return pairs


def _whole(text: str, start: int, end: int, first: int = 0) -> tuple[int, int]:
    """Widen a part of a text to the whole word or identifier that it lies in, from ``first`` on.

    >>> _whole("if session_store:", 5, 7), _whole("a == b", 2, 4)
    ((3, 16), (2, 4))
    """
    if _is_word(text[start]):
        while start > first and _is_word(text[start - 1]):
            start -= 1
    if _is_word(text[end - 1]):
        while end < len(text) and _is_word(text[end]):
            end += 1
    return start, end


def _is_word(character: str) -> bool:
    return character == "_" or character.isalnum()


def _position(row: ChunkRow, place: int, before: int) -> tuple[int, int]:
    """Return line, 0-based, and column in bytes of a character of a chunk's text."""
    lines = row.text[:place].split("\n")
    column = len(lines[-1].encode("utf-8", "replace"))
    return row.start_line + len(lines) - 1, column + (before if len(lines) == 1 else 0)


def _symbol(row: ChunkRow, line: int, definitions: Sequence[DefinitionSpan]) -> str:
    """Return the qualified name of the innermost definition around a line.

    Only definitions that start in the chunk are considered; the chunk's own name is the fallback.
    """
    around = [each for each in definitions if each.start_line <= line <= each.end_line]
    name = max(around, key=lambda each: (each.start_line, -each.end_line)).qualified_name if around else ""
    return name or row.qualified_name


def _size(pairs: list[TokenPair]) -> int:
    return len(json.dumps([pair.model_dump() for pair in pairs], ensure_ascii=False).encode())

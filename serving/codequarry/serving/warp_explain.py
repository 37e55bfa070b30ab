"""Why late interaction found a chunk: which token of the query met which token of the code, and where that is.

Nothing of it is stored. The shown chunk is cut into tokens again, which takes a millisecond, and its similarities come
from the codes that were scored.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from codequarry.schemas.token_encoder import QueryTokens, TokenEncoder, token_text
from codequarry.schemas.tools import TokenPair
from codequarry.serving.catalog import ChunkRow, DefinitionSpan
from codequarry.serving.present import one_line
from codequarry.serving.warp_query import Query
from codequarry.serving.warp_search import Searcher

MAX_PAIRS = 8
MAX_BYTES = 2048
"""Of the pairs of a hit, as JSON."""
_MAX_TOKEN_CHARS = 40
_MAX_SYMBOL_CHARS = 80


def token_pairs(
    searcher: Searcher,
    encoder: TokenEncoder,
    tokens: QueryTokens,
    query: Query,
    document: int,
    row: ChunkRow,
    definitions: Sequence[DefinitionSpan],
    *,
    before: int = 0,
) -> list[TokenPair]:
    """The best token of a chunk for each token of the query: the eight best pairs, by descending score.

    document: the chunk in the index. definitions: those that start in the chunk. before: bytes of the chunk's first
    line that belong to the chunk before it.

    Empty where the chunk's text has other tokens than the index holds.
    """
    text, header = token_text(path=row.path, qualified_name=row.qualified_name, text=row.text)
    spans = encoder.document_spans(text)
    similarities = searcher.similarities(query, document)
    if len(spans) != len(similarities):
        return []
    best = similarities.argmax(axis=0)
    scores = similarities[best, np.arange(len(best))]
    pairs: list[TokenPair] = []
    for asked in np.lexsort((np.arange(len(best)), -scores)).tolist():
        start, end = spans[best[asked]].tolist()
        # Marks of the tokenizer stand for a whole text, not for a place in it.
        if len(pairs) == MAX_PAIRS or not tokens.texts[asked] or start == end:
            continue
        line, column = _position(row, start - header, before) if start >= header else (-1, 0)
        pairs.append(
            TokenPair(
                query_token=one_line(tokens.texts[asked], _MAX_TOKEN_CHARS),
                token=one_line(text[start:end], _MAX_TOKEN_CHARS),
                score=round(float(scores[asked]), 4),
                line=line,
                column=column,
                symbol=one_line(_symbol(row, line, definitions), _MAX_SYMBOL_CHARS),
            )
        )
    while pairs and _size(pairs) > MAX_BYTES:
        pairs.pop()
    return pairs


def _position(row: ChunkRow, place: int, before: int) -> tuple[int, int]:
    """Line, 0-based, and column in bytes of a character of a chunk's text."""
    lines = row.text[:place].split("\n")
    column = len(lines[-1].encode("utf-8", "replace"))
    return row.start_line + len(lines) - 1, column + (before if len(lines) == 1 else 0)


def _symbol(row: ChunkRow, line: int, definitions: Sequence[DefinitionSpan]) -> str:
    """Qualified name of the innermost definition around a line: one that starts in the chunk, or else the chunk's."""
    around = [each for each in definitions if each.start_line <= line <= each.end_line]
    name = max(around, key=lambda each: (each.start_line, -each.end_line)).qualified_name if around else ""
    return name or row.qualified_name


def _size(pairs: list[TokenPair]) -> int:
    return len(json.dumps([pair.model_dump() for pair in pairs], ensure_ascii=False).encode())

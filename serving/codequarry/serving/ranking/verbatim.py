"""Evidence of a query that stands in a chunk word for word, such as an error message that somebody pasted."""

from __future__ import annotations

from codequarry.serving.text.query_classes import PROSE, Query, is_compound

_COINCIDENCE, _QUOTATION = 2, 4
"""Words of a query up to which it stands somewhere by chance, and from which on it is certainly quoted."""
_FEW = 4
"""Chunks that may hold a quotation before it becomes a common phrase."""
_NAMED = 0.5
"""Value of the channel ``symbol`` from which on a definition has the name of the query, or nearly."""
_QUOTED = 4.0
"""Value of a quotation for its chunk, beside 1 for holding the words in their order."""


def quotation_strength(query: Query, chunks: int, named: float = 0.0) -> float:
    """Return how surely a query is quoted from the chunks that hold all its words in their order.

    Queries of the class ``literal`` are quoted whatever their length, and so are keys such as ``branch-alias``. An
    identifier of several words, such as ``max_file_bytes``, is in any number of chunks no coincidence; where a
    definition has about that name, that is what was asked for.

    >>> from codequarry.serving.text.query_classes import analyze_query
    >>> [quotation_strength(analyze_query(text), 1) for text in ("no file", "no such file", "the pool is closed")]
    [0.0, 0.5, 1.0]
    >>> quotation_strength(analyze_query("the pool is closed"), 8), quotation_strength(analyze_query("'no file'"), 1)
    (0.5, 1.0)

    Args:
        query: Analyzed query.
        chunks: Number of chunks that hold it.
        named: Best value of the channel ``symbol``, for a definition that bears a name of the query.

    Returns:
        From 0.0 (a coincidence) to 1.0.
    """
    words = (len(query.text.split()) - _COINCIDENCE) / (_QUOTATION - _COINCIDENCE)
    is_key = query.kind in PROSE and not any(map(str.isspace, query.text))
    if is_compound(query):
        return float(named < _NAMED)
    by_length = 1.0 if query.kind == "literal" or is_key else min(max(words, 0.0), 1.0)
    return by_length * min(_FEW / max(chunks, 1), 1.0)


def literal_value(strength: float) -> float:
    """Return the value of the evidence ``literal`` for a chunk, from the strength of the quotation."""
    return 1.0 + _QUOTED * strength

"""Prefixes that families of models want in front of a query and of a document: one table, as their model cards say.

Such a model is trained on queries with this prefix and documents with that one: CodeRankEmbed's card says "must". The
rules apply to any way of running a model, here or behind an endpoint.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Prefixes(NamedTuple):
    """Put in front of texts before they are encoded."""

    query: str = ""
    document: str = ""


CODE_QUERY = "Represent this query for searching relevant code: "
_PASSAGES = "Represent this sentence for searching relevant passages: "
_INSTRUCT = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"

_FAMILIES: tuple[tuple[str, Prefixes], ...] = (
    (r"coderankembed|nomic-embed-code", Prefixes(CODE_QUERY)),
    (r"nomic-embed-text|modernbert-embed", Prefixes("search_query: ", "search_document: ")),
    (r"e5-.*instruct", Prefixes(f"{_INSTRUCT} ")),
    (r"(multilingual-)?e5-(small|base|large)", Prefixes("query: ", "passage: ")),
    (r"bge-(small|base|large)-en", Prefixes(_PASSAGES)),
    (r"mxbai-embed-(xsmall|large)", Prefixes(_PASSAGES)),
    (r"snowflake-arctic-embed-.*v2|arctic-embed2", Prefixes("query: ")),
    (r"snowflake-arctic-embed", Prefixes(_PASSAGES)),
    (r"qwen3-embedding", Prefixes(_INSTRUCT)),
    (r"embedding-?gemma", Prefixes("task: search result | query: ", "title: none | text: ")),
)
"""Patterns of model names, first match wins; models that match none have empty prefixes."""


def known_prefixes(model: str) -> Prefixes:
    """Return the prefixes of a model by the last part of its name, whoever serves it.

    >>> known_prefixes("nomic-ai/CodeRankEmbed").query
    'Represent this query for searching relevant code: '
    >>> known_prefixes("all-MiniLM-L6-v2")
    Prefixes(query='', document='')
    """
    name = model.rstrip("/").rsplit("/", 1)[-1].lower()
    return next((found for pattern, found in _FAMILIES if re.search(pattern, name)), Prefixes())


def prefixed(prefix: str, text: str) -> str:
    """Return the text with the prefix in front of it exactly once.

    >>> prefixed("query: ", prefixed("query: ", "open file"))
    'query: open file'
    """
    return text if prefix and text.startswith(prefix) else prefix + text

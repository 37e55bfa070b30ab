"""The BM25 index both sides agree on: its fields, their weights, and what a chunk contributes to each.

The weights follow the held-out measurements of fielded BM25 over code: path x2, qualified name x2, name x3, body x1.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from codequarry.schemas.analyzer import AnalyzedToken, analyze

if TYPE_CHECKING:
    import tantivy

FIELD_BOOSTS: dict[str, float] = {"path": 2.0, "qualified_name": 2.0, "name": 3.0, "body": 1.0}
ID_FIELD = "chunk_id"


def tantivy_schema() -> tantivy.Schema:
    """Four pre-tokenized text fields and the chunk id as a fast field; nothing is stored."""
    import tantivy

    builder = tantivy.SchemaBuilder()
    for field in FIELD_BOOSTS:
        builder.add_text_field(field, stored=False, tokenizer_name="raw", index_option="position")
    builder.add_unsigned_field(ID_FIELD, stored=False, indexed=True, fast=True)
    return builder.build()


def field_tokens(
    *, path: str, symbols: Iterable[str], qualified_name: str, text: str
) -> dict[str, list[AnalyzedToken]]:
    """What a chunk contributes to each text field.

    The name fields hold the definition the chunk is, or lies in, and those that start in it.
    """
    names = dict.fromkeys((*((qualified_name,) if qualified_name else ()), *symbols))
    return {
        "path": list(analyze(path)),
        "qualified_name": list(analyze(" ".join(names))),
        "name": list(analyze(" ".join(dict.fromkeys(name.rsplit(".", 1)[-1] for name in names)))),
        "body": list(analyze(text)),
    }


def dense_text(*, path: str, qualified_name: str, text: str) -> str:
    """What the dense encoder reads of a chunk: a header of path and qualified name, then the text.

    Without the header dense retrieval loses .11 to .14 nDCG@10 on held-out repositories.
    """
    header = f"{path} {qualified_name}".strip()
    return f"{header}\n{text}"

"""Rows of ``chunks``, ``ast_nodes``, ``ast_references`` and ``cst_nodes`` from the chunks of one file."""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence

from codequarry.schemas.ids import chunk_id
from codequarry.schemas.records import AstNode, ChunkSpan, FileChunks

MAX_DOC_CHARS = 300
Row = tuple[object, ...]


def chunk_ids(repo: str, path: str, content: bytes, made: FileChunks) -> list[int]:
    """Return the ids of the spans of a file, in order."""
    equals: Counter[tuple[str, bytes]] = Counter()
    ids: list[int] = []
    for span in made.spans:
        body = content[span.start_byte : span.end_byte]
        identity = (span.qualified_name, body)
        ids.append(chunk_id(repo, path, span.qualified_name, body, equals[identity]))
        equals[identity] += 1
    return ids


def chunk_rows(repo: str, path: str, lang: str, content: bytes, made: FileChunks, ids: Sequence[int]) -> Iterator[Row]:
    """Yield rows in the column order of CHUNKS."""
    described = _Described(made.ast_nodes)
    for span, own_id in zip(made.spans, ids, strict=True):
        body = content[span.start_byte : span.end_byte]
        yield (
            own_id,
            repo,
            path,
            lang,
            span.kind,
            span.qualified_name,
            list(span.symbols),
            *described.header(span),
            span.start_byte,
            span.end_byte,
            span.start_line,
            span.end_line,
            hashlib.sha256(body).hexdigest(),
            body.decode("utf-8", "replace"),
        )


def node_rows(repo: str, path: str, made: FileChunks, ids: Sequence[int]) -> Iterator[Row]:
    """Yield rows in the column order of AST_NODES."""
    starts = [span.start_byte for span in made.spans]
    for node in made.ast_nodes:
        yield (
            repo,
            path,
            node.qualified_name,
            node.name,
            node.kind,
            node.start_byte,
            node.end_byte,
            node.start_line,
            node.end_line,
            node.name_start_byte,
            node.name_start_line,
            node.name_start_column,
            node.signature,
            node.doc,
            node.parent,
            ids[bisect_right(starts, node.start_byte) - 1],
        )


def reference_rows(repo: str, path: str, made: FileChunks, ids: Sequence[int]) -> Iterator[Row]:
    """Yield rows in the column order of AST_REFERENCES."""
    starts = [span.start_byte for span in made.spans]
    for one in made.references:
        own_id = ids[bisect_right(starts, one.start_byte) - 1]
        yield repo, path, one.name, one.role, one.start_byte, one.start_line, one.start_column, own_id


def leaf_rows(repo: str, path: str, made: FileChunks, ids: Sequence[int]) -> Iterator[Row]:
    """Yield rows in the column order of CST_NODES."""
    for span, own_id in zip(made.spans, ids, strict=True):
        for kind, count in span.leaf_kinds:
            yield repo, path, own_id, kind, count


class _Described:
    """Signature and documentation of the definitions of a file by name."""

    def __init__(self, nodes: Sequence[AstNode]) -> None:
        self._by_name: dict[str, list[AstNode]] = {}
        self._starts: dict[str, list[int]] = {}
        for node in nodes:
            self._by_name.setdefault(node.qualified_name, []).append(node)
            self._starts.setdefault(node.qualified_name, []).append(node.start_byte)

    def header(self, span: ChunkSpan) -> tuple[str, str]:
        """Return (signature, first paragraph of the documentation) of the definition a span is or lies in."""
        starts = self._starts.get(span.qualified_name, [])
        after = bisect_left(starts, span.end_byte)
        if not after:
            return "", ""
        # The first definition that starts in the span, else the last before it.
        node = self._by_name[span.qualified_name][min(bisect_left(starts, span.start_byte), after - 1)]
        return node.signature, first_paragraph(node.doc)


def first_paragraph(doc: str) -> str:
    paragraph = " ".join(doc.split("\n\n", 1)[0].split())
    return paragraph if len(paragraph) <= MAX_DOC_CHARS else paragraph[: MAX_DOC_CHARS - 1] + "…"

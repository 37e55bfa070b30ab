"""Rows of chunks, definitions, members, references and leaves from the chunks of one file."""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence

from codequarry.schemas.ids import chunk_id
from codequarry.schemas.records import AstNode, ChunkSpan, FileChunks

MAX_DOC_CHARS = 300
Row = tuple[object, ...]
Columns = tuple[Sequence[object], ...]


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
        text, digest = _text_and_digest(content[span.start_byte : span.end_byte])
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
            span.comment_percent,
            digest,
            text,
        )


def _text_and_digest(body: bytes) -> tuple[str, str]:
    """Return the text of a chunk, and the sha256 of its bytes where that is another than the text's, else ""."""
    try:
        return body.decode(), ""
    except UnicodeDecodeError:
        return body.decode("utf-8", "replace"), hashlib.sha256(body).hexdigest()


def node_rows(repo: str, path: str, made: FileChunks, nodes: Sequence[AstNode], ids: Sequence[int]) -> Iterator[Row]:
    """Yield rows in the column order of AST_NODES.

    Args:
        repo: Name of the repository.
        path: Path of the file.
        made: Its chunks.
        nodes: Its definitions, or the other names that it defines.
        ids: Ids of the chunks.

    Yields:
        The rows.
    """
    starts = [span.start_byte for span in made.spans]
    for node in nodes:
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


def reference_columns(repo: str, path: str, made: FileChunks, ids: list[int]) -> Columns:
    """Return the columns of AST_REFERENCES in their order."""
    found = made.references
    own_ids: list[int] = []
    for span, own_id in zip(made.spans, ids, strict=True):
        own_ids += [own_id] * (bisect_left(found.start_bytes, span.end_byte) - len(own_ids))
    size = len(found)
    own_ids += ids[-1:] * (size - len(own_ids))  # a name that the parser missed at the end of the file
    places = found.start_bytes, found.start_lines, found.start_columns
    return [repo] * size, [path] * size, found.names, found.roles, *places, own_ids


def leaf_columns(repo: str, path: str, made: FileChunks, ids: Sequence[int]) -> Columns:
    """Return the columns of CST_NODES in their order."""
    own_ids: list[int] = []
    leaves: list[tuple[str, int]] = []
    for span, own_id in zip(made.spans, ids, strict=True):
        own_ids += [own_id] * len(span.leaf_kinds)
        leaves += span.leaf_kinds
    kinds, counts = zip(*leaves, strict=True) if leaves else ((), ())
    return [repo] * len(leaves), [path] * len(leaves), own_ids, kinds, counts


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

"""Presentation of a text match: place, line, context. Text from the index is untrusted."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Self

from codequarry.schemas.wire.grep import CodeMatch
from codequarry.serving.catalog import present
from codequarry.serving.catalog.catalog import ChunkText

_LEAD_CHARS = 80
"""Characters of a long line that are shown before the match."""


@dataclass(frozen=True, slots=True)
class FileText:
    """Text of a file, assembled from its chunks."""

    uri: str
    lang: str
    chunks: list[ChunkText]
    """Chunks in the order of the file."""
    starts: list[int]
    """First character of each chunk."""
    text: str

    @classmethod
    def of(cls, repo: str, path: str, lang: str, chunks: list[ChunkText]) -> Self:
        """Assemble a file from its chunks, which cover it without gap or overlap."""
        starts = list(accumulate((len(chunk.text) for chunk in chunks[:-1]), initial=0))
        return cls(f"{repo}/{path}", lang, chunks, starts, "".join(chunk.text for chunk in chunks))

    def position(self, at: int) -> tuple[int, int]:
        """Return line and column of a character, 0-based, the column in bytes."""
        line_start = self.text.rfind("\n", 0, at) + 1
        return self.text.count("\n", 0, line_start), len(self.text[line_start:at].encode())


def build_match(file: FileText, chunk: ChunkText, start: int, end: int, context: int) -> CodeMatch:
    """Build a match for the answer.

    Args:
        file: File with the match.
        chunk: Chunk in which the match starts.
        start: First character of the match in the file.
        end: Character behind the match.
        context: Lines before and after.

    Returns:
        The match.
    """
    start_line, start_column = file.position(start)
    end_line, end_column = file.position(end)
    preview, highlight = _preview(file.text, start, end)
    fields = {
        "uri": file.uri,
        "start_line": start_line,
        "start_column": start_column,
        "end_line": end_line,
        "end_column": end_column,
        "preview": preview,
        "highlight": highlight,
        "chunk_id": str(chunk.chunk_id),
        "lang": file.lang,
        "qualified_name": chunk.qualified_name,
        "kind": chunk.kind,
        "title": present.line_title(file.uri, start_line),
        "url": present.line_url(file.uri, start_line),
    }
    if context:
        fields["before"] = _before(file.text, start, context)
        fields["after"] = _after(file.text, end, context)
    return CodeMatch.model_validate(fields)


def _preview(text: str, start: int, end: int) -> tuple[str, list[int]]:
    """Return at most `present.MAX_LINE_CHARS` of the line in which a match starts, and the match's place in it."""
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", start)
    last = len(text) if last < 0 else last
    end = min(end, last)
    if last - first > present.MAX_LINE_CHARS:
        left = max(first, min(start - _LEAD_CHARS, last - present.MAX_LINE_CHARS))
        right = min(last, left + present.MAX_LINE_CHARS)
    else:
        left, right = first, last
    end = max(start, min(end, right))
    head = ("…" if left > first else "") + _visible(text[left:start])
    match = _visible(text[start:end])
    tail = _visible(text[end:right]) + ("…" if right < last else "")
    return head + match + tail, [len(head), len(head) + len(match)]


def _before(text: str, start: int, count: int) -> list[str]:
    """Return at most ``count`` lines before the line of a character."""
    lines: list[str] = []
    end = text.rfind("\n", 0, start)
    while end >= 0 and len(lines) < count:
        first = text.rfind("\n", 0, end) + 1
        lines.append(_line(text[first:end]))
        end = first - 1
    return lines[::-1]


def _after(text: str, end: int, count: int) -> list[str]:
    """Return at most ``count`` lines after the line of a match's last character."""
    lines: list[str] = []
    first = text.find("\n", end - 1) + 1
    while 0 < first < len(text) and len(lines) < count:
        last = text.find("\n", first)
        last = len(text) if last < 0 else last
        lines.append(_line(text[first:last]))
        first = last + 1
    return lines


def _line(text: str) -> str:
    cut = text[: present.MAX_LINE_CHARS]
    return _visible(cut) + ("…" if len(cut) < len(text) else "")


def _visible(text: str) -> str:
    """Return printable text that keeps its tabs."""
    return "\t".join(present.printable(part) for part in text.split("\t"))

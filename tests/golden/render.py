"""Draws chunks and definitions into their source, for golden files a reviewer can read.

A header line opens every chunk; carets under a name show which symbol the definition on that line gives::

    ── chunk 2  lines 5-19  bytes 120-640  Repo.open (method)  symbols: Repo.open  comments: 8 %
    def open(self):
        ^^^^ Repo.open (method)
"""

from __future__ import annotations

from collections import defaultdict

from codequarry.schemas.records import ChunkSpan, Definition, FileChunks


def render_chunks(data: bytes, chunks: FileChunks, definitions: tuple[Definition, ...]) -> str:
    """The annotated source. Lines are numbered from 0, byte and line ranges as in the records."""
    at_line: defaultdict[int, list[str]] = defaultdict(list)
    for definition in definitions:
        line, note = _caret(data, definition)
        at_line[line].append(note)
    drawn = [f"parsed: {chunks.parsed}  syntax errors: {chunks.has_syntax_errors}"]
    for number, span in enumerate(chunks.spans):
        drawn += ["", _header(number, span)]
        body = data[span.start_byte : span.end_byte].decode("utf-8", "backslashreplace").split("\n")
        if body[-1] == "":
            body.pop()
        else:
            body[-1] += " ⏎ no line end" if span.end_byte == len(data) else " ⤶ cut inside the line"
        for offset, line in enumerate(body):
            drawn.append(line)
            drawn += at_line.pop(span.start_line + offset, [])
    return "\n".join(drawn) + "\n"


def _header(number: int, span: ChunkSpan) -> str:
    name = f"{span.qualified_name} ({span.kind})" if span.qualified_name else f"({span.kind})"
    symbols = ", ".join(span.symbols) or "-"
    return (
        f"── chunk {number}  lines {span.start_line}-{span.end_line}  "
        f"bytes {span.start_byte}-{span.end_byte}  {name}  symbols: {symbols}  comments: {span.comment_percent} %"
    )


def _caret(data: bytes, definition: Definition) -> tuple[int, str]:
    name = definition.name.encode()
    at = definition.name_byte
    if not data.startswith(name, at):
        name = b"^"
    line_start = data.rfind(b"\n", 0, at) + 1
    before = data[line_start:at].decode("utf-8", "replace")
    indent = "".join(character if character == "\t" else " " for character in before)
    carets = "^" * len(name.decode("utf-8", "replace"))
    return data.count(b"\n", 0, at), f"{indent}{carets} {definition.qualified_name} ({definition.kind})"

"""One file to its chunks: spans that follow the syntax and cover every byte once, and its definitions.

Split then merge, after cAST (Zhang et al., arXiv 2506.15655): ``syntax_units`` cuts what is over budget, this module
puts neighbours together again and names the result.
"""

from __future__ import annotations

import zlib
from itertools import pairwise
from typing import NamedTuple

from codequarry.pipelines.ast_nodes import ast_nodes
from codequarry.pipelines.definitions import outline, parse
from codequarry.pipelines.grammars import grammar
from codequarry.pipelines.leaf_kinds import leaf_kinds
from codequarry.pipelines.line_chunks import line_ranges
from codequarry.pipelines.module_facts import module_facts
from codequarry.pipelines.references import references
from codequarry.pipelines.source_text import SourceText
from codequarry.pipelines.span_names import SpanNames
from codequarry.pipelines.syntax_units import Unit, syntax_units
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.languages import BY_NAME
from codequarry.schemas.records import ChunkSpan, FileChunks

_ANCHOR_SPACING = 3
"""Ink between two anchors on average, in spans of ``merge_chars``."""
_TRIVIAL_CHARS = 8
_OVERHANG_CHARS = 64
"""How far trivial closing bits, one bracket each, may take a span past its limit."""


def chunk_source(data: bytes, language: str, *, max_chars: int = 1600, merge_chars: int = 600) -> FileChunks:
    """Cut a file into spans that partition ``[0, len(data))``.

    data: the raw file; any bytes. language: a name from ``schemas.languages``; one without a grammar is cut by lines.
    max_chars, merge_chars: sizes in non-whitespace bytes. A definition of at most ``max_chars`` is never cut;
    neighbours are merged up to ``merge_chars``. A span exceeds ``max_chars`` only by the comment above a definition
    that just fits (at most a quarter of ``merge_chars``) and by closing brackets.

    Raises InvalidArgumentError unless 1 <= merge_chars <= max_chars.

    >>> [span.symbols for span in chunk_source(b"def f(): pass\\n\\ndef g(): pass\\n", "python", merge_chars=12).spans]
    [('f',), ('g',)]
    """
    if not 1 <= merge_chars <= max_chars:
        raise InvalidArgumentError(
            f"merge_chars is {merge_chars} and max_chars is {max_chars}",
            suggestion="Use 1 <= merge_chars <= max_chars.",
        )
    if not data:
        return FileChunks((), parsed=False)
    known = BY_NAME.get(language)
    text = SourceText(data)
    if known is not None and known.grammar is not None:
        loaded = grammar(known.grammar)
        tree = parse(loaded, data)
        if tree is not None:
            found = outline(loaded, tree, data)
            names = SpanNames(found, text)
            units, nodes = syntax_units(tree, loaded, text, names, max_chars=max_chars, merge_chars=merge_chars)
            packed = _pack(_group(units, text, max_chars, merge_chars), text, names, max_chars, merge_chars)
            starts = _cuts(packed, text)
            described = ast_nodes(found, text)
            return FileChunks(
                _spans(starts, text, names, leaf_kinds(nodes, starts)),
                parsed=True,
                has_syntax_errors=tree.root_node.has_error,
                ast_nodes=described,
                references=references(loaded, tree, found, text),
                module=module_facts(loaded, tree, found, described, text),
            )
    starts = [start for start, _ in line_ranges(text, max_chars=max_chars, merge_chars=merge_chars)]
    return FileChunks(_spans(starts, text, None, [()] * len(starts)), parsed=False)


class _Run(NamedTuple):
    """Consecutive units that will share a span."""

    start: int
    end: int
    fresh: bool
    closes: bool
    comment: bool


def _group(units: list[Unit], text: SourceText, max_chars: int, merge_chars: int) -> list[_Run]:
    """Runs that only size may separate: a comment with its definition, a header with its body, one line with itself."""
    runs: list[_Run] = []
    leads = False
    for unit in units:
        same_line = together = False
        if runs:
            last = runs[-1]
            same_line = text.same_line(last.end, unit.start)
            if leads and last.comment and text.data.count(b"\n", last.end - 1, unit.start) > 1:
                # A licence or a long section comment stands alone; a banner belongs to what it announces.
                leads = text.ink(last.start, last.end) <= merge_chars // 4
            short_comment = leads and last.comment and text.ink(last.start, last.end) <= merge_chars // 4
            limit = max_chars + (merge_chars // 4 if short_comment else 0)
            together = (leads or same_line) and text.ink(last.start, unit.end) <= limit
        trailing_comment = unit.comment and same_line and not leads
        if together:
            last = runs[-1]
            fresh = last.fresh or (leads and unit.fresh)
            closes = last.closes and (unit.closes or trailing_comment)
            runs[-1] = _Run(last.start, unit.end, fresh, closes, last.comment and unit.comment)
        else:
            runs.append(_Run(unit.start, unit.end, unit.fresh, unit.closes, unit.comment))
        leads = unit.leads and not trailing_comment
    return runs


def _pack(runs: list[_Run], text: SourceText, names: SpanNames, max_chars: int, merge_chars: int) -> list[_Run]:
    """Merge neighbours greedily, then hand what is too small to stand alone to its neighbour."""
    merged: list[_Run] = []
    for run in runs:
        if merged:
            last = merged[-1]
            joined = text.ink(last.start, run.end)
            if run.closes:
                trivial = text.ink(run.start, run.end) <= _TRIVIAL_CHARS
                joins = joined <= max_chars + (merge_chars // 4 + _OVERHANG_CHARS if trivial else 0)
            else:
                joins = joined <= merge_chars and not run.fresh
                if joins and 3 * text.ink(last.start, last.end) >= merge_chars:
                    joins = not (names.defines(run.start, run.end) and _is_anchor(run, text, merge_chars))
            if joins:
                merged[-1] = last._replace(end=run.end, closes=False, comment=last.comment and run.comment)
                continue
        merged.append(run)
    tiny, small = max_chars // 32, merge_chars // 4
    packed: list[_Run] = []
    for run in merged:
        if packed and text.ink(packed[-1].start, run.end) <= max_chars:
            last = packed[-1]
            orphan = not run.comment and _is_minor(run, text, names, tiny if run.fresh else small)
            if orphan or (len(packed) == 1 and _is_minor(last, text, names, tiny)):
                packed[-1] = last._replace(end=run.end)
                continue
        packed.append(run)
    return packed


def _is_anchor(run: _Run, text: SourceText, merge_chars: int) -> bool:
    """Whether a run starts a span wherever the spans before it end: two ways to pack a file agree from there on.

    Without such runs, a function put into a long row of small ones would move every cut behind it.
    """
    size = text.ink(run.start, run.end)
    return zlib.crc32(text.data[run.start : run.end]) % (_ANCHOR_SPACING * merge_chars) < size


def _is_minor(run: _Run, text: SourceText, names: SpanNames, limit: int) -> bool:
    return text.ink(run.start, run.end) <= limit and not names.defines(run.start, run.end)


def _cuts(packed: list[_Run], text: SourceText) -> list[int]:
    """Where spans start: at 0, and then at the start of a line unless code shares that line."""
    return [0, *(text.boundary(before.end, run.start) for before, run in pairwise(packed))]


def _spans(
    starts: list[int], text: SourceText, names: SpanNames | None, leaves: list[tuple[tuple[str, int], ...]]
) -> tuple[ChunkSpan, ...]:
    ends = [*starts[1:], len(text.data)]
    lines = zip(text.lines_at(starts), text.lines_at([end - 1 for end in ends]), strict=True)
    return tuple(
        ChunkSpan(
            start,
            end,
            start_line,
            end_line,
            *(names.name(start, end) if names else ("", "text")),
            names.symbols(start, end) if names else (),
            kinds,
        )
        for start, end, (start_line, end_line), kinds in zip(starts, ends, lines, leaves, strict=True)
    )

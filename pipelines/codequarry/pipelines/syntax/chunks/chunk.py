"""Chunking of one file: spans that follow the syntax and cover every byte once, and its definitions.

Split then merge, after cAST (Zhang et al., arXiv 2506.15655): ``syntax_units`` splits what is over budget, this module
merges neighbours again and names the result. Languages without a grammar, and files beyond the limits of parsing, are
cut by whole lines.
"""

from __future__ import annotations

import re
import zlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from codequarry.pipelines.syntax.chunks.span_names import SpanNames
from codequarry.pipelines.syntax.chunks.units import Unit, syntax_units
from codequarry.pipelines.syntax.definitions.definitions import outline
from codequarry.pipelines.syntax.definitions.members import bindings
from codequarry.pipelines.syntax.definitions.nodes import ast_nodes
from codequarry.pipelines.syntax.facts.facts import documentation, module_facts
from codequarry.pipelines.syntax.grammars import grammar
from codequarry.pipelines.syntax.macros import parse_unwrapped
from codequarry.pipelines.syntax.references import mention_captures, references
from codequarry.pipelines.syntax.text import SourceText
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.languages import BY_NAME
from codequarry.schemas.records import ChunkSpan, FileChunks

if TYPE_CHECKING:
    from tree_sitter import Node

_ANCHOR_SPACING = 3
"""Mean distance between two anchors, in multiples of ``merge_chars``."""
_TRIVIAL_CHARS = 8
_OVERHANG_CHARS = 64
"""Non-whitespace bytes by which closing brackets may take a span past its limit."""


def chunk_source(data: bytes, language: str, *, max_chars: int = 1600, merge_chars: int = 600) -> FileChunks:
    """Cut a file into spans that partition ``[0, len(data))``.

    Sizes count non-whitespace bytes. A definition of at most ``max_chars`` is never cut; neighbours are merged up to
    ``merge_chars``. A span exceeds ``max_chars`` only by the comment above a definition that just fits (at most a
    quarter of ``merge_chars``) and by closing brackets.

    >>> [span.symbols for span in chunk_source(b"def f(): pass\\n\\ndef g(): pass\\n", "python", merge_chars=12).spans]
    [('f',), ('g',)]

    Args:
        data: The raw file; any bytes.
        language: A name from ``schemas.languages``; one without a grammar is cut by lines.
        max_chars: Largest size of a span.
        merge_chars: Size up to which neighbours are merged.

    Returns:
        Spans, definitions, references and module facts of the file.

    Raises:
        InvalidArgumentError: Unless 1 <= merge_chars <= max_chars.
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
    reason = ""
    if known is not None and known.grammar is not None:
        loaded = grammar(known.grammar)
        tree, macros = parse_unwrapped(loaded, language, data)
        if isinstance(tree, str):
            reason = tree
        else:
            found = outline(loaded, tree, data)
            names = SpanNames(found, text)
            units, nodes = syntax_units(tree, loaded, text, names, max_chars=max_chars, merge_chars=merge_chars)
            packed = _pack(_group(units, text, max_chars, merge_chars), text, names, max_chars, merge_chars)
            starts = _cuts(packed, text)
            described = ast_nodes(found.definitions, found.leading, text)
            mentions = mention_captures(loaded, tree)
            bound = bindings(loaded, mentions, found, data)
            documented = documentation(loaded, tree, found)
            return FileChunks(
                _spans(starts, text, names, comment_percents(documented, starts, text), leaf_kinds(nodes, starts)),
                parsed=True,
                has_syntax_errors=tree.root_node.has_error,
                ast_nodes=described,
                members=ast_nodes(bound.members, found.leading, text),
                references=references(loaded, mentions, found, bound, text, macros),
                module=module_facts(loaded, tree, found, described, documented, text),
            )
    return _by_lines(text, max_chars, merge_chars, reason)


def chunk_lines(data: bytes, *, max_chars: int, merge_chars: int, reason: str) -> FileChunks:
    """Cut a file by lines, as `chunk_source` does without a syntax tree.

    Args:
        data: The raw file; any bytes.
        max_chars: Largest size of a span, in non-whitespace bytes.
        merge_chars: Size up to which lines are merged, in non-whitespace bytes.
        reason: Reason for the missing syntax tree, for ``FileChunks.fallback``.

    Returns:
        Spans of the file.
    """
    return _by_lines(SourceText(data), max_chars, merge_chars, reason)


def _by_lines(text: SourceText, max_chars: int, merge_chars: int, reason: str) -> FileChunks:
    starts = [start for start, _ in line_ranges(text, max_chars=max_chars, merge_chars=merge_chars)]
    return FileChunks(_spans(starts, text, None, [0] * len(starts), [()] * len(starts)), parsed=False, fallback=reason)


class _UnitRun(NamedTuple):
    """Consecutive units that will share a span."""

    start: int
    end: int
    fresh: bool
    closes: bool
    comment: bool


def _group(units: list[Unit], text: SourceText, max_chars: int, merge_chars: int) -> list[_UnitRun]:
    """Group units into runs that are split only for size.

    A comment goes with its definition, a header with its body, and units of one line go together.
    """
    runs: list[_UnitRun] = []
    leads = False
    for unit in units:
        same_line = together = False
        if runs:
            last = runs[-1]
            same_line = text.same_line(last.end, unit.start)
            if leads and last.comment and text.data.count(b"\n", last.end - 1, unit.start) > 1:
                # A licence or a long section comment stands alone; a short banner belongs to the code below it.
                leads = text.ink(last.start, last.end) <= merge_chars // 4
            short_comment = leads and last.comment and text.ink(last.start, last.end) <= merge_chars // 4
            limit = max_chars + (merge_chars // 4 if short_comment else 0)
            together = (leads or same_line) and text.ink(last.start, unit.end) <= limit
        trailing_comment = unit.comment and same_line and not leads
        if together:
            last = runs[-1]
            fresh = last.fresh or (leads and unit.fresh)
            closes = last.closes and (unit.closes or trailing_comment)
            runs[-1] = _UnitRun(last.start, unit.end, fresh, closes, last.comment and unit.comment)
        else:
            runs.append(_UnitRun(unit.start, unit.end, unit.fresh, unit.closes, unit.comment))
        leads = unit.leads and not trailing_comment
    return runs


def _pack(runs: list[_UnitRun], text: SourceText, names: SpanNames, max_chars: int, merge_chars: int) -> list[_UnitRun]:
    """Merge neighbours greedily, then add runs that are too small to stand alone to their neighbour."""
    merged: list[_UnitRun] = []
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
    packed: list[_UnitRun] = []
    for run in merged:
        if packed and text.ink(packed[-1].start, run.end) <= max_chars:
            last = packed[-1]
            orphan = not run.comment and _is_minor(run, text, names, tiny if run.fresh else small)
            if orphan or (len(packed) == 1 and _is_minor(last, text, names, tiny)):
                packed[-1] = last._replace(end=run.end)
                continue
        packed.append(run)
    return packed


def _is_anchor(run: _UnitRun, text: SourceText, merge_chars: int) -> bool:
    """Return whether a run starts a span wherever the spans before it end.

    Two ways to pack a file agree from an anchor on. Without anchors, a function inserted into a long row of small ones
    would move every cut behind it.
    """
    size = text.ink(run.start, run.end)
    return zlib.crc32(text.data[run.start : run.end]) % (_ANCHOR_SPACING * merge_chars) < size


def _is_minor(run: _UnitRun, text: SourceText, names: SpanNames, limit: int) -> bool:
    return text.ink(run.start, run.end) <= limit and not names.defines(run.start, run.end)


def _cuts(packed: list[_UnitRun], text: SourceText) -> list[int]:
    """Return the starts of spans: 0, and then starts of lines unless code shares the line."""
    return [0, *(text.boundary(before.end, run.start) for before, run in pairwise(packed))]


def _spans(
    starts: list[int],
    text: SourceText,
    names: SpanNames | None,
    comments: list[int],
    leaves: list[tuple[tuple[str, int], ...]],
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
            comment_percent,
            names.symbols(start, end) if names else (),
            kinds,
        )
        for start, end, (start_line, end_line), comment_percent, kinds in zip(
            starts, ends, lines, comments, leaves, strict=True
        )
    )


def comment_percents(documented: Iterable[tuple[int, int]], starts: list[int], text: SourceText) -> list[int]:
    """Return how much of each span is comment or documentation: percent of its non-whitespace bytes.

    Args:
        documented: Ranges of comments and documentation, apart from each other and in order.
        starts: Starts of the spans, ascending.
        text: The file.

    Returns:
        A number from 0 to 100 for each span.
    """
    ends = [*starts[1:], len(text.data)]
    inks = [0] * len(starts)
    for start, end in documented:
        at = bisect_right(starts, start) - 1
        while at < len(starts) and starts[at] < end:
            inks[at] += text.ink(max(start, starts[at]), min(end, ends[at]))
            at += 1
    sizes = map(text.ink, starts, ends)
    return [100 * ink // size if size else 0 for ink, size in zip(inks, sizes, strict=True)]


def line_ranges(text: SourceText, *, max_chars: int, merge_chars: int) -> Iterator[tuple[int, int]]:
    """Yield ranges that partition a file at line starts, each of at most ``max_chars`` non-whitespace bytes.

    A range ends at the last blank line before ``merge_chars``; if there is none, at the first one before ``max_chars``;
    otherwise at a line end, or inside a line that alone is too long.
    """
    size = len(text.data)
    breaks = text.paragraph_starts()
    start = 0
    while text.ink(start, size) > merge_chars:
        near = text.reach(start, merge_chars)
        far = min(text.reach(start, max_chars), size)
        cut = _last_break(breaks, text, start, near, merge_chars // 4) or _first_break(breaks, near, far)
        if cut is None:
            if text.ink(start, size) <= min(merge_chars + merge_chars // 4, max_chars):
                break
            cut = next(text.pieces(start, size, merge_chars))[1]
        yield start, cut
        start = cut
    if start < size:
        yield start, size


def _last_break(breaks: list[int], text: SourceText, start: int, near: int, least: int) -> int | None:
    at = bisect_right(breaks, near) - 1
    if at >= 0 and breaks[at] > start and text.ink(start, breaks[at]) >= least:
        return breaks[at]
    return None


def _first_break(breaks: list[int], near: int, far: int) -> int | None:
    at = bisect_right(breaks, near)
    return breaks[at] if at < len(breaks) and breaks[at] <= far else None


# "(identifier)"; fields and anonymous tokens look different, and errors have no kind. Kinds are ASCII: ``\w`` takes
# twice as long, and so does giving letters back at each node that is no leaf.
_LEAF = re.compile(r"\((?!ERROR\))([A-Za-z0-9_]++)\)")
# Tokens that the parser inserted to continue: no bytes of the file. Their text is not escaped: a missing quote is """.
_MISSING = re.compile(r""" \(MISSING (?:"[^\n]*?"|\w+)\)(?=[ )]|$)""")


def leaf_kinds(nodes: Iterable[tuple[int, Node]], starts: list[int]) -> list[tuple[tuple[str, int], ...]]:
    """Return (kind, count) by kind, for each of the spans that start at ``starts``.

    Args:
        nodes: (start, node) of the units of the file; all named leaves of a node start in the same span.
        starts: Starts of the spans, ascending.

    Returns:
        Kinds and counts of each span.
    """
    printed: list[list[str]] = [[] for _ in starts]
    for start, node in nodes:
        one = str(node)
        printed[bisect_right(starts, start) - 1].append(_MISSING.sub("", one) if node.has_error else one)
    # One search for each span: a search for each of its nodes would cost as much as what it finds.
    return [tuple(sorted(Counter(_LEAF.findall("".join(each))).items())) for each in printed]

"""Parsing and queries within limits of work, never of time, so that results do not depend on the load of the machine.

A query cursor visits every half-matched pattern at every node. In a chain of ten thousand operators each level leaves
one half-matched until its right side comes. One run over the whole tree would take the square of its depth. Here the
cursor runs over tiles: subtrees in which a pattern may start in the upper levels only, but may end anywhere. Each node
starts patterns in one tile, so that the tiles together match what one run would, in time linear in the tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Point, Query, QueryCursor, Tree

    from codequarry.pipelines.syntax.grammars import Grammar

# Legitimate code needs 4 to 60 progress reports per KiB.
_STEPS = 2_000
_STEPS_PER_KIB = 256

# A scanner may look ahead to the end of a comment from each of its lines. Legitimate code is read up to six times.
_READS = 4_096
_READS_PER_BLOCK = 512
# Small, because repeated reads within a block are not counted. Query predicates read text through the same callback.
_READ_BYTES = 1 << 12

_INDICATOR = re.compile(rb"[-?:](?:\s|$)")

TOO_DEEP = "too_deep"
"""Reason: one line opens more levels than the grammar's scanner supports."""
TOO_MANY_STEPS = "parse_steps"
"""Reason: the parser took more steps than any code needs."""
TOO_MANY_READS = "parse_reads"
"""Reason: the scanner read the file more often than any code needs."""


class _ParseBudget:
    """Budget of a parse: the progress callback counts its steps, and `read` the reads of its source."""

    def __init__(self, size: int) -> None:
        self._steps = _STEPS + _STEPS_PER_KIB * size // 1024
        self._reads = _READS + _READS_PER_BLOCK * size // _READ_BYTES
        self.exhausted = ""
        """The reason why the parse ends; "" while it may go on."""

    def __call__(self, *_progress: object) -> bool:
        self._steps -= 1
        if self._steps < 0:
            self.exhausted = self.exhausted or TOO_MANY_STEPS
        return bool(self.exhausted)

    def read(self) -> bool:
        """Count one block that is read; False when the budget is spent."""
        self._reads -= 1
        if self._reads < 0:
            self.exhausted = self.exhausted or TOO_MANY_READS
        return not self.exhausted


class _ParserInput:
    """Callback through which the parser, and later the predicates of a query, read a file.

    The 0.26.1 binding never releases what the callback returns to the parser, which would be the whole file: so each
    block is emptied when the next one is requested. For predicates it accepts only bytes, and releases them.
    """

    def __init__(self, data: bytes, work: _ParseBudget) -> None:
        self._data = data
        self._work: _ParseBudget | None = work
        self._block = bytearray()

    def __call__(self, offset: int, _point: Point) -> bytes | bytearray:
        if self._work is None:
            return self._data[offset : offset + _READ_BYTES]
        self._block.clear()
        self._block = bytearray(self._data[offset : offset + _READ_BYTES] if self._work.read() else b"")
        return self._block

    def parsed(self) -> None:
        """Empty the last block that the parser was given."""
        self._block.clear()
        self._work = None


def parse(grammar: Grammar, data: bytes) -> Tree | None:
    """Return the syntax tree of a file; None when it is too deep or takes more work than its size allows."""
    tree = parse_or_reason(grammar, data)
    return None if isinstance(tree, str) else tree


def parse_or_reason(grammar: Grammar, data: bytes) -> Tree | str:
    """Return the syntax tree of a file, or the reason for having none.

    One parser step cannot be interrupted and can allocate gigabytes on hostile input (a deep unfinished expression at
    the end of the file). So untrusted repositories belong in worker processes with a memory limit.
    """
    from tree_sitter import Parser

    if grammar.max_line_depth is not None and _line_depth(data, grammar.max_line_depth) > grammar.max_line_depth:
        return TOO_DEEP

    work = _ParseBudget(len(data))
    source = _ParserInput(_decodable(data), work)
    try:
        tree = Parser(grammar.language).parse(source, progress_callback=work)
    except ValueError:
        # The binding reports a cancelled parse only this way.
        if work.exhausted:
            return work.exhausted
        raise
    finally:
        source.parsed()
    # A scanner that was given no more text may have finished before the next step was reported.
    return work.exhausted or tree


def _decodable(data: bytes) -> bytes:
    """Return the bytes, with a question mark for each that is not UTF-8: the binding's text predicates crash on those.

    >>> _decodable(b"caf\\xe9 = 1")
    b'caf? = 1'
    """
    try:
        data.decode()
    except UnicodeDecodeError:
        escaped = data.decode("utf-8", "surrogateescape")
        return _ESCAPED.sub("?", escaped).encode()
    return data


_ESCAPED = re.compile("[\udc80-\udcff]")


def _line_depth(data: bytes, limit: int) -> int:
    """Return the most levels that one line can open by indentation and indicators (``-``, ``?``, ``:``).

    Lines shorter than `limit` bytes are passed over.
    """
    long_lines = re.finditer(rb"[^\r\n]{%d,}" % limit, data)
    return max(
        (len(line[0]) - len(line[0].lstrip()) + len(_INDICATOR.findall(line[0])) for line in long_lines), default=0
    )


_TILE_LEVELS = 128
DEFINITION_LIMIT = 128
"""Most half-matched patterns with a capture at a time; 4,000 files of 12 repositories needed less than 64."""
MENTION_LIMIT = 512
"""The same limit for imports and identifiers: each name of an import waits for the source that ends the statement."""

Match = tuple[int, dict[str, list["Node"]]]
"""(pattern, nodes by capture)"""


def query_matches(query: Query, tree: Tree, match_limit: int) -> Iterator[Match]:
    """Yield the matches of a query, tile after tile.

    Args:
        query: Query to run.
        tree: Syntax tree.
        match_limit: Most patterns with a capture that may be half-matched at a time; beyond it the earliest are
            dropped.

    Yields:
        Pattern and nodes by capture of each match.
    """
    cursor = _cursor(query, match_limit)
    for root in _tile_roots(tree):
        yield from cursor.matches(root)


def query_captures(query: Query, tree: Tree, match_limit: int) -> dict[str, list[Node]]:
    """Return the nodes that a query captures, by capture, tile after tile."""
    cursor = _cursor(query, match_limit)
    nodes: dict[str, list[Node]] = {}
    for root in _tile_roots(tree):
        for capture, captured in cursor.captures(root).items():
            nodes.setdefault(capture, []).extend(captured)
    return nodes


def _cursor(query: Query, match_limit: int) -> QueryCursor:
    from tree_sitter import QueryCursor

    cursor = QueryCursor(query, match_limit=match_limit)
    cursor.set_max_start_depth(_TILE_LEVELS - 1)
    return cursor


@lru_cache(maxsize=1)  # three queries in turn run over the tree of a file
def _tile_roots(tree: Tree) -> tuple[Node, ...]:
    return tuple(_walk_tile_roots(tree))


def _walk_tile_roots(tree: Tree) -> Iterator[Node]:
    """Yield the root, and every node whose depth is a multiple of a tile's levels.

    A subtree with no more nodes than levels left in its tile cannot reach the next one, and is not entered. In code
    that people write these are nearly all.
    """
    cursor = tree.walk()
    level = 0
    yield tree.root_node
    while True:
        entered = cursor.node is not None and cursor.node.descendant_count > _TILE_LEVELS - level % _TILE_LEVELS
        if entered and cursor.goto_first_child():
            level += 1
        else:
            while not cursor.goto_next_sibling():
                if not cursor.goto_parent():
                    return
                level -= 1
        if level % _TILE_LEVELS == 0 and cursor.node is not None:
            yield cursor.node

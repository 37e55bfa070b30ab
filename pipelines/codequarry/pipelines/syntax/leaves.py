"""Kinds of leaves in a chunk: named syntax nodes that have no named child.

Kinds are read from the S-expression that tree-sitter prints of a whole unit: visiting the nodes from Python costs three
times as much.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

# "(identifier)"; fields and anonymous tokens look different, and errors have no kind.
_LEAF = re.compile(r"\((?!ERROR\))(\w+)\)")
# Tokens that the parser inserted to continue: no bytes of the file.
_MISSING = re.compile(r""" \(MISSING (?:"(?:[^"\\]|\\.)*"|\w+)\)""")


def leaf_kinds(nodes: Iterable[tuple[int, Node]], starts: list[int]) -> list[tuple[tuple[str, int], ...]]:
    """Return (kind, count) by kind, for each of the spans that start at ``starts``.

    Args:
        nodes: (start, node) of the units of the file; all named leaves of a node start in the same span.
        starts: Starts of the spans, ascending.

    Returns:
        Kinds and counts of each span.
    """
    counted: list[Counter[str]] = [Counter() for _ in starts]
    for start, node in nodes:
        printed = str(node)
        if node.has_error:
            printed = _MISSING.sub("", printed)
        counted[bisect_right(starts, start) - 1].update(_LEAF.findall(printed))
    return [tuple(sorted(counts.items())) for counts in counted]

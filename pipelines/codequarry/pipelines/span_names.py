"""Which definition a span is, or lies inside of."""

from __future__ import annotations

from bisect import bisect_left

from codequarry.pipelines.definitions import Outline
from codequarry.pipelines.source_text import SourceText
from codequarry.schemas.records import Definition

_TRANSPARENT = frozenset({"namespace", "module"})
_CALLABLE = frozenset({"function", "method"})
_MINOR = frozenset({"constant"})


class SpanNames:
    """Names spans by the definitions and scopes of their file."""

    def __init__(self, outline: Outline, text: SourceText) -> None:
        self._text = text
        self._definitions = outline.definitions
        self._definition_starts = [definition.start_byte for definition in outline.definitions]
        self._entries = sorted(
            (*outline.definitions, *outline.scopes), key=lambda entry: (entry.start_byte, -entry.end_byte)
        )
        self.ranges = frozenset((entry.start_byte, entry.end_byte) for entry in self._entries)
        """(start, end) of every definition and scope."""
        self.joined = outline.joined
        """End by start of what is written in several nodes that stand side by side."""
        self.attributes = frozenset((entry.start, entry.end) for entry in outline.leading if entry.is_attribute)
        """(start, end) of what stands above definitions and belongs to them, comments apart."""
        self._starts = [entry.start_byte for entry in self._entries]
        self._parents: list[int] = []
        enclosing: list[int] = []
        for at, entry in enumerate(self._entries):
            while enclosing and self._entries[enclosing[-1]].end_byte <= entry.start_byte:
                enclosing.pop()
            self._parents.append(enclosing[-1] if enclosing else -1)
            enclosing.append(at)

    def defines(self, start: int, end: int) -> bool:
        """Whether a definition starts in ``[start, end)``."""
        at = bisect_left(self._definition_starts, start)
        return at < len(self._definition_starts) and self._definition_starts[at] < end

    def symbols(self, start: int, end: int) -> tuple[str, ...]:
        """Qualified names of the definitions that start in ``[start, end)``."""
        low, high = bisect_left(self._definition_starts, start), bisect_left(self._definition_starts, end)
        return tuple(definition.qualified_name for definition in self._definitions[low:high])

    def name(self, start: int, end: int) -> tuple[str, str]:
        """(qualified name, kind) of the span ``[start, end)``: ("", "block") when no one definition describes it."""
        low, high = bisect_left(self._starts, start), bisect_left(self._starts, end)
        around = self._enclosing(low - 1, start, end)
        inside = self._only(low, high)
        if inside and (inside.kind in _MINOR or (around and around.kind in _CALLABLE)):
            # A constant among imports or a short closure in a long function does not name what it happens to stand in.
            own = self._text.ink(inside.start_byte, min(inside.end_byte, end))
            if 2 * own < self._text.ink(start, end):
                inside = None
        named = inside or around
        return (named.qualified_name, named.kind) if named else ("", "block")

    def _only(self, low: int, high: int) -> Definition | None:
        """The one top-most entry in ``[low, high)``; several of one name (overloads, struct + impl) count as one."""
        while True:
            tops = self._tops(low, high)
            major = [at for at in tops if self._entries[at].kind not in _MINOR] or tops
            if len({self._entries[at].qualified_name for at in major}) != 1:
                return None
            entry = self._entries[major[0]]
            inner = self._only_inside(major[0], high) if entry.kind in _TRANSPARENT and len(major) == 1 else None
            if inner is None:
                return entry
            low, high = inner

    def _only_inside(self, at: int, high: int) -> tuple[int, int] | None:
        """The index range inside a namespace if it comes down to one name, so that the name can be used instead."""
        end = min(high, bisect_left(self._starts, self._entries[at].end_byte))
        inner = self._tops(at + 1, end)
        major = [child for child in inner if self._entries[child].kind not in _MINOR]
        return (at + 1, end) if len({self._entries[child].qualified_name for child in major}) == 1 else None

    def _tops(self, low: int, high: int) -> list[int]:
        tops: list[int] = []
        while low < high:
            tops.append(low)
            low = max(low + 1, bisect_left(self._starts, self._entries[low].end_byte, lo=low, hi=high))
        return tops

    def _enclosing(self, at: int, start: int, end: int) -> Definition | None:
        """The innermost entry that began before the span and holds nearly all of it."""
        size = self._text.ink(start, end)
        while at >= 0:
            entry = self._entries[at]
            # Closing brackets of outer blocks may have joined the span's tail.
            if entry.end_byte > start and 8 * self._text.ink(start, min(entry.end_byte, end)) >= 7 * size:
                return entry
            at = self._parents[at]
        return None

"""Names of spans: the definition that a span is, or lies inside of."""

from __future__ import annotations

from bisect import bisect_left

from codequarry.pipelines.syntax.definitions.definitions import Outline
from codequarry.pipelines.syntax.text import SourceText
from codequarry.schemas.records import Definition

_TRANSPARENT = frozenset({"namespace", "module"})
_CALLABLE = frozenset({"function", "method"})
_MINOR = frozenset({"constant"})


class SpanNames:
    """Naming of spans by the definitions and scopes of their file."""

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
        """End, by start, of each definition that is written in several adjacent nodes."""
        self.attributes = frozenset((entry.start, entry.end) for entry in outline.leading if entry.is_attribute)
        """(start, end) of attributes that stand above definitions and belong to them."""
        self._starts = [entry.start_byte for entry in self._entries]
        self._parents: list[int] = []
        enclosing: list[int] = []
        for at, entry in enumerate(self._entries):
            while enclosing and self._entries[enclosing[-1]].end_byte <= entry.start_byte:
                enclosing.pop()
            self._parents.append(enclosing[-1] if enclosing else -1)
            enclosing.append(at)
        self._jumps = _Jumps(self._parents, [entry.end_byte for entry in self._entries])

    def defines(self, start: int, end: int) -> bool:
        """Return whether a definition starts in ``[start, end)``."""
        at = bisect_left(self._definition_starts, start)
        return at < len(self._definition_starts) and self._definition_starts[at] < end

    def symbols(self, start: int, end: int) -> tuple[str, ...]:
        """Return qualified names of the definitions that start in ``[start, end)``."""
        low, high = bisect_left(self._definition_starts, start), bisect_left(self._definition_starts, end)
        return tuple(definition.qualified_name for definition in self._definitions[low:high])

    def name(self, start: int, end: int) -> tuple[str, str]:
        """Return (qualified name, kind) of ``[start, end)``: ("", "block") when no single definition describes it."""
        low, high = bisect_left(self._starts, start), bisect_left(self._starts, end)
        around = self._enclosing(low - 1, start, end)
        inside = self._only(low, high)
        if inside and (inside.kind in _MINOR or (around and around.kind in _CALLABLE)):
            # A constant among imports or a short closure in a long function does not name the span around it.
            own = self._text.ink(inside.start_byte, min(inside.end_byte, end))
            if 2 * own < self._text.ink(start, end):
                inside = None
        named = inside or around
        return (named.qualified_name, named.kind) if named else ("", "block")

    def _only(self, low: int, high: int) -> Definition | None:
        """Return the only outermost entry in ``[low, high)``, or None.

        Several of one name (overloads, struct + impl) count as one.
        """
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
        """Return the index range inside a namespace if its entries share one name, which can then be used instead."""
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
        """Return the innermost entry that began before the span and holds nearly all of it."""
        size = self._text.ink(start, end)
        # Closing brackets of outer blocks may have joined the span's tail: an eighth of it may lie behind the entry.
        reaching = self._text.first_end(start, size - size // 8)
        at = self._jumps.first(at, max(start + 1, min(reaching, end)))
        return self._entries[at] if at >= 0 else None


class _Jumps:
    """Search from an entry outwards in steps that double.

    In thousands of nested entries, single steps would be too slow.
    """

    def __init__(self, parents: list[int], ends: list[int]) -> None:
        self._parents = parents
        self._ends = ends
        self._depths: list[int] = []
        self._jumps: list[int] = []
        self._furthest: list[int] = []
        """Largest end of the entries from each one outwards to its jump, which is excluded."""
        for at, parent in enumerate(parents):
            if parent < 0:
                self._depths.append(0)
                self._jumps.append(-1)
                self._furthest.append(ends[at])
                continue
            self._depths.append(self._depths[parent] + 1)
            middle = self._jumps[parent]
            outer = self._jumps[middle] if middle >= 0 else -1
            even = middle >= 0 and self._length(parent, middle) == self._length(middle, outer)
            self._jumps.append(outer if even else parent)
            passed = (ends[at], self._furthest[parent], self._furthest[middle]) if even else (ends[at],)
            self._furthest.append(max(passed))

    def _length(self, inner: int, outer: int) -> int:
        return self._depths[inner] - (self._depths[outer] if outer >= 0 else -1)

    def first(self, at: int, end: int) -> int:
        """Return the first entry from ``at`` outwards that ends at ``end`` or later; -1 for none."""
        while at >= 0 and self._ends[at] < end:
            at = self._jumps[at] if self._furthest[at] < end else self._parents[at]
        return at

"""Clean-up of a ranking: rows are looked up, repaired or dropped, and copies of the same code are shown once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from codequarry.schemas.languages import language_of
from codequarry.schemas.wording import counted
from codequarry.serving.catalog.catalog import ChunkRow

SPARE = 10
"""Candidates beyond the wanted ones, to fill the places of those that go."""

_LEAST_LINES = 3
_ALIKE = 0.95
_NAMED = 5


def keep_distinct(ranked: Sequence[int], rows: Mapping[int, ChunkRow], wanted: int) -> tuple[list[ChunkRow], list[str]]:
    """Keep the first ``wanted`` sound and distinct rows, in the order of their ranks.

    Two chunks are copies when all but one in twenty of their lines are the same (Jaccard similarity of the multisets of
    stripped lines). Chunks of one or two lines are never copies, because those agree by chance.

    Args:
        ranked: Chunk ids, best first.
        rows: Rows of the catalog by id.
        wanted: Number of rows to return.

    Returns:
        The rows, with notes about removed ones and the density: the share of the examined candidates that was kept.
    """
    kept: list[tuple[ChunkRow, Counter[str], int]] = []
    missing = repaired = looked_at = 0
    copies: list[str] = []
    for chunk_id in ranked:
        if len(kept) == wanted:
            break
        looked_at += 1
        found = rows.get(chunk_id)
        row = None if found is None else sound(found)
        if row is None:
            missing += 1
            continue
        repaired += row is not found
        lines = Counter(filter(None, map(str.strip, row.text.split("\n"))))
        count = lines.total()
        original = next((one for one, other, others in kept if _alike(lines, count, other, others)), None)
        if original is None:
            kept.append((row, lines, count))
        else:
            copies.append(f"{row.chunk_id} as {original.chunk_id}")
    limits: list[str] = []
    if missing:
        limits.append(f"{counted(missing, 'result')} dropped: the catalog has no such chunk, or no code of it")
    if repaired:
        limits.append(f"{counted(repaired, 'result')} repaired: their lines or language did not fit")
    if copies:
        more = f" and {len(copies) - _NAMED} more" if len(copies) > _NAMED else ""
        limits.append(f"{len(copies)} near-identical chunks collapsed: {', '.join(copies[:_NAMED])}{more}")
    if looked_at > len(kept):
        density = len(kept) / looked_at
        limits.append(f"density {density:.2f}: {len(kept)} of the {looked_at} best candidates stand")
    return [row for row, *_ in kept], limits


def sound(row: ChunkRow) -> ChunkRow | None:
    """Return the row, repaired if possible; None when there is nothing to show.

    A row that is sound is returned as it is.
    """
    if not row.text or not row.path or not row.repo:
        return None
    lines = row.text.count("\n") - row.text.endswith("\n")
    start = max(0, row.start_line)
    end = row.end_line if row.end_line >= start else start + lines
    begin = max(0, row.start_byte)
    after = row.end_byte if row.end_byte > begin else begin + len(row.text.encode("utf-8", "replace"))
    lang = row.lang or language_of(row.path) or "text"
    if (start, end, begin, after, lang) == (row.start_line, row.end_line, row.start_byte, row.end_byte, row.lang):
        return row
    return row._replace(start_line=start, end_line=end, start_byte=begin, end_byte=after, lang=lang)


def _alike(one: Counter[str], count: int, other: Counter[str], others: int) -> bool:
    """Tell whether two chunks are copies, from the counts of their lines.

    Args:
        one: Lines of one chunk.
        count: Number of its lines.
        other: Lines of the other chunk.
        others: Number of its lines.

    Returns:
        True for copies.
    """
    smaller, larger = (count, others) if count < others else (others, count)
    if smaller < _LEAST_LINES or smaller < _ALIKE * larger:
        return False
    common = (one & other).total()
    return common >= _ALIKE * (smaller + larger - common)

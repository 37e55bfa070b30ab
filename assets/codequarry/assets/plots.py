"""Small pictures for the metadata: SVG inside of Markdown, so that nothing has to be served beside the page."""

import base64
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

import dagster as dg

from codequarry.schemas.bundle.faiss_tuning import FaissTuning

_EDGES = (100, 200, 400, 800, 1_600)
"""Upper bounds of the classes of chunk sizes, in bytes; each is twice the one before."""

SHOWN_CHARS = 1_000
"""Dagster's page shows shorter Markdown in place, and longer Markdown behind a link."""
_WIDTH, _LABEL, _ROW, _LABEL_CHARS = 420, 150, 14, 14
_LEFT, _TOP, _CURVE = 40, 18, 110


def bar_plot(title: str, counts: Mapping[str, float], *, unit: str = "", digits: int = 0) -> dg.MarkdownMetadataValue:
    """Draw bars by name, in the order given, each beside its figure; the last ones are one bar when there are too many.

    >>> plot = bar_plot("Chunks by language", {f"language {n}": 40 - n for n in range(40)}).value
    >>> len(plot) < SHOWN_CHARS, plot.startswith("![Chunks by language](data:image/svg+xml;base64,")
    (True, True)
    """
    for most in range(len(counts), 0, -1):
        shown = dict(list(counts.items())[:most])
        if rest := sum(list(counts.values())[most:]):
            shown["others"] = rest
        found = _image(title, _svg(shown, unit, digits))
        if len(found) < SHOWN_CHARS:
            return dg.MetadataValue.md(found)
    return dg.MetadataValue.md("nothing to show")


def frontier_plot(tuning: FaissTuning) -> dg.MarkdownMetadataValue:
    """Draw the recall of an approximate index by the vectors it compares, in powers of ten.

    A dot marks the point in use.
    """
    points = [(math.log10(max(1.0, each.comparisons)), each.recall) for each in tuning.frontier]
    chosen = (math.log10(max(1.0, tuning.chosen.comparisons)), tuning.chosen.recall)
    (first, lowest), (last, highest) = points[0], points[-1]
    wide, high = (_WIDTH - 2 * _LEFT) / ((last - first) or 1), _CURVE / ((highest - lowest) or 1)

    def place(point: tuple[float, float]) -> tuple[int, int]:
        return round(_LEFT + (point[0] - first) * wide), round(_TOP + (highest - point[1]) * high)

    line = "L".join(f"{x} {y}" for x, y in map(place, points))
    x, y = place(chosen)
    used = tuning.chosen
    said = f"{used.parameters or 'in use'}: recall@10 {used.recall:.3f}, {used.comparisons:,.0f} compared"
    bottom = _TOP + _CURVE
    texts = (
        (0, _TOP, f"{highest:.2f}"), (0, bottom, f"{lowest:.2f}"), (_LEFT, 11, said),
        (_WIDTH // 2 - _LEFT, bottom + 14, "vectors compared"),
        (_LEFT, bottom + 14, f"{tuning.frontier[0].comparisons:,.0f}"),
        (_WIDTH - 2 * _LEFT, bottom + 14, f"{tuning.frontier[-1].comparisons:,.0f}"),
    )  # fmt: skip
    labels = "".join(f'<text x="{left}" y="{top}">{escape(text)}</text>' for left, top, text in texts)
    curve = f'<path fill="none" stroke="#4269d0" d="M{line}"/><circle cx="{x}" cy="{y}" r="4" fill="#4269d0"/>'
    return dg.MetadataValue.md(_image(f"Recall@10 of {tuning.factory}", _framed(labels + curve, bottom + 20)))


def shares_plot(title: str, counts: Mapping[str, int]) -> dg.MarkdownMetadataValue:
    """Draw bars of the shares of a whole in percent, largest first."""
    total = sum(counts.values()) or 1
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return bar_plot(title, {name: 100 * count / total for name, count in ordered}, unit="%", digits=1)


def chunk_sizes_plot(files: Sequence[Path]) -> dg.MarkdownMetadataValue:
    """Draw the number of chunks by size.

    Args:
        files: Parquet files of the table of chunks.

    Returns:
        The plot.
    """
    import numpy as np
    import pyarrow.parquet as pq

    counts = np.zeros(len(_EDGES) + 1, np.int64)
    for file in files:
        table = pq.read_table(file, columns=["start_byte", "end_byte"])
        sizes = table["end_byte"].to_numpy() - table["start_byte"].to_numpy()
        counts += np.bincount(np.searchsorted(_EDGES, sizes), minlength=len(counts))
    names = [*(f"≤ {edge} bytes" for edge in _EDGES), "more"]
    return bar_plot("Chunks by size", dict(zip(names, counts.tolist(), strict=True)))


def _svg(counts: Mapping[str, float], unit: str, digits: int) -> str:
    scale = (_WIDTH - _LABEL) / (max(counts.values()) or 1)
    height = _ROW * len(counts) + 2
    texts: list[str] = []
    bars: list[str] = []
    for row, (name, value) in enumerate(counts.items()):
        label = name if len(name) <= _LABEL_CHARS else f"{name[:_LABEL_CHARS]}…"
        texts.append(f'<text y="{_ROW * row + 11}">{escape(label)}: {value:,.{digits}f}{unit}</text>')
        bars.append(f"M{_LABEL} {_ROW * row + 2}h{value * scale:.0f}v10H{_LABEL}")
    return _framed(f'{"".join(texts)}<path fill="#4269d0" d="{"".join(bars)}"/>', height)


def _framed(drawn: str, height: int) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" font-family="Arial" '
        f'font-size="11"><path fill="#fff" d="M0 0h{_WIDTH}v{height}H0"/>{drawn}</svg>'
    )


def _image(title: str, svg: str) -> str:
    return f"![{title}](data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode('ascii')})"

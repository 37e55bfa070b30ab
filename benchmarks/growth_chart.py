"""Curves over sizes that span orders of magnitude, as SVG text: both axes are logarithmic."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 760, 420, 60, 230, 40, 46
_COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951")


def curves(title: str, across: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """One curve for each series of positive (x, y), its name and last value beside its end.

    across: what the x axis counts.
    """
    xs = [x for points in series.values() for x, _ in points]
    ys = [y for points in series.values() for _, y in points]
    low_x, high_x = math.log10(min(xs)), math.log10(max(xs))
    low_y, high_y = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)))

    def place(x: float, y: float) -> tuple[float, float]:
        right = (math.log10(x) - low_x) / (high_x - low_x or 1)
        up = (math.log10(y) - low_y) / (high_y - low_y or 1)
        return _LEFT + right * (_WIDTH - _LEFT - _RIGHT), _HEIGHT - _BOTTOM - up * (_HEIGHT - _TOP - _BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" '
        f'font-size="11" role="img"><title>{escape(title)}</title>',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="8" y="18" font-size="13" font-weight="bold">{escape(title)}</text>',
        f'<text x="{_LEFT}" y="{_HEIGHT - 8}">{escape(across)}</text>',
    ]
    for power in range(low_y, high_y + 1):
        _, y = place(min(xs), 10.0**power)
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:,g}</text>')
    for x in sorted(set(xs)):
        right, bottom = place(x, 10.0**low_y)
        parts.append(f'<text x="{right:.1f}" y="{bottom + 16:.1f}" text-anchor="middle">{x:,.0f}</text>')
    for (name, points), colour in zip(series.items(), _COLOURS, strict=False):
        placed = [place(*point) for point in points]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in placed)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        x, y = placed[-1]
        parts.append(
            f'<text x="{x + 8:.1f}" y="{y + 4:.1f}" fill="{colour}">{escape(name)}: {points[-1][1]:,.4g}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"

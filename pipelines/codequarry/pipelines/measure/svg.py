"""Bar charts as SVG text: no plotting library, and the same figures give the same bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from xml.sax.saxutils import escape

_WIDTH, _LABEL, _BAR, _GAP, _HEAD = 760, 170, 14, 16, 54
_COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5", "#9c6b4e")


class Bar(NamedTuple):
    """A value and the interval around it."""

    value: float
    low: float
    high: float


def bars(title: str, groups: Mapping[str, Mapping[str, Bar]], *, unit: str = "") -> str:
    """Draw horizontal bars, by group and then by series, with whiskers over their intervals; the axis starts at 0.

    Args:
        title: Title of the chart.
        groups: Name of a group → name of a series → its bar; a series has one colour in all groups.
        unit: Unit behind the figures.

    Returns:
        SVG text.
    """
    series = list(dict.fromkeys(name for group in groups.values() for name in group))
    top = max((bar.high for group in groups.values() for bar in group.values()), default=0.0) or 1.0
    scale = (_WIDTH - _LABEL - 70) / top
    height = _HEAD + sum(len(group) * _BAR + _GAP for group in groups.values())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" font-family="sans-serif" '
        f'font-size="11" role="img"><title>{escape(title)}</title>',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="8" y="16" font-size="13" font-weight="bold">{escape(title)}</text>',
    ]
    left = 8
    for number, name in enumerate(series):
        colour = _COLOURS[number % len(_COLOURS)]
        parts.append(f'<rect x="{left}" y="26" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{left + 14}" y="35">{escape(name)}</text>')
        left += 30 + 7 * len(name)
    y = _HEAD
    for group, held in groups.items():
        middle = y + len(held) * _BAR / 2 + 4
        parts.append(f'<text x="{_LABEL - 8}" y="{middle:.0f}" text-anchor="end">{escape(group)}</text>')
        for name, bar in held.items():
            colour = _COLOURS[series.index(name) % len(_COLOURS)]
            parts += _bar(bar, y, scale, colour, unit)
            y += _BAR
        y += _GAP
    return "\n".join([*parts, "</svg>"]) + "\n"


def _bar(bar: Bar, y: float, scale: float, colour: str, unit: str) -> list[str]:
    end, low, high = (_LABEL + value * scale for value in (bar.value, bar.low, bar.high))
    middle = y + _BAR / 2 - 1
    written = f"{bar.value:.3f}" if not unit else f"{bar.value:.1f} {unit}"
    return [
        f'<rect x="{_LABEL}" y="{y}" width="{end - _LABEL:.1f}" height="{_BAR - 2}" fill="{colour}"/>',
        f'<path d="M{low:.1f} {middle}H{high:.1f}" stroke="#333" stroke-width="1.2"/>',
        f'<text x="{max(end, high) + 6:.1f}" y="{y + _BAR - 4}">{escape(written)}</text>',
    ]

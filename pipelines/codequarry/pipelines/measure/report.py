"""The summary of an evaluation as files for people and programs: ``report.md`` with its plots, ``summary.json``.

Plots are bar charts as SVG text: no plotting library, and the same figures give the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

from codequarry.pipelines.measure.ranking_metrics import METRICS, TITLES
from codequarry.pipelines.measure.results import OVERALL, verdict

_DIGITS = 6
_EXPLAINED = """\
Figures are means over questions, from 0 to 1, with 95 % intervals by bootstrap over the questions. A target counts
at the rank of the first returned chunk that lies in its file and overlaps its lines. NDCG@10 and MRR@10 reward targets
near the top, R@k counts those among the first k chunks, R@4k those in the first 4,000 returned tokens (a token is four
characters), and TDG is the mean of 2^(-tokens before the target / 1,000): what it cost to read as far as the target.
A difference is paired: the same questions, drawn together.
"""


def write_report(folder: Path, summary: Mapping[str, Any]) -> None:
    """Write ``summary.json``, ``report.md`` and ``plots/*.svg``.

    Args:
        folder: Folder of the report.
        summary: Figures by run of `results.summary_of_run`, and differences; see docs/EVALUATION.md.
    """
    (folder / "plots").mkdir(parents=True, exist_ok=True)
    text = json.dumps(rounded(summary), indent=1, ensure_ascii=False)
    (folder / "summary.json").write_text(text + "\n", encoding="utf-8")
    for metric in ("ndcg_10", "recall_4k"):
        chart = bars(f"{TITLES[metric]} by class", _by_class(summary["runs"], metric))
        (folder / "plots" / f"{metric}.svg").write_text(chart, encoding="utf-8")
    chart = bars("Latency, p50 with p95 as whisker", _latencies(summary["runs"]), unit="ms")
    (folder / "plots" / "latency.svg").write_text(chart, encoding="utf-8")
    (folder / "report.md").write_text(markdown(summary), encoding="utf-8")


def markdown(summary: Mapping[str, Any]) -> str:
    """Return the report as Markdown."""
    counts = ", ".join(f"{kind} {number}" for kind, number in summary["questions"].items())
    lines = ["# Evaluation", "", f"{summary['source']}: {sum(summary['questions'].values())} questions ({counts}).", ""]
    lines += [f"- {note}" for note in summary["notes"]]
    lines += ["", "## Figures", "", *_table(*figures_table(summary, OVERALL)), ""]
    for kind in summary["questions"] if len(summary["questions"]) > 1 else ():
        lines += [f"### {kind}", "", *_table(*figures_table(summary, kind)), ""]
    lines += ["![NDCG@10 by class](plots/ndcg_10.svg)", "", "![R@4k by class](plots/recall_4k.svg)", ""]
    lines += ["## Ablation", "", *_table(*ladder_table(summary)), ""]
    if summary["differences"]:
        lines += ["## Paired differences", "", *_table(*differences_table(summary)), ""]
    lines += ["## Latency", "", *_table(*latency_table(summary)), "", "![Latency](plots/latency.svg)", ""]
    limits = {limit for run in summary["runs"].values() for limit in run["limits"]}
    if limits:
        lines += ["## Limits that answers named", "", *(f"- {limit}" for limit in sorted(limits)), ""]
    lines += ["## How to read this", "", *_EXPLAINED.splitlines()]
    return "\n".join(lines) + "\n"


Rows = tuple[tuple[str, ...], list[tuple[str, ...]]]
"""A head and its rows."""


def figures_table(summary: Mapping[str, Any], kind: str) -> Rows:
    """Return every figure of every run over one class of questions."""
    rows = [
        (name, *(_with_interval(run["figures"][kind][metric]) for metric in METRICS))
        for name, run in summary["runs"].items()
        if kind in run["figures"]
    ]
    return ("run", *(TITLES[metric] for metric in METRICS)), rows


def means_table(summary: Mapping[str, Any]) -> Rows:
    """Return the figures over all questions; only that of NDCG@10 has its interval."""
    rows: list[tuple[str, ...]] = []
    for name, run in summary["runs"].items():
        figures = run["figures"][OVERALL]
        ndcg = figures["ndcg_10"]
        others = (f"{figures[metric]['mean']:.3f}" for metric in METRICS[1:])
        rows.append((name, f"{ndcg['mean']:.3f}", f"{ndcg['low']:.3f} to {ndcg['high']:.3f}", *others))
    first, *rest = (TITLES[metric] for metric in METRICS)
    return ("run", first, "95 % interval", *rest), rows


def classes_table(summary: Mapping[str, Any]) -> Rows:
    """Return NDCG@10 of every run by class."""
    kinds = summary["questions"]
    rows = [
        (name, *(f"{run['figures'][kind]['ndcg_10']['mean']:.3f}" for kind in kinds))
        for name, run in summary["runs"].items()
    ]
    return ("NDCG@10", *(f"{kind} ({number})" for kind, number in kinds.items())), rows


def ladder_table(summary: Mapping[str, Any]) -> Rows:
    """Return the rungs of the ablation ladder, with what each adds to the one before that could run."""
    rows: list[tuple[str, ...]] = []
    for rung in summary["ladder"]:
        if rung["run"]:
            overall = summary["runs"][rung["run"]]["figures"][OVERALL]["ndcg_10"]
            added = _difference(summary["differences"], rung["run"], rung["against"])
            rows.append((rung["rung"], rung["title"], f"{overall['mean']:.3f}", added))
        else:
            rows.append((rung["rung"], rung["title"], "cannot run", rung["reason"]))
    return ("rung", "what", "NDCG@10", "to the rung before"), rows


def differences_table(summary: Mapping[str, Any]) -> Rows:
    """Return every paired difference, with its verdict."""
    rows = [
        (
            f"{one['run']} - {one['against']}",
            one["class"],
            TITLES[one["metric"]],
            f"{one['difference']:+.3f}",
            f"{one['low']:+.3f} to {one['high']:+.3f}",
            verdict(one["low"], one["high"]),
        )
        for one in summary["differences"]
    ]
    return ("runs", "class", "figure", "difference", "95 % interval", "verdict"), rows


def latency_table(summary: Mapping[str, Any]) -> Rows:
    """Return latencies of whole calls, and of stages when answers tell them."""
    rows: list[tuple[str, ...]] = []
    for name, run in summary["runs"].items():
        stages = {"whole call": run["latency_ms"], **run["stages_ms"]}
        rows += [(name, stage, f"{each['p50']:.1f}", f"{each['p95']:.1f}") for stage, each in stages.items() if each]
    return ("run", "stage", "p50 ms", "p95 ms"), rows


def rounded(value: Any) -> Any:
    """Return JSON-ready values, rounded to their significant digits."""
    if isinstance(value, float):
        return round(value, _DIGITS)
    if isinstance(value, Mapping):
        return {name: rounded(each) for name, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, Sequence) and not isinstance(value, str) else value


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines]


def _with_interval(figure: Mapping[str, float]) -> str:
    return f"{figure['mean']:.3f} ({figure['low']:.2f}-{figure['high']:.2f})"


def _difference(differences: Sequence[Mapping[str, Any]], run: str, against: str) -> str:
    for one in differences:
        if (one["run"], one["against"], one["class"], one["metric"]) == (run, against, OVERALL, "ndcg_10"):
            return f"{one['difference']:+.3f} ({one['low']:+.3f} to {one['high']:+.3f})"
    return ""


def _by_class(runs: Mapping[str, Any], metric: str) -> dict[str, dict[str, Bar]]:
    kinds = next(iter(runs.values()))["figures"]
    return {
        kind: {
            name: Bar(*(run["figures"][kind][metric][part] for part in ("mean", "low", "high")))
            for name, run in runs.items()
            if kind in run["figures"]
        }
        for kind in kinds
    }


def _latencies(runs: Mapping[str, Any]) -> dict[str, dict[str, Bar]]:
    return {
        "whole call": {
            name: Bar(run["latency_ms"]["p50"], run["latency_ms"]["p50"], run["latency_ms"]["p95"])
            for name, run in runs.items()
            if run["latency_ms"]
        }
    }


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

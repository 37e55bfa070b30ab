"""The summary of scored answers: means with their intervals, by class and over all, and paired differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from codequarry.pipelines.measure.questions import Hit, Question
from codequarry.pipelines.measure.ranking_metrics import LEVEL, METRICS, Scores, intervals, score, target_ranks
from codequarry.schemas.bundle.tables import write_table

OVERALL = "all"
COMPARED = ("ndcg_10", "recall_4k")
"""Figures whose differences are reported."""


@dataclass(frozen=True, slots=True)
class Run:
    """One way of asking, and its answers to all questions."""

    name: str
    hits: tuple[tuple[Hit, ...], ...]
    """By question, best first."""
    milliseconds: tuple[float, ...]
    """By question: the whole call."""
    stages: Mapping[str, tuple[float, ...]]
    """Milliseconds of each stage, by its name, for the answers that report them."""
    channels: frozenset[str]
    """Channels that found any of the results."""
    limits: tuple[str, ...] = ()
    """Notes of answers on what was missing or cut, each once."""


def _schema() -> pa.Schema:
    text = [pa.field(name, pa.string(), False) for name in ("run", "id", "class", "query")]
    figures = [pa.field(name, pa.float64(), False) for name in METRICS]
    lists = [pa.field(name, pa.list_(pa.string()), False) for name in ("targets", "returned", "returned_ids")]
    return pa.schema([*text, *figures, pa.field("ranks", pa.list_(pa.int32()), False), *lists])


RESULTS = _schema()
"""Columns of ``results.parquet``: one row for each question of each run; a rank is 0 where nothing was returned."""
LATENCIES = pa.schema(
    [
        pa.field("run", pa.string(), False),
        pa.field("id", pa.string(), False),
        pa.field("milliseconds", pa.float64(), False),
    ]
)
"""Columns of ``latencies.parquet``: kept apart, so that equal answers give equal bytes in the other table."""


def scores_of(questions: Sequence[Question], run: Run) -> list[Scores]:
    """Return the figures of every answer of a run."""
    return [score(hits, question.targets) for question, hits in zip(questions, run.hits, strict=True)]


def write_results(folder: Path, questions: Sequence[Question], runs: Sequence[Run]) -> None:
    """Write ``results.parquet`` and ``latencies.parquet``."""
    rows: list[dict[str, Any]] = []
    times: list[dict[str, Any]] = []
    for run in runs:
        for question, hits, scores, spent in zip(
            questions, run.hits, scores_of(questions, run), run.milliseconds, strict=True
        ):
            rows.append(
                {
                    "run": run.name,
                    "id": question.id,
                    "class": question.kind,
                    "query": question.query,
                    **scores._asdict(),
                    "ranks": [rank or 0 for rank in target_ranks(hits, question.targets)],
                    "targets": [target.text() for target in question.targets],
                    "returned": [hit.text() for hit in hits],
                    "returned_ids": [hit.id for hit in hits],
                }
            )
            times.append({"run": run.name, "id": question.id, "milliseconds": spent})
    write_table(folder / "results.parquet", pa.Table.from_pylist(rows, RESULTS), RESULTS)
    write_table(folder / "latencies.parquet", pa.Table.from_pylist(times, LATENCIES), LATENCIES)


def summary_of_run(questions: Sequence[Question], run: Run) -> dict[str, Any]:
    """Return means, 95 % intervals and latencies of one run."""
    values = np.array(scores_of(questions, run), np.float64)
    return {
        "figures": {name: _figures(values[rows]) for name, rows in _classes(questions).items()},
        "latency_ms": _percentiles(run.milliseconds),
        "stages_ms": {name: _percentiles(spent) for name, spent in run.stages.items()},
        "limits": list(run.limits),
    }


def difference(questions: Sequence[Question], run: Run, against: Run, *, level: float = LEVEL) -> list[dict[str, Any]]:
    """Return the differences between two runs' answers to the same questions, paired, by class.

    Args:
        questions: The questions.
        run: Run whose gain is measured.
        against: Run to compare with.
        level: Confidence level of the intervals.

    Returns:
        One record for each class and metric.
    """
    own, other = (np.array(scores_of(questions, one), np.float64) for one in (run, against))
    columns = [METRICS.index(name) for name in COMPARED]
    rows_of = _classes(questions)
    found: list[dict[str, Any]] = []
    for kind, rows in rows_of.items():
        values = (own - other)[rows][:, columns]
        low, high = intervals(values, level=level)
        for place, metric in enumerate(COMPARED):
            found.append(
                {
                    "run": run.name,
                    "against": against.name,
                    "class": kind,
                    "metric": metric,
                    "difference": float(values[:, place].mean()),
                    "low": float(low[place]),
                    "high": float(high[place]),
                }
            )
    return found


def verdict(low: float, high: float) -> str:
    """Return the verdict on a difference in a few words.

    >>> verdict(0.01, 0.05), verdict(-0.05, -0.01), verdict(-0.01, 0.02)
    ('better', 'worse', 'no difference shown')
    """
    return "better" if low > 0 else "worse" if high < 0 else "no difference shown"


def _classes(questions: Sequence[Question]) -> dict[str, np.ndarray]:
    """Return the rows of each class, and of all."""
    kinds = np.array([question.kind for question in questions])
    by_kind = {kind: np.flatnonzero(kinds == kind) for kind in sorted(set(kinds.tolist()))}
    return {OVERALL: np.arange(len(kinds)), **by_kind}


def _figures(values: np.ndarray) -> dict[str, Any]:
    low, high = intervals(values)
    means = values.mean(axis=0)
    figures = {
        name: {"mean": float(means[place]), "low": float(low[place]), "high": float(high[place])}
        for place, name in enumerate(METRICS)
    }
    return {"questions": len(values), **figures}


def _percentiles(spent: Sequence[float]) -> dict[str, float]:
    if not spent:
        return {}
    p50, p95 = np.percentile(np.array(spent), [50, 95])
    return {"p50": float(p50), "p95": float(p95)}

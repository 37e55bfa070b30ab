"""``codequarry tune faiss``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from codequarry.pipelines.cli.progress import Bars
from codequarry.pipelines.cli.repositories import SettingsOption
from codequarry.schemas.bundle.layout import DENSE_LEGS
from codequarry.schemas.install_hints import missing_extra
from codequarry.schemas.settings.load import load_settings

if TYPE_CHECKING:
    from codequarry.pipelines.evaluation.tune_faiss import MeasuredIndex


def faiss(
    factory: Annotated[
        list[str] | None,
        typer.Option(help="Also measure this index of the same vectors: a FAISS factory string or auto; repeatable."),
    ] = None,
    recall: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Recall@10 wanted.", show_default="[indexes] faiss_recall of the settings"),
    ] = None,
    channel: Annotated[str, typer.Option(help=f"Which dense leg: {' or '.join(DENSE_LEGS)}.")] = DENSE_LEGS[0],
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
    root: Annotated[
        Path | None, typer.Option(help="Bundle root.", show_default="[bundle] root of the settings")
    ] = None,
    settings_file: SettingsOption = None,
) -> None:
    """Measure the operating points of the published dense index, and of others, on this machine.

    Each point of the frontier: recall@10 against exact search, vectors compared for a query, and the median time of a
    query on one core. Nothing is changed; the last line says what to index or to serve with.

    Examples:

      codequarry tune faiss

      codequarry tune faiss --factory HNSW32,SQ8 --factory IVF256,SQ8 --recall 0.99
    """
    settings = load_settings(settings_file, bundle_root=root)
    floor = settings.indexes.faiss_recall if recall is None else recall
    try:
        from codequarry.pipelines.evaluation.tune_faiss import tune_faiss
    except ModuleNotFoundError as error:
        raise missing_extra("codequarry tune faiss", "build", missing=error.name) from None
    with Bars() as bars:
        measured = tune_faiss(settings, channel, factory or [], floor, bars.show)
    if as_json:
        typer.echo(json.dumps([_describe_index(one) for one in measured], indent=1))
        return
    answer = Console(soft_wrap=True, highlight=False, markup=False)
    answer.print(_table(measured))
    answer.print(_advice(measured, settings.serving.nprobe or settings.serving.ef_search))


def _describe_index(one: MeasuredIndex) -> dict[str, Any]:
    frontier = [
        {**point.model_dump(), "ms": round(one.milliseconds[point.parameters], 4)} for point in one.tuning.frontier
    ]
    tuning = {**one.tuning.model_dump(mode="json"), "frontier": frontier}
    return {"index": one.name, "size_bytes": one.size_bytes, "build_cpu_s": round(one.build_s, 2), **tuning}


def _table(measured: list[MeasuredIndex]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("index", "parameters", "recall@10", "compared", "ms", "MB", "build CPU-s"):
        table.add_column(name, no_wrap=True)
    for one in measured:
        for point in one.tuning.frontier:
            first = point is one.tuning.frontier[0]
            chosen = "*" if point == one.tuning.chosen else ""
            cells = (
                f"{one.tuning.factory} ({one.name})" if first else "",
                f"{point.parameters or 'none'} {chosen}",
                f"{point.recall:.4f}",
                f"{point.comparisons:,.0f}",
                f"{one.milliseconds[point.parameters]:.3f}",
                f"{one.size_bytes / 1e6:.1f}" if first else "",
                f"{one.build_s:.1f}" if first and one.build_s else "",
            )
            table.add_row(*map(Text, cells))
    return table


def _advice(measured: list[MeasuredIndex], own_effort: int) -> str:
    """Return the advice that follows from the figures, in a line."""
    published, *_ = measured
    floor, size = published.tuning.floor, published.tuning.vectors
    good = [one for one in measured if one.reaches]
    if not good:
        return f"none reaches recall@10 {floor:g} over {size:,} vectors: ask for less, or index with Flat"
    best = min(good, key=lambda one: one.chosen_ms)
    if best is published:
        unset = "; [serving] nprobe and ef_search set another" if own_effort else ""
        return (
            f"of those that reach recall@10 {floor:g} the published index is the fastest, at the point marked *{unset}"
        )
    return (
        f"fastest at recall@10 {floor:g}: {best.tuning.factory}, {best.chosen_ms:.3f} ms; "
        f"index with it: [indexes] faiss_factory = {best.name!r}"
    )

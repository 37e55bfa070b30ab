"""``codequarry tune``: parts that can be fitted to one's own repositories, and are kept only when measurably better."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from codequarry.pipelines.cli.progress import Bars
from codequarry.pipelines.cli.repositories import RepositoriesArgument, SettingsOption, over
from codequarry.schemas.bundle.layout import DENSE_LEGS
from codequarry.schemas.settings.load import load_settings

if TYPE_CHECKING:
    from codequarry.pipelines.evaluation.tune_faiss import MeasuredIndex

tune_app = typer.Typer(
    help="Fit what can be fitted to your repositories; kept only when it is measurably better.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@tune_app.command("faiss")
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
    from codequarry.pipelines.evaluation.tune_faiss import tune_faiss

    with Bars() as bars:
        measured = tune_faiss(settings, channel, factory or [], floor, bars.show)
    if as_json:
        typer.echo(json.dumps([_describe_index(one) for one in measured], indent=1))
        return
    answer = Console(soft_wrap=not sys.stdout.isatty(), highlight=False, markup=False)
    answer.print(_table(measured))
    answer.print(_advice(measured, settings.serving.nprobe or settings.serving.ef_search))


@tune_app.command("late")
def late(
    repositories: RepositoriesArgument = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
    settings_file: SettingsOption = None,
) -> None:
    """Measure whether late interaction helps on questions mined from a sample of your repositories.

    It takes about a minute of one core, whatever the size of the repositories. The verdict is kept in the store: where
    late interaction does not help, versions indexed from then on leave it out of their ranking, and it can still be
    asked for by --channel warp.

    Examples:

      codequarry tune late .

      codequarry tune late ~/src/app --settings full.toml
    """
    settings = over(load_settings(settings_file), repositories or [])
    from codequarry.pipelines.evaluation.late_gain import measure_late

    with Bars() as bars:
        verdict = measure_late(settings, bars.show)
    if as_json:
        typer.echo(json.dumps(dataclasses.asdict(verdict), indent=1))
        return
    typer.echo(f"late interaction is {verdict.said}")
    typer.echo("kept; it decides the ranking of versions from the next `codequarry index` on")


@tune_app.command("encoder")
def encoder(
    repositories: RepositoriesArgument = None,
    out: Annotated[Path, typer.Option(help="Folder of the adapted encoder.")] = Path(".codequarry/encoder"),
    budget: Annotated[float, typer.Option(min=1, help="Seconds of one core that training may take.")] = 60.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
    settings_file: SettingsOption = None,
) -> None:
    """Train the static encoder further on your repositories' own documentation, names, comments and last commits.

    Five times, four fifths of the files are learned and the last fifth is asked about. The encoder is written only when
    the answers are better beyond doubt (95 %, paired) and those about Python's standard library are not worse. Its
    description, which travels in every bundle made with it, says how it did.

    Examples:

      codequarry tune encoder .

      codequarry tune encoder ~/src/app ~/src/lib --out my-encoder --budget 30
    """
    settings = over(load_settings(settings_file), repositories or [])
    from codequarry.pipelines.adapt.tuning import tune_encoder

    with Bars() as bars:
        verdict = tune_encoder(settings, out.absolute(), budget_s=budget, progress=bars.show)
    if as_json:
        typer.echo(verdict.model_dump_json(indent=1))
        return
    answer = Console(soft_wrap=not sys.stdout.isatty(), highlight=False, markup=False)
    low, high = verdict.interval
    answer.print(f"pairs    {verdict.pairs:,}, {verdict.commit_pairs:,} of them from commits")
    answer.print(
        f"own code {verdict.before:.3f} -> {verdict.after:.3f} MRR@10 over {verdict.queries:,} questions "
        f"({low:+.3f} to {high:+.3f})"
    )
    low, high = verdict.outside_interval
    answer.print(
        f"outside  {verdict.outside_before:.3f} -> {verdict.outside_after:.3f} over {verdict.outside_queries:,} "
        f"({low:+.3f} to {high:+.3f})"
    )
    if verdict.better:
        answer.print(f"written to {out}; index with it: [embedding] folder = {str(out)!r}")
    else:
        answer.print("not better beyond doubt: nothing is written, and the encoder in use stays")


@tune_app.command("ranking")
def ranking(
    repositories: RepositoriesArgument = None,
    out: Annotated[Path, typer.Option(help="File of the fitted profile.")] = Path(".codequarry/ranking.json"),
    queries: Annotated[int, typer.Option(min=1, help="Most mined questions of each kind.")] = 100,
    seed: Annotated[int, typer.Option(help="Draws other questions.")] = 0,
    budget: Annotated[float, typer.Option(min=1, help="Seconds that fitting may take.")] = 120.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
    settings_file: SettingsOption = None,
) -> None:
    """Fit the weights and factors of the ranking to questions mined from your repositories.

    Half of the questions, by the files that answer them, are fitted on; the other half decides. The profile is written
    only when those are answered better beyond doubt (95 %, paired); otherwise the one in use stays.

    Examples:

      codequarry tune ranking .

      codequarry tune ranking ~/src/app --queries 200 --out my-ranking.json
    """
    settings = over(load_settings(settings_file), repositories or [])
    from codequarry.pipelines.evaluation.tune_ranking import tune_ranking, write_profile

    with Bars() as bars:
        verdict = tune_ranking(settings, queries=queries, seed=seed, budget_s=budget, progress=bars.show)
    if verdict.better:
        write_profile(verdict, out)
    if as_json:
        told = {**dataclasses.asdict(verdict), "profile": verdict.profile.model_dump(), "better": verdict.better}
        typer.echo(json.dumps(told, indent=1))
        return
    low, high = verdict.interval
    typer.echo(f"fitted on  {verdict.fitted_on:,} questions")
    typer.echo(
        f"held out   {verdict.before:.3f} -> {verdict.after:.3f} NDCG@10 over {verdict.held_out:,} questions "
        f"({low:+.3f} to {high:+.3f})"
    )
    if verdict.better:
        typer.echo(f"written to {out}; index with it: [ranking] profile = {str(out)!r}")
    else:
        typer.echo("not better beyond doubt: nothing is written, and the profile in use stays")


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

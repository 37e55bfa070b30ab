"""``codequarry tune``: parts that can be fitted to one's own repositories, and are kept only when measurably better."""

from __future__ import annotations

import dataclasses
import json
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from codequarry.pipelines.cli.evaluation.tune_faiss import faiss
from codequarry.pipelines.cli.progress import Bars
from codequarry.pipelines.cli.repositories import RepositoriesArgument, SettingsOption, over
from codequarry.schemas.install_hints import missing_extra
from codequarry.schemas.settings.load import load_settings

tune_app = typer.Typer(
    help="Fit what can be fitted to your repositories; kept only when it is measurably better.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

tune_app.command("faiss")(faiss)


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
    try:
        from codequarry.pipelines.evaluation.late_gain import measure_late
    except ModuleNotFoundError as error:
        raise missing_extra("codequarry tune late", "build", missing=error.name) from None
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
    try:
        from codequarry.pipelines.adapt.tuning import tune_encoder
    except ModuleNotFoundError as error:
        raise missing_extra("codequarry tune encoder", "build", missing=error.name) from None
    with Bars() as bars:
        verdict = tune_encoder(settings, out.absolute(), budget_s=budget, progress=bars.show)
    if as_json:
        typer.echo(verdict.model_dump_json(indent=1))
        return
    answer = Console(soft_wrap=True, highlight=False, markup=False)
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
    try:
        import_module("codequarry.pipelines.evaluation.mining")
    except ModuleNotFoundError as error:
        raise missing_extra("codequarry tune ranking", "build", missing=error.name) from None
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

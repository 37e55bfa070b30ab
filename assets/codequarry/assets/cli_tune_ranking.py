"""``codequarry tune ranking``."""

from __future__ import annotations

import dataclasses
import json
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from codequarry.pipelines.cli_progress import Bars
from codequarry.pipelines.cli_repositories import RepositoriesArgument, SettingsOption, over
from codequarry.pipelines.cli_tune import tune_app
from codequarry.schemas.install_hints import missing_extra
from codequarry.schemas.settings import load_settings

_OUT = Path(".codequarry/ranking.json")


def register(_app: typer.Typer) -> None:
    """Add the command to its group, which the pipeline's commands bring along."""
    if all(command.name != "ranking" for command in tune_app.registered_commands):
        tune_app.command("ranking")(ranking)


def ranking(
    repositories: RepositoriesArgument = None,
    out: Annotated[Path, typer.Option(help="File of the fitted profile.")] = _OUT,
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
    from codequarry.assets.tuning_ranking import tune_ranking, write_profile

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

"""``codequarry tune``: what can be fitted to one's own repositories, and is kept only when it is measurably better."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from codequarry.pipelines.cli_progress import Bars
from codequarry.pipelines.cli_repositories import RepositoriesArgument, SettingsOption, over
from codequarry.pipelines.cli_tune_faiss import faiss
from codequarry.schemas.install_hints import missing_extra
from codequarry.schemas.settings import load_settings

tune_app = typer.Typer(
    help="Fit what can be fitted to your repositories; kept only when it is measurably better.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


tune_app.command("faiss")(faiss)


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
        from codequarry.pipelines.tuning import tune_encoder
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

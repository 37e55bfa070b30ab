"""``codequarry models``."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer

from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.settings.load import load_settings
from codequarry.serving.cli.options import JsonOption, RootOption, SettingsOption
from codequarry.serving.cli.terminal import print_table

models_app = typer.Typer(help="Models of the settings: whether they are here, and what they were measured to be worth.")
_EVALUATION = Path(".codequarry/evaluation")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(models_app, name="models")


@models_app.callback(invoke_without_command=True)
def models(
    context: typer.Context,
    evaluation: Annotated[
        Path, typer.Option(help="Folder of a report by codequarry evaluate, where the figures come from.")
    ] = _EVALUATION,
    as_json: JsonOption = False,
    root: RootOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """List the models that the settings name: what runs them, whether they are here, and what they are worth.

    NDCG@10 and milliseconds are those of the channel asked alone, of a reranker what it adds to hybrid, as
    `codequarry evaluate` measured them on your own code. Nobody is asked for anything.

    Examples:

      codequarry models

      codequarry models fetch nomic-ai/CodeRankEmbed
    """
    if context.invoked_subcommand is not None:
        return
    settings = load_settings(settings_file, bundle_root=root)
    from codequarry.pipelines.evaluation.models import model_states

    states = model_states(settings, evaluation)
    if as_json:
        typer.echo(json.dumps([dataclasses.asdict(state) for state in states], ensure_ascii=False, indent=1))
        return
    print_table(
        ("for", "model", "run as", "served", "dim", "tokens", "MB", "NDCG@10", "p50 ms", "state"),
        (
            (
                one.use,
                one.name,
                one.kind,
                one.served or "-",
                str(one.dim or "-"),
                str(one.max_tokens or "all"),
                f"{one.bytes / 1e6:.1f}" if one.bytes else "-",
                "-" if one.ndcg_10 is None else f"{one.ndcg_10:{'+' if one.use == 'rerank' else ''}.3f}",
                "-" if one.p50_ms is None else f"{one.p50_ms:.1f}",
                "; ".join(filter(None, (one.state, one.agreement, _prefix(one.query_prefix)))),
            )
            for one in states
        ),
        whole=10,
    )
    if all(one.ndcg_10 is None for one in states):
        typer.echo("not measured yet: codequarry evaluate")


@models_app.command("fetch")
def fetch(
    model: Annotated[str, typer.Argument(help="Id on the hub; that of [embedding] model when left out.")] = "",
    revision: Annotated[str, typer.Option(help="Commit, branch or tag.", show_default="that of the settings")] = "",
    settings_file: SettingsOption = None,
) -> None:
    """Download a model of sentence-transformers or transformers, so that building needs no hub afterwards.

    Where no hub can be reached it says so, and what else to do.

    Example: codequarry models fetch nomic-ai/CodeRankEmbed
    """
    settings = load_settings(settings_file)
    embedding = settings.embedding
    wanted = model or (embedding.model if embedding.by_transformers else "")
    if not wanted or wanted.startswith((".", "/", "~")):
        raise InvalidArgumentError(
            f"[embedding] model is {embedding.model}, expected the id of a model on a hub",
            suggestion="name one: codequarry models fetch nomic-ai/CodeRankEmbed",
        )
    from codequarry.pipelines.evaluation.models import fetch_model

    folder = fetch_model(settings, wanted, revision or (embedding.revision if wanted == embedding.model else ""))
    typer.echo(f"{wanted} is in {folder}")


def _prefix(prefix: str) -> str:
    return f"queries begin with {prefix!r}" if prefix else ""

"""``codequarry fleet status``: the generation, its bundles and repositories, and what is behind its head."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

from codequarry.pipelines.cli.repositories import SettingsOption
from codequarry.pipelines.store.workspace import silent
from codequarry.schemas.settings.load import Settings, load_settings
from codequarry.schemas.times import age_s, in_words
from codequarry.schemas.wording import counted
from codequarry.serving.cli.options import JsonOption
from codequarry.serving.cli.terminal import for_terminal

if TYPE_CHECKING:
    from codequarry.pipelines.fleet.fleet_store import FleetStore
    from codequarry.pipelines.sources.sources import Heads
    from codequarry.schemas.fleet.generation import BundleEntry, FleetManifest, RepositoryEntry


def status(
    heads: Annotated[
        bool, typer.Option("--heads/--no-heads", help="Ask the repositories of the settings for their commits.")
    ] = True,
    generations: Annotated[bool, typer.Option("--generations", help="List the generations that are kept.")] = False,
    as_json: JsonOption = False,
    settings_file: SettingsOption = None,
) -> None:
    """Print the current generation: bundles, repositories, their age, failures, and what is behind its head.

    Examples:

      codequarry fleet status

      codequarry fleet status --generations

      codequarry fleet status --no-heads --json
    """
    settings = load_settings(settings_file, look="above")
    from codequarry.pipelines.fleet.fleet_store import FleetStore

    fleet = FleetStore.open(settings)
    if generations:
        _print_generations(fleet, as_json=as_json)
        return
    manifest = fleet.require_current().manifest
    states = _states(manifest, settings, asks=heads)
    if as_json:
        typer.echo(json.dumps({**manifest.model_dump(), "states": states}, indent=1))
    else:
        _print_status(manifest, states, asked_heads=heads)


def _states(manifest: FleetManifest, settings: Settings, *, asks: bool) -> dict[str, str]:
    """Return what people should know about repositories, by name: behind its head, carried, listed no longer."""
    from codequarry.pipelines.fleet.repository_state import ask_heads
    from codequarry.pipelines.sources.sources import repositories_by_name

    listed = repositories_by_name(settings.sources.repositories)
    entries = {name: each for entry in manifest.bundles.values() for name, each in entry.repositories.items()}
    found = ask_heads(listed.values(), settings, silent) if asks else None
    states = {
        name: _state(name, entries.get(name), found, listed=name in listed) for name in sorted({*entries, *listed})
    }
    states |= {name: f"left out since {each.since}: {each.error}" for name, each in manifest.left_out.items()}
    return {name: state for name, state in states.items() if state}


def _state(name: str, entry: RepositoryEntry | None, heads: Heads | None, *, listed: bool) -> str:
    if entry is None:
        return "not built yet"
    if not listed:
        return "listed no longer"
    said = [f"carried since {entry.failed.since}: {entry.failed.error}"] if entry.failed is not None else []
    if heads is not None and name in heads.problems:
        said.append(f"does not answer: {heads.problems[name]}")
    elif heads is not None and heads.commits[name] != entry.commit:
        said.append(f"behind its head {heads.commits[name][:12] or 'without a commit'}")
    return "; ".join(said)


def _print_status(manifest: FleetManifest, states: dict[str, str], *, asked_heads: bool) -> None:
    answer = Console(highlight=False, markup=False, soft_wrap=not sys.stdout.isatty())
    origin = manifest.origin
    made = f"rollback to {origin.of}" if origin.act == "rollback" else "build"
    over = f" after {origin.parent}" if origin.parent else ""
    answer.print(f"generation {manifest.generation}, {in_words(age_s(manifest.created))} old, by {made}{over}")
    table = Table(
        "bundle", "repository", "commit", Column("chunks", justify="right"), Column("age", justify="right"), "state",
        box=None, padding=(0, 1),
    )  # fmt: skip
    for bundle, entry in sorted(manifest.bundles.items()):
        for name, each in sorted(entry.repositories.items()):
            commit = each.commit[:12] + ("+dirty" if each.dirty and each.commit else "")
            table.add_row(
                bundle, for_terminal(name), commit, f"{each.chunks:,}", in_words(age_s(each.indexed)),
                for_terminal(states.get(name, "")),
            )  # fmt: skip
    answer.print(table)
    for bundle, entry in sorted(manifest.bundles.items()):
        answer.print(for_terminal(_describe_bundle(bundle, entry)))
    shown = {name for entry in manifest.bundles.values() for name in entry.repositories}
    for name, state in states.items():
        if name not in shown:
            answer.print(for_terminal(f"{name}: {state}"))
    behind = sum("behind" in state for state in states.values())
    said = f"{counted(behind, 'repository')} behind" if asked_heads else "no repository was asked for its head"
    answer.print(f"{said}, {manifest.chunks:,} chunks in all")


def _describe_bundle(name: str, entry: BundleEntry) -> str:
    over = f" over {entry.base}" if entry.base else ""
    failed = f"; carried since {entry.failed.since}: {entry.failed.error}" if entry.failed is not None else ""
    return f"{name}: {entry.version}{over}, {entry.chunks:,} chunks, {entry.size_bytes / 1e6:.1f} MB{failed}"


def _print_generations(fleet: FleetStore, *, as_json: bool) -> None:
    current = fleet.require_current().manifest.generation
    rows: list[dict[str, Any]] = []
    for number in fleet.generations():
        manifest = fleet.read_generation(number)
        row = {"generation": number, "current": number == current, "created": manifest.created}
        rows.append(
            {**row, "origin": manifest.origin.model_dump(), "bundles": len(manifest.bundles), "chunks": manifest.chunks}
        )
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        origin = row["origin"]
        made = f"rollback to {origin['of']}" if origin["act"] == "rollback" else "build"
        mark = "*" if row["current"] else " "
        typer.echo(
            f"{mark} {row['generation']}  {row['created']}  {made}  {row['bundles']} bundles, {row['chunks']:,} chunks"
        )

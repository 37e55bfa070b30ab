"""``codequarry watch``: stay, and publish whenever files change."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codequarry.pipelines.cli.beside.command_beside import StdinOption, end_with_stdin
from codequarry.pipelines.cli.progress import Bars, console
from codequarry.pipelines.cli.repositories import SettingsOption
from codequarry.pipelines.store.processes import ending_groups
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.errors import CodequarryError
from codequarry.schemas.resources import return_freed_memory
from codequarry.schemas.settings.load import load_settings
from codequarry.schemas.wording import counted
from codequarry.serving.cli.terminal import for_terminal

if TYPE_CHECKING:
    from codequarry.pipelines.cli.watch.rounds import Rounds


def watch(
    repositories: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=]PATH...",
            help="Folders of this machine. Without any: those of the settings file, else those that are published, "
            "else the git work tree around the current folder.",
        ),
    ] = None,
    root: Annotated[
        Path | None, typer.Option(help="Bundle root to publish to.", show_default="[bundle] root of the settings")
    ] = None,
    until_stdin_closes: StdinOption = False,
    settings_file: SettingsOption = None,
) -> None:
    """Stay, and publish a new version whenever files of the repositories change.

    First the index is brought up to date. Then each save, commit, or switch of branches becomes a version as soon as
    nothing has changed for 0.05 s, and one line says what changed. A running server serves it at once. What git ignores
    costs nothing. An error is said, and the watch goes on; Ctrl-C ends it.

    Examples:

      codequarry watch

      codequarry watch ~/src/app lib=~/src/shared-library

      codequarry serve --watch    (watches, and serves over MCP)
    """
    return_freed_memory()
    from codequarry.pipelines.cli.watch.plan import folder_around, plan_watch
    from codequarry.pipelines.cli.watch.rounds import Rounds
    from codequarry.pipelines.syntax.workers import keeping_a_worker

    if not (repositories or root or settings_file):
        os.chdir(folder_around(Path.cwd()))
    settings = load_settings(settings_file, bundle_root=root)
    try:
        with ending_groups(interrupting=True), keeping_a_worker():
            plan = plan_watch(settings, repositories or [], Path.cwd())
            for each in plan.notes:
                _note(f"note: {each}")
            if until_stdin_closes:
                end_with_stdin()
            rounds = Rounds(plan, _say, _note)
            rounds.run(lambda started: _start(started, [f"{tree.name} ({tree.root})" for tree in plan.trees]))
    except KeyboardInterrupt:
        _note(f"stopped watching{_current(settings.bundle.root)}")


def _start(rounds: Rounds, places: list[str]) -> None:
    """Bring the index up to date, with progress, and say that the watch begins."""
    with Bars() as bars:
        rounds.publish(bars.show)
    rounds.remember()
    version = f"{rounds.version} is current; " if rounds.version else ""
    _note(f"{version}watching {counted(len(places), 'folder')}: {', '.join(places)}; Ctrl-C ends")


def _current(root: Path) -> str:
    """Return what is published, in words: the version of a round that was interrupted may be it."""
    try:
        return f"; CURRENT is {BundleRoot(root).read_current().version}"
    except CodequarryError:
        return ""


def _say(text: str) -> None:
    typer.echo(f"{datetime.now():%H:%M:%S}  {for_terminal(text)}")


def _note(text: str) -> None:
    console.print(for_terminal(text), highlight=False, markup=False, soft_wrap=not console.is_terminal)

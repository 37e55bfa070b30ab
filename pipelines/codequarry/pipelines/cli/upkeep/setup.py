"""``codequarry setup``: optional tools for the user's own folder."""

from __future__ import annotations

from typing import Annotated

import typer

from codequarry.schemas.trust.programs import tools_folder
from codequarry.serving.cli.terminal import say

setup_app = typer.Typer(help="Install optional tools into your own data folder.", rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(setup_app, name="setup")


@setup_app.callback()
def setup() -> None:
    """Install optional tools into your own data folder."""


@setup_app.command("scip")
def scip(
    force: Annotated[bool, typer.Option("--force", help="Install them again even if they are there.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove them.")] = False,
) -> None:
    """Install the SCIP indexers of Python, TypeScript and JavaScript, which make references exact.

    Pinned versions come from npm's registry, each package is compared with its hash, and no script of a package runs.
    Node.js is taken from PATH or from the extra `scip`. The next `codequarry index` uses them.

    Example: codequarry setup scip
    """
    from codequarry.pipelines.scip.installation import install_indexers, pinned_indexers, remove_indexers

    folder = tools_folder()
    if remove:
        say(f"removed {folder}" if remove_indexers() else f"nothing to remove: {folder} does not exist")
        return
    named = ", ".join(f"{name} {version}" for name, version in pinned_indexers().items())
    say(f"installing {named} into {folder}, about 100 MB")
    installed = install_indexers(force=force)
    say("installed; `codequarry index` uses them from now on" if installed else "they are there already")

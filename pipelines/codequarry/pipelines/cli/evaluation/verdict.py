"""``codequarry verdict``."""

from __future__ import annotations

from typing import Annotated

import typer

from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.install_hints import missing_extra
from codequarry.schemas.settings.load import load_settings
from codequarry.serving.cli.options import JsonOption, RootOption, SettingsOption


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("verdict")(verdict)


def verdict(
    version: Annotated[
        str, typer.Argument(help="A version, published or stopped.", show_default="the last one that was judged")
    ] = "",
    as_json: JsonOption = False,
    root: RootOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """Print what the retrieval gate found before a version was published, or was not.

    Recall of the dense indexes against exact search, and how answers, search and opening
    compare with the version that was current. The page with its plots lies in verdicts/ of the bundle root.

    Example: codequarry verdict
    """
    try:
        from codequarry.pipelines.gates.answers.verdict import PAGE, read_verdict
    except ModuleNotFoundError as error:
        raise missing_extra("codequarry verdict", "build", missing=error.name) from None
    bundle_root = BundleRoot(load_settings(settings_file, bundle_root=root).bundle.root)
    typer.echo(read_verdict(bundle_root, version, "verdict.json" if as_json else PAGE).rstrip("\n"))

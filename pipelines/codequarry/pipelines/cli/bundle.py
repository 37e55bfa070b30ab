"""``codequarry rollback`` and ``codequarry prune``: the commands that change what is published without building."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from codequarry.pipelines.cli.progress import console
from codequarry.pipelines.cli.repositories import SettingsOption
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.errors import NoBundleError
from codequarry.schemas.settings.load import load_settings
from codequarry.schemas.wording import counted

RootOption = Annotated[
    Path | None, typer.Option("--root", help="Bundle root.", show_default="[bundle] root of the settings")
]


def rollback(
    version: Annotated[
        str, typer.Argument(help="A version of `codequarry versions`.", show_default="the one before the current one")
    ] = "",
    root: RootOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """Make an earlier version current again, after every byte of it was checked.

    The version left behind stays until retention removes it. The next `codequarry index` publishes
    again whatever the sources hold then.

    Examples:

      codequarry rollback

      codequarry rollback 20261121T120000Z-0123abcd
    """
    bundle_root = existing_root(load_settings(settings_file, bundle_root=root, look="above").bundle.root)
    from codequarry.pipelines.publish.rollback import roll_back

    done = roll_back(bundle_root, version)
    was = f", was {done.before}" if done.before else ", was damaged or gone"
    console.print(f"[green]current is[/green] {done.manifest.version}{was}", highlight=False)
    typer.echo(bundle_root.version(done.manifest.version).path)


def prune(
    keep: Annotated[
        int | None,
        typer.Option(min=2, help="Versions to keep, the current one included.", show_default="[bundle] keep_versions"),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be removed, and remove nothing.")] = False,
    root: RootOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """Remove old versions and what killed runs left behind.

    The current version, one whole version to roll back to, and every version a reader holds stay.

    Examples:

      codequarry prune --dry-run

      codequarry prune --keep 2
    """
    settings = load_settings(settings_file, bundle_root=root, look="above").bundle
    bundle_root = existing_root(settings.root)
    from codequarry.pipelines.publish.publish import publishing
    from codequarry.pipelines.publish.retention import prune as run

    if keep is not None:
        settings = settings.model_copy(update={"keep_versions": keep})
    with publishing(bundle_root):
        done = run(bundle_root, settings, dry_run=dry_run)
    for name in done.held:
        console.print(f"[yellow]held by a reader[/yellow] {name}", highlight=False)
    for name in done.leftovers:
        console.print(f"[green]cleaned up[/green] {name}", highlight=False)
    verb = "would remove" if dry_run else "removed"
    for name in done.removed:
        console.print(f"[green]{verb}[/green] {name}", highlight=False)
        typer.echo(name)
    console.print(f"{counted(len(done.removed), 'version')}, {done.freed_bytes / 1e6:.1f} MB", highlight=False)


def existing_root(path: Path) -> BundleRoot:
    """Return the root when something was ever published there, so that an empty folder gets no lock file."""
    root = BundleRoot(path)
    if not root.versions.is_dir():
        raise NoBundleError(
            f"no bundle is published under {path}",
            suggestion="run `codequarry index PATH` first, or point --root at a bundle root",
        )
    return root

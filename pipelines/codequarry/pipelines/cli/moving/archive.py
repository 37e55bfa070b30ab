"""``codequarry export`` and ``codequarry import``: a published version as one file, between machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from codequarry.pipelines.cli.bundle import RootOption, existing_root
from codequarry.pipelines.cli.progress import Bars, console
from codequarry.pipelines.cli.repositories import SettingsOption
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.settings.load import load_settings
from codequarry.schemas.wording import counted

if TYPE_CHECKING:
    from codequarry.pipelines.publish.archive.write import Exported
    from codequarry.pipelines.publish.arrival import Imported


def export(
    version: Annotated[
        list[str],
        typer.Argument(
            metavar="VERSION",
            help="A version of `codequarry versions`.",
            default_factory=list,
            show_default="the current one",
        ),
    ],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")],
    force: Annotated[bool, typer.Option("--force", help="Take the place of a file that is there.")] = False,
    without_base: Annotated[
        bool,
        typer.Option(
            "--without-base",
            help="Leave out the complete version that a delta version lies over, for a machine that has it.",
        ),
    ] = False,
    sign: Annotated[
        Path | None, typer.Option(metavar="KEY", help="Sign with this secret key of minisign, into FILE.minisig.")
    ] = None,
    root: RootOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """Write a published version into one file, for another machine.

    Every byte is checked on the way. The file is a plain tar, the same for the same version. That of a delta version
    holds the complete version below it too. What a version holds is code: give the file to those alone who may read it.

    Examples:

      codequarry export app.tar

      codequarry export 20261121T120000Z-0123abcd /mnt/usb/app.tar

      codequarry export app.tar --sign ~/.minisign/minisign.key
    """
    bundle_root = existing_root(load_settings(settings_file, bundle_root=root, look="up").bundle.root)
    if len(version) > 1:
        raise InvalidArgumentError(
            f"found {len(version) + 1} arguments, expected [VERSION] FILE", suggestion="see `codequarry export --help`"
        )
    if not version and str(file) in bundle_root.version_names():
        raise InvalidArgumentError(
            f"{file} is a version, expected a file", suggestion=f"write it like codequarry export {file} app.tar"
        )
    from codequarry.pipelines.publish.archive.signatures import read_secret_key, write_signature
    from codequarry.pipelines.publish.archive.write import export_version

    key = read_secret_key(sign, _password) if sign is not None else None
    with Bars() as bars:
        done = export_version(bundle_root, file, "".join(version), bars.show, force=force, without_base=without_base)
    files = counted(len(done.manifest.files), "file")
    console.print(
        f"[green]exported[/green] {done.manifest.version}: {files}, {done.size_bytes / 1e6:.1f} MB{_about_base(done)}",
        highlight=False,
    )
    if key is not None:
        signature = write_signature(done.path, done.raw, done.manifest.version, key)
        console.print(f"[green]signed[/green] by {key.get_public_key().to_base64().decode()}", highlight=False)
        console.print(f"  {escape(str(signature))}", highlight=False)
    typer.echo(done.path)


def import_archive(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of `codequarry export`.")],
    keep_current: Annotated[
        bool, typer.Option("--keep-current", help="Add the version beside the current one, which stays current.")
    ] = False,
    verify: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY",
            help="Require a signature, FILE.minisig, by this public key of minisign: its file, or the line of it. "
            "May be given several times.",
            show_default="archive.trusted_keys of the settings",
        ),
    ] = None,
    root: RootOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """Publish a version that was exported elsewhere.

    It becomes current, as after `codequarry index`: once every byte and what the files hold was checked. Whatever
    fails, CURRENT stays. Without a signature the file is checked against itself alone: take it from those whose index
    you would serve, or let them sign it.

    Examples:

      codequarry import app.tar

      codequarry import app.tar --keep-current

      codequarry import app.tar --verify builder.pub
    """
    settings = load_settings(settings_file, bundle_root=root, look="above")
    from codequarry.pipelines.publish.archive.import_ import import_version

    with Bars() as bars:
        done = import_version(file, settings, bars.show, keep_current=keep_current, keys=verify or ())
    for removed in done.pruned.removed if done.pruned else ():
        console.print(f"retention removed {removed}", highlight=False)
    if done.unlike:
        console.print(
            f"[yellow]built otherwise[/yellow] than this program builds: {', '.join(done.unlike)}", highlight=False
        )
    console.print(_describe_import(done), highlight=False)
    if done.provenance is not None:
        console.print(f"  {escape(done.provenance.sentence)}", highlight=False)
    if keep_current and not done.stays:
        console.print(
            "[yellow]retention removes it[/yellow] after the next publish, by its age or newer ones; "
            f"`codequarry rollback {done.manifest.version}` makes it current",
            highlight=False,
        )
    typer.echo(done.path)


def _password() -> str:
    return typer.prompt("Password of the key", hide_input=True, err=True)


def _about_base(done: Exported) -> str:
    """Name the base of an exported delta version, and say whether the file holds it."""
    if done.manifest.stack is None:
        return ""
    return f", {'with' if done.base is not None else 'without'} its base {done.manifest.stack.base}"


def _describe_import(done: Imported) -> str:
    name, sizes = done.manifest.version, f"{done.manifest.size_bytes / 1e6:.1f} MB"
    if done.base is not None:
        sizes += f", with its base {done.base}"
    if done.linked_bytes:
        sizes += f", {done.linked_bytes / 1e6:.1f} MB shared with the one before"
    return {
        "published": f"[green]imported[/green] {name}: {sizes}; it is current",
        "added": f"[green]imported[/green] {name}: {sizes}; CURRENT stays",
        "made current": f"{name} is there already, and whole; [green]it is current now[/green]",
        "unchanged": f"{name} is there already, and whole; nothing had to be done",
    }[done.done]

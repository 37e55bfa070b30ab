"""The commands of this layer, and ``codequarry index``: the pipeline from the command line."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from codequarry.pipelines.acceptance import checked_reason
from codequarry.pipelines.cli_archive import export, import_archive
from codequarry.pipelines.cli_bundle import prune, rollback
from codequarry.pipelines.cli_census import census
from codequarry.pipelines.cli_progress import Bars, console
from codequarry.pipelines.cli_repositories import RepositoriesArgument, SettingsOption, over, with_indexes
from codequarry.pipelines.cli_store import store_app
from codequarry.pipelines.cli_train import train_encoder
from codequarry.pipelines.cli_tune import tune_app
from codequarry.schemas.install_hints import missing_extra
from codequarry.schemas.settings import Settings, load_settings

if TYPE_CHECKING:
    from codequarry.pipelines.build import IndexReport


def register(app: typer.Typer) -> None:
    """Add this layer's commands to the codequarry command line."""
    app.command("census")(census)
    app.command("index")(index)
    app.command("rollback")(rollback)
    app.command("prune")(prune)
    app.add_typer(store_app, name="store")
    app.add_typer(tune_app, name="tune")
    app.command("export")(export)
    app.command("import")(import_archive)
    app.command("train-encoder")(train_encoder)


def index(
    repositories: RepositoriesArgument = None,
    force: Annotated[
        bool, typer.Option("--force", help="Rebuild and publish even when nothing changed since CURRENT.")
    ] = False,
    root: Annotated[
        Path | None, typer.Option(help="Bundle root to publish to.", show_default="[bundle] root of the settings")
    ] = None,
    scip: Annotated[
        list[str] | None,
        typer.Option(metavar="[NAME=]FILE", help="A SCIP index of a repository that was made elsewhere; repeatable."),
    ] = None,
    adapt: Annotated[
        bool | None,
        typer.Option(
            "--adapt/--no-adapt",
            help="Fit the encoder to the repositories first, and take it where it is better beyond doubt.",
            show_default="[embedding] adapt of the settings",
        ),
    ] = None,
    accept_regression: Annotated[
        str | None,
        typer.Option(
            metavar="REASON",
            help="Publish though checks fail that compare with CURRENT, and keep the reason in the manifest.",
        ),
    ] = None,
    settings_file: SettingsOption = None,
) -> None:
    """Index repositories and publish them as one new version.

    The version holds exactly the repositories given. Nothing readers see changes until every check has passed;
    unchanged chunks are never embedded twice, and an unchanged repository costs only its census.

    Examples:

      codequarry index .

      codequarry index ~/src/app lib=~/src/shared-library

      codequarry index https://example.org/team/app#v1.0

      codequarry index . --scip index.scip

      codequarry index . --adapt

      codequarry index . --accept-regression "the examples moved to a repository of their own"
    """
    accept = checked_reason(accept_regression)
    settings = with_indexes(over(load_settings(settings_file, bundle_root=root), repositories or []), scip or [])
    if adapt is not None:
        settings = settings.model_copy(update={"embedding": settings.embedding.model_copy(update={"adapt": adapt})})
    try:
        from codequarry.pipelines.arrow_alone import leave_pandas_out
        from codequarry.pipelines.build import index_repositories
        from codequarry.pipelines.cli_secrets import secret_counts, secret_places
    except ModuleNotFoundError as error:
        raise missing_extra("codequarry index", "build", missing=error.name) from None

    leave_pandas_out()
    with Bars() as bars:
        report = index_repositories(settings, bars.show, force=force, accept=accept)
    skipped: Counter[str] = Counter()
    for snapshot in report.snapshots:
        skipped.update(snapshot.skipped)
        state = f"commit {snapshot.commit[:12]}" if snapshot.commit else "a directory without git"
        changed = ", with uncommitted changes" if snapshot.commit and snapshot.dirty else ""
        console.print(f"[bold]{snapshot.name}[/bold]: {state}{changed}", highlight=False)
    table = Table(show_header=False, box=None, padding=(0, 2))
    counts = report.manifest.counts
    table.add_row("files indexed", f"{counts.files:,}")
    table.add_row("files skipped", f"{counts.skipped_files:,}  {_reasons(skipped)}")
    table.add_row("secrets", secret_counts(report.snapshots))
    table.add_row("chunks", f"{counts.chunks:,}")
    if report.embeddings:
        embedded = sum(each.embedded for each in report.embeddings)
        table.add_row("vectors", f"{embedded:,} embedded, {sum(each.reused for each in report.embeddings):,} reused")
    if report.chunks:
        broken = sum(each.files_with_syntax_errors for each in report.chunks)
        parsed = sum(each.parsed_files for each in report.chunks)
        reused = sum(each.reused_files for each in report.chunks)
        files = sum(each.files for each in report.chunks)
        table.add_row("files chunked", f"{files - reused:,} chunked, {reused:,} reused")
        table.add_row("syntax", f"{parsed:,} of {files:,} files by syntax tree, {broken:,} with errors")
        definitions = sum(each.definitions for each in report.chunks)
        references = sum(each.references for each in report.chunks)
        table.add_row("symbols", f"{definitions:,} definitions, {references:,} references")
    if report.modules:
        modules = sum(each.modules for each in report.modules)
        imports = sum(each.imports for each in report.modules)
        inside = sum(each.resolved for each in report.modules)
        table.add_row("modules", f"{modules:,}  {inside:,} of {imports:,} imports resolved inside")
    for source in report.manifest.sources:
        for each in source.scip:
            reason = f": {each.reason}" if each.reason else ""
            covered = f"{each.label} {each.status}, {each.documents:,} of {each.files:,} files{reason}"
            # As text: a file's name may look like markup.
            table.add_row("scip", Text(f"{source.name}: {covered}" if len(report.manifest.sources) > 1 else covered))
    if shards := report.manifest.shards if report.chunks else ():
        built = len(shards) - report.reused_shards
        table.add_row("index shards", f"{built:,} built, {report.reused_shards:,} reused")
    table.add_row("seconds", _by_stage(report.seconds))
    table.add_row("CPU seconds", f"{_by_stage(report.cpu_seconds)}  in all {sum(report.cpu_seconds.values()):.1f}")
    for each in report.manifest.accepted if not report.unchanged else ():
        table.add_row("accepted", Text(f"{each.check}: {each.found}, expected {each.expected}: {each.reason}"))
    size = sum(entry.size_bytes for entry in report.manifest.files)
    table.add_row("bundle size", f"{size / 1e6:.1f} MB, {report.linked_bytes / 1e6:.1f} MB shared with the one before")
    console.print(table, highlight=False)
    for line in secret_places(report.snapshots, settings):
        console.print(line, highlight=False, markup=False)
    _say_tier(report, settings)
    for name in report.pruned.removed if report.pruned else ():
        console.print(f"retention removed {name}", highlight=False)
    verb = "unchanged: CURRENT already is" if report.unchanged else "published"
    console.print(f"[green]{verb}[/green] {report.manifest.version}", highlight=False)
    typer.echo(report.path)


def _by_stage(seconds: dict[str, float]) -> str:
    return "  ".join(f"{stage} {spent:.1f}" for stage, spent in seconds.items())


def _say_tier(report: IndexReport, settings: Settings) -> None:
    """Which tier the version is of, and what the next one would cost and add."""
    from codequarry.pipelines.tiers import described, offer

    manifest = report.manifest
    said = [f"tier {manifest.tier}: {described(manifest)}"]
    if manifest.encoder.adaptation:
        said.append(f"fitted to the repositories: {manifest.encoder.adaptation}")
    if manifest.warp is not None and manifest.warp.measured:
        said.append(f"late interaction in the ranking: {manifest.warp.measured}")
    for line in [*said, *offer(manifest.tier, manifest.counts.chunks, settings)]:
        console.print(line, highlight=False, markup=False)


def _reasons(skipped: Counter[str]) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in skipped.most_common())

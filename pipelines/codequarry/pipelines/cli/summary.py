"""Summary that ``codequarry index`` prints at its end: a few lines, or with ``--verbose`` all counts and costs."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.table import Table
from rich.text import Text

from codequarry.pipelines.cli.census import plain
from codequarry.pipelines.cli.moving.remote import describe_push
from codequarry.pipelines.cli.progress import console
from codequarry.pipelines.cli.repositories import source_state
from codequarry.pipelines.scip.indexers import SETUP
from codequarry.pipelines.secrets.scanner import ALLOWED
from codequarry.pipelines.sources.earlier import KEPT
from codequarry.pipelines.sources.snapshot import Snapshot
from codequarry.pipelines.store.workspace import repository_work
from codequarry.schemas.bundle.manifest import Manifest, ScipEntry
from codequarry.schemas.wording import counted

if TYPE_CHECKING:
    from codequarry.pipelines.run import IndexReport

_SOURCES_SHOWN = 5
_FALLBACKS_SHOWN = 5
_PLACES_SHOWN = 20
_FILES = {"faiss2": ("faiss2.", "encoder2/", "tables/embeddings2."), "warp": ("warp/",), "splade": ("splade/",)}
"""Beginnings of the paths of a channel's files."""


def print_summary(report: IndexReport, fates: Mapping[str, str], work: Path, *, verbose: bool = False) -> None:
    """Print a report on standard error, and the folder of the version on standard output.

    Args:
        report: Results of the run.
        fates: What became of repositories beside being read, by name.
        work: The work folder.
        verbose: Print every count and cost, each repository and each place of a secret.
    """
    _print_sources(report.snapshots, fates, shown=len(fates) + len(report.snapshots) if verbose else _SOURCES_SHOWN)
    if verbose:
        _print_details(report, work)
    else:
        for line in _brief_lines(report):
            console.print(line, highlight=False, markup=False, soft_wrap=not console.is_terminal)
    for warning in report.warnings:
        console.print(Text.assemble(("warning: ", "yellow"), warning), highlight=False)
    if report.pushed is not None:
        console.print(describe_push(report.pushed), highlight=False, soft_wrap=not console.is_terminal)
    verb = "unchanged: CURRENT already is" if report.unchanged else "published"
    console.print(f"[green]{verb}[/green] {report.manifest.version}", highlight=False)
    typer.echo(_nearest(report.path) if sys.stdout.isatty() else report.path)


def _nearest(path: Path) -> str:
    """Return a path as a person types it: relative to the working folder where that is shorter."""
    return min(str(path), os.path.relpath(path), key=len)


def _print_details(report: IndexReport, work: Path) -> None:
    table = Table(show_header=False, box=None, padding=(0, 2))
    _add_counts(table, report)
    _add_symbols(table, report)
    _add_costs(table, report)
    console.print(table, highlight=False)
    for line in _secret_places(report.snapshots, work):
        console.print(line, highlight=False, markup=False)
    for line in _tier_lines(report.manifest):
        console.print(line, highlight=False, markup=False)
    for name in report.pruned.removed if report.pruned else ():
        console.print(f"retention removed {name}", highlight=False)


def _brief_lines(report: IndexReport) -> Iterator[str]:
    """Yield what was indexed, what of it changed, what is missing, and what it took: lines of harmless characters."""
    counts = report.manifest.counts
    definitions = sum(each.definitions for each in report.chunks)
    symbols = f", {counted(definitions, 'definition')}" if report.chunks else ""
    skipped = _skipped(report.snapshots)
    without = f"; {counted(counts.skipped_files, 'file')} skipped ({skipped})" if skipped else ""
    yield f"{counted(counts.files, 'file')}, {counted(counts.chunks, 'chunk')}{symbols}{without}"
    if changes := _changes(report):
        yield changes
    if report.differences:
        yield f"made anew, as settings or tools are not those of the version before: {', '.join(report.differences)}"
    if report.chunks:
        yield from _without_scip(report.manifest)
    if any(snapshot.secrets for snapshot in report.snapshots):
        yield f"secrets: {_secret_counts(report.snapshots)}; `codequarry index --verbose` names their places"
    for each in report.manifest.accepted if not report.unchanged else ():
        yield f"accepted: {each.check}: {each.found}, expected {each.expected}: {each.reason}"
    if report.manifest.encoder.adaptation and report.adaptation is not None:
        yield f"fitted to the repositories: {report.manifest.encoder.adaptation}"
    size = sum(entry.size_bytes for entry in report.manifest.files)
    seconds, cpu = sum(report.seconds.values()), sum(report.cpu_seconds.values())
    yield f"{seconds:.1f} s, {cpu:.1f} s of CPU; {size / 1e6:.1f} MB"


def _without_scip(manifest: Manifest) -> Iterator[str]:
    """Yield why SCIP indexed less than it could, with the repositories that this is true of.

    Several indexers that are not here share one line.
    """
    names: dict[str, list[str]] = {}
    absent: dict[str, str] = {}
    for source in manifest.sources:
        for each in source.scip:
            if each.reason:
                reason = f"{each.label} {each.status}: {each.reason}{_log_of(each)}"
                names.setdefault(reason, []).append(source.name)
                if each.status == "missing" and not each.given:
                    absent[reason] = each.label
    if len(absent) > 1:
        labels = ", ".join(dict.fromkeys(absent.values()))
        hint = "`codequarry index --verbose` says how each is had"
        if any(SETUP in reason for reason in absent):
            hint = f"`codequarry setup scip` installs those of Python and TypeScript, {hint}"
        yield plain(f"not run: {labels}; {hint}")
    for reason, of in names.items():
        if reason in absent and len(absent) > 1:
            continue
        where = of[0] if len(of) == 1 else f"{len(of):,} repositories"
        yield plain(f"{where}: {reason}")


def _log_of(entry: ScipEntry) -> str:
    """Return where an indexer that failed here tells why; "" for any other entry."""
    ran = entry.status in ("failed", "timeout") and not entry.given
    return f"; {entry.indexer.split()[0]}.log in its work folder has what it printed" if ran else ""


def _changes(report: IndexReport) -> str:
    """Return the numbers of files and vectors that were made anew; "" where all were, or none was looked at."""
    if (stacked := report.stacked) is not None:
        changed = f"{counted(stacked.changed, 'file')} changed, {stacked.deleted:,} deleted"
        return f"a delta over {stacked.base}: {changed}; {counted(stacked.chunks, 'chunk')}"
    files, reused = (sum(getattr(each, name) for each in report.chunks) for name in ("files", "reused_files"))
    if not reused:
        return ""
    embedded = sum(each.embedded for each in report.embeddings)
    return f"{counted(files - reused, 'file')} read anew, {reused:,} as before; {counted(embedded, 'chunk')} embedded"


def _skipped(snapshots: Sequence[Snapshot]) -> str:
    """Return the numbers of skipped files by reason, in one line."""
    skipped: Counter[str] = Counter()
    for snapshot in snapshots:
        skipped.update(snapshot.skipped)
    return ", ".join(f"{count:,} {reason}" for reason, count in skipped.most_common())


def _print_sources(snapshots: Sequence[Snapshot], fates: Mapping[str, str], *, shown: int) -> None:
    """Print what each repository was read at; of more than ``shown``, those that came, moved or go."""
    states: dict[str, str] = {}
    for snapshot in snapshots:
        states[snapshot.name] = source_state(snapshot.commit, dirty=snapshot.dirty, unborn=snapshot.unborn)
    lines = {name: f"{state}; {fates[name]}" if name in fates else state for name, state in states.items()}
    lines |= {name: fate for name, fate in fates.items() if name not in states}
    named = lines if len(lines) <= shown else [name for name, fate in fates.items() if not fate.startswith(KEPT)]
    for name in named:
        console.print(Text.assemble((name, "bold"), f": {plain(lines[name])}"), highlight=False)
    if more := len(lines) - len(named):
        others = "more repositories" if named else "repositories"
        console.print(f"{more:,} {others}; `codequarry index --verbose` names them", highlight=False, markup=False)


def _add_counts(table: Table, report: IndexReport) -> None:
    """Add rows of files, secrets, chunks and vectors."""
    counts = report.manifest.counts
    table.add_row("files indexed", f"{counts.files:,}")
    table.add_row("files skipped", f"{counts.skipped_files:,}  {_skipped(report.snapshots)}")
    table.add_row("secrets", _secret_counts(report.snapshots))
    table.add_row("chunks", f"{counts.chunks:,}")
    if report.embeddings:
        embedded = sum(each.embedded for each in report.embeddings)
        table.add_row("vectors", f"{embedded:,} embedded, {sum(each.reused for each in report.embeddings):,} reused")
        devices = dict.fromkeys(leg.use.device for each in report.embeddings for leg in each.legs if leg.embedded)
        if any(leg.use.asked for each in report.embeddings for leg in each.legs):
            table.add_row("embedded on", ", ".join(devices) or "no device: every vector was there")


def _add_symbols(table: Table, report: IndexReport) -> None:
    """Add rows of syntax, symbols, modules and SCIP."""
    if report.chunks:
        broken = sum(each.files_with_syntax_errors for each in report.chunks)
        parsed = sum(each.parsed_files for each in report.chunks)
        reused = sum(each.reused_files for each in report.chunks)
        files = sum(each.files for each in report.chunks)
        table.add_row("files chunked", f"{files - reused:,} chunked, {reused:,} reused")
        table.add_row("syntax", f"{parsed:,} of {counted(files, 'file')} by syntax tree, {broken:,} with errors")
        fallbacks = [(each.name, *fallback) for each in report.chunks for fallback in sorted(each.fallbacks.items())]
        for name, path, reason in fallbacks[:_FALLBACKS_SHOWN]:
            shown = path if path.isprintable() else ascii(path)
            table.add_row("by lines", Text(f"{name}/{shown}: {reason}"))
        if len(fallbacks) > _FALLBACKS_SHOWN:
            table.add_row("by lines", f"and {len(fallbacks) - _FALLBACKS_SHOWN:,} more")
        definitions = sum(each.definitions for each in report.chunks)
        references = sum(each.references for each in report.chunks)
        table.add_row("symbols", f"{counted(definitions, 'definition')}, {counted(references, 'reference')}")
    if report.modules:
        modules = sum(each.modules for each in report.modules)
        imports = sum(each.imports for each in report.modules)
        inside = sum(each.resolved for each in report.modules)
        table.add_row("modules", f"{modules:,}  {inside:,} of {counted(imports, 'import')} resolved inside")
    for source in report.manifest.sources:
        for each in source.scip:
            reason = f": {each.reason}" if each.reason else ""
            covered = f"{each.label} {each.status}, {each.documents:,} of {counted(each.files, 'file')}{reason}"
            # As text: a file's name may look like markup.
            table.add_row("scip", Text(f"{source.name}: {covered}" if len(report.manifest.sources) > 1 else covered))


def _add_costs(table: Table, report: IndexReport) -> None:
    """Add rows of shards, seconds, accepted regressions and bytes."""
    if shards := report.manifest.shards if report.chunks else ():
        built = len(shards) - report.reused_shards
        table.add_row("index shards", f"{built:,} built, {report.reused_shards:,} reused")
    table.add_row("seconds", _by_stage(report.seconds))
    table.add_row("CPU seconds", f"{_by_stage(report.cpu_seconds)}  in all {sum(report.cpu_seconds.values()):.1f}")
    for each in report.manifest.accepted if not report.unchanged else ():
        table.add_row("accepted", Text(f"{each.check}: {each.found}, expected {each.expected}: {each.reason}"))
    if (stacked := report.stacked) is not None:
        changed = f"{counted(stacked.changed, 'file')} changed, {stacked.deleted:,} deleted"
        table.add_row("delta", f"over {stacked.base}: {changed}; {counted(stacked.chunks, 'chunk')}")
    size = sum(entry.size_bytes for entry in report.manifest.files)
    table.add_row("bundle size", f"{size / 1e6:.1f} MB, {report.linked_bytes / 1e6:.1f} MB shared with the one before")


def _by_stage(seconds: Mapping[str, float]) -> str:
    return "  ".join(f"{stage} {spent:.1f}" for stage, spent in seconds.items())


def _secret_counts(snapshots: Sequence[Snapshot]) -> str:
    """Return the number of secrets by kind, in one line."""
    if all(snapshot.secrets is None for snapshot in snapshots):
        return "not looked for: secrets.scan is false"
    kinds: Counter[str] = Counter()
    for snapshot in snapshots:
        kinds.update(snapshot.secrets or {})
    if not kinds:
        return "none found"
    counts = ", ".join(f"{count:,} {kind}" for kind, count in sorted(kinds.items(), key=lambda one: (-one[1], one[0])))
    return f"{kinds.total():,} replaced by asterisks: {counts}"


def _secret_places(snapshots: Sequence[Snapshot], work: Path) -> list[str]:
    """Return the places of secrets, never their text, and what to do about them: lines of harmless characters."""
    places = [(snapshot.name, place) for snapshot in snapshots for place in snapshot.secret_places]
    if not places:
        return []
    lines = [f"  {plain(name)}/{plain(place)}" for name, place in places[:_PLACES_SHOWN]]
    if len(places) > _PLACES_SHOWN:
        files = sorted({str(repository_work(work, name).snapshot) for name, _ in places[_PLACES_SHOWN:]})
        lines.append(f"  and {len(places) - _PLACES_SHOWN:,} more, in {', '.join(files)}")
    return [
        "secrets, to be revoked and taken out of the repository:",
        *lines,
        f"  what is none: {ALLOWED} in a comment beside it, or [secrets] allow",
    ]


def _tier_lines(manifest: Manifest) -> list[str]:
    """Return the tier of the version, and what was measured of its encoder and of late interaction."""
    lines = [f"tier {manifest.tier}: {_describe_parts(manifest)}"]
    if manifest.encoder.adaptation:
        lines.append(f"fitted to the repositories: {manifest.encoder.adaptation}")
    if manifest.warp is not None and manifest.warp.measured:
        lines.append(f"late interaction in the ranking: {manifest.warp.measured}")
    return lines


def _describe_parts(manifest: Manifest) -> str:
    """Describe the parts of a version: its encoders, and the bytes of what the tiers above the first add.

    The first tier's bytes are those of the rest of the version.
    """
    first, *more = manifest.legs
    parts = [f"{leg.encoder.name} ({_megabytes(manifest, leg.channel)})" for leg in more]
    text = f"words, names of definitions, and vectors by {' and '.join([first.encoder.name, *parts])}"
    if manifest.warp is not None:
        text += f"; late interaction by {manifest.warp.encoder.name} ({_megabytes(manifest, 'warp')})"
    if manifest.splade is not None:
        text += f"; learned sparse terms by {manifest.splade.encoder.name} ({_megabytes(manifest, 'splade')})"
    return text


def _megabytes(manifest: Manifest, channel: str) -> str:
    size = sum(entry.size_bytes for entry in manifest.files if entry.path.startswith(_FILES[channel]))
    return f"{size / 1e6:.1f} MB"

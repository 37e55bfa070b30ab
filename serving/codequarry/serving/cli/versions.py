"""Commands ``codequarry versions`` and ``codequarry verify``: published versions, compared with their manifests."""

from __future__ import annotations

import time
from collections.abc import Container
from dataclasses import asdict
from typing import Annotated, Any

import typer

from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot, Current
from codequarry.schemas.bundle.manifest import Manifest
from codequarry.schemas.bundle.provenance import Provenance, read_provenance
from codequarry.schemas.bundle.refs import list_refs, read_ref, sound_refs
from codequarry.schemas.errors import CodequarryError, NoBundleError, ResourcesError, UnavailableError
from codequarry.schemas.settings.load import load_settings
from codequarry.schemas.times import age_s, in_words
from codequarry.schemas.wording import counted
from codequarry.serving.cli.options import JsonOption, RootOption, SettingsOption, lent_to
from codequarry.serving.cli.terminal import echo_json, for_terminal, print_table
from codequarry.serving.engine.lag import Lag, measure_lag
from codequarry.serving.files.integrity import base_of, read_manifest, unique_bytes, verify
from codequarry.serving.files.lease import is_held
from codequarry.serving.files.version_order import ordered_versions


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("versions")(versions)
    app.command("verify")(verify_version)


def versions(
    context: typer.Context,
    as_json: JsonOption = False,
    root: RootOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """List the published versions, oldest first.

    State: current; held = a reader has it open; ref = of a further branch, named below; unfinished = its publish was
    cut off; broken = not what its manifest says. Unique is what removing the version would free: files shared with
    another version are counted in neither.
    For repositories on this machine, it says how far the current version is behind their work trees.

    Example: codequarry versions
    """
    bundle_root = BundleRoot(load_settings(settings_file, bundle_root=root, look="up").bundle.root)
    problem: CodequarryError | None = None
    current: Current | None = None
    try:
        current = bundle_root.read_current()
    except UnavailableError as error:
        problem = error
        if isinstance(error, NoBundleError) and not bundle_root.version_names():
            raise
    rows = [version_row(bundle_root, name, current) for name in ordered_versions(bundle_root)]
    for row in rows:
        if row["current"] and "commits" in row:
            row["behind"] = [
                asdict(each) for each in measure_lag(bundle_root, row["version"], lent_to(context).commits_between)
            ]
    if as_json:
        echo_json(rows)
    else:
        head = ("", "version", "age", "files", "chunks", "size", "unique", "state")
        print_table(head, map(_cells, rows), whole=len(head), caption="* current")
        for row in rows:
            typer.echo(f"{row['version']}: {_made_of(row)}")
            for each in row["refs"]:
                typer.echo(for_terminal(f"  ref {each}"))
            if row.get("over"):
                typer.echo(f"  delta over {row['over']}")
            if "tier" in row:
                typer.echo(_vectors_of(row))
            if row.get("imported"):
                typer.echo(for_terminal(f"  {Provenance.model_validate(row['imported']).sentence}"))
            for each in row.get("behind", ()):
                typer.echo(for_terminal(f"  {Lag(**each).sentence}"))
            for each in row.get("accepted", ()):
                typer.echo(for_terminal(f"  accepted: {each['check']}: {each['found']}; {each['reason']}"))
    if problem is not None:
        raise problem


def version_row(bundle_root: BundleRoot, name: str, current: Current | None) -> dict[str, Any]:
    """Return one version as the command lists it; ``problem`` is the reason why it is broken."""
    paths, is_current = bundle_root.version(name), current is not None and name == current.version
    begun = bundle_root.read_publishing()
    state = "unfinished" if begun is not None and begun.version == name and not is_current else ""
    state = "current" if is_current else "held" if _is_held(paths) else state
    refs = [ref for ref, named in sound_refs(bundle_root).items() if named.version == name]
    state = state or ("ref" if refs else "")
    row: dict[str, Any] = {
        "version": name,
        "current": is_current,
        "state": state,
        "unique_bytes": unique_bytes(paths),
        "refs": sorted(map(str, refs)),
    }
    try:
        promised = current.manifest_sha256 if current is not None and is_current else None
        manifest = read_manifest(paths, expected_sha256=promised)
        verify(paths, manifest, deep=False)
        if manifest.stack is not None:
            base_of(bundle_root, manifest)
        age = age_s(manifest.created)
    except ResourcesError:
        raise
    except (UnavailableError, OSError) as error:
        problem = error.message if isinstance(error, UnavailableError) else error.strerror or "unreadable"
        return {**row, "state": "broken", "problem": problem}
    provenance = read_provenance(bundle_root, name)
    return {
        **row,
        "created": manifest.created,
        "sequence": manifest.sequence,
        "age_s": age,
        "over": manifest.stack.base if manifest.stack is not None else None,
        "commits": {source.name: source.revision for source in manifest.sources},
        "files": manifest.counts.files,
        "chunks": manifest.counts.chunks,
        "tier": manifest.tier,
        "encoders": {leg.channel: leg.encoder.name for leg in manifest.legs},
        "accepted": [each.model_dump() for each in manifest.accepted],
        "size_bytes": sum(entry.size_bytes for entry in manifest.files),
        "imported": provenance and provenance.model_dump(),
    }


def _is_held(paths: BundlePaths) -> bool:
    """Tell whether a reader has the version open."""
    try:
        return is_held(paths.manifest)
    except OSError:
        return False


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    mark, unique = "*" if row["current"] else "", f"{row['unique_bytes'] / 1e6:.1f} MB"
    if "problem" in row:
        return (mark, row["version"], "", "", "", "", unique, row["state"])
    counts = (f"{row['files']:,}", f"{row['chunks']:,}", f"{row['size_bytes'] / 1e6:.1f} MB", unique, row["state"])
    return (mark, row["version"], in_words(row["age_s"]), *counts)


def _made_of(row: dict[str, Any]) -> str:
    """Return the commits of a version, or the reason why it is broken."""
    commits = (f"{name} {_short(commit)}".rstrip() for name, commit in row.get("commits", {}).items())
    return for_terminal(row["problem"] if "problem" in row else ", ".join(commits))


def _vectors_of(row: dict[str, Any]) -> str:
    """Return the tier of a version and the encoders of its dense indexes."""
    return for_terminal(f"  tier {row['tier']}: {' and '.join(row['encoders'].values())}")


def _short(revision: str) -> str:
    commit, plus, dirty = revision.partition("+")
    return commit[:12] + plus + dirty


def verify_version(
    version: Annotated[
        str,
        typer.Argument(help="A version of `codequarry versions`.", show_default="the current one and those of refs"),
    ] = "",
    deep: Annotated[bool, typer.Option("--deep", help="Read every byte, instead of names and sizes.")] = False,
    root: RootOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """Compare a version with its manifest, and the base of a delta version as well.

    Without a version, these are the current one and those of further refs.

    The manifest itself is always checked whole. What the files hold is asked by `codequarry doctor`.

    Example: codequarry verify --deep
    """
    bundle_root = BundleRoot(load_settings(settings_file, bundle_root=root, look="up").bundle.root)
    if version:
        _verify(bundle_root, version, None, deep=deep)
        return
    current = bundle_root.read_current()
    named = {current.version: current.manifest_sha256}
    for name in list_refs(bundle_root):
        if (line := read_ref(bundle_root, name)) is not None:
            named.setdefault(line.version, line.manifest_sha256)
    bases: set[str] = set()
    for name, promised in named.items():
        bases.add(_verify(bundle_root, name, promised, deep=deep, but={*bases, *named}))


def _verify(
    bundle_root: BundleRoot, version: str, promised: str | None, *, deep: bool, but: Container[str] = ()
) -> str:
    """Verify a version and its base, unless the base is verified by itself; return the name of the base."""
    started = time.perf_counter()
    paths = bundle_root.published(version)
    manifest = read_manifest(paths, expected_sha256=promised)
    verify(paths, manifest, deep=deep)
    _echo_whole(manifest, deep=deep, seconds=time.perf_counter() - started)
    if manifest.stack is None:
        return version
    started = time.perf_counter()
    base = base_of(bundle_root, manifest)
    if base.version not in but:
        if deep:
            verify(bundle_root.version(base.version), base, deep=True)
        _echo_whole(base, deep=deep, seconds=time.perf_counter() - started)
    return base.version


def _echo_whole(manifest: Manifest, *, deep: bool, seconds: float) -> None:
    size = sum(entry.size_bytes for entry in manifest.files)
    what = f"every byte of {size / 1e6:.1f} MB" if deep else "names and sizes"
    over = f", a delta over {manifest.stack.base}," if manifest.stack is not None else ""
    typer.echo(f"{manifest.version}{over} is whole: {counted(len(manifest.files), 'file')}, {what}, {seconds:.2f} s")

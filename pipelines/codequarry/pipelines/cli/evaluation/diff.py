"""``codequarry diff``: changes between two versions, and their effect on answers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.settings.load import Settings, load_settings
from codequarry.schemas.wire.search import MAX_QUERY_CHARS, TOP_K_DEFAULT, TOP_K_MAX, SearchRequest
from codequarry.schemas.wording import counted
from codequarry.serving.cli.options import JsonOption, RootOption, SettingsOption
from codequarry.serving.cli.terminal import print_table
from codequarry.serving.files.integrity import read_manifest, verify

if TYPE_CHECKING:
    from codequarry.pipelines.measure.movers import Mover
    from codequarry.serving.version.version_differences import Chunk, ChunkChanges, FileChanges, VersionFile

_SHOWN = 20


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("diff")(diff)


def diff(
    before: Annotated[str, typer.Argument(metavar="A", help="A version, or current, or previous.")] = "previous",
    after: Annotated[str, typer.Argument(metavar="B", help="Another.")] = "current",
    queries: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Ask both versions these: one query a line, or JSON lines with a query, as `codequarry evaluate` "
            "leaves in questions.jsonl.",
        ),
    ] = None,
    top_k: Annotated[int, typer.Option(min=1, max=TOP_K_MAX, help="Results of each query.")] = TOP_K_DEFAULT,
    as_json: JsonOption = False,
    root: RootOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """Show what differs between two versions: files, chunks, and with --queries the results that moved, and through
    what.

    A chunk is moved when its text is now under another path or name, and shifted when it is on other lines of its file.

    Examples:

      codequarry diff

      codequarry diff 20260101T000000Z-0123abcd current --queries queries.txt
    """
    from codequarry.pipelines.measure.asking import version_called
    from codequarry.serving.version.version_differences import compare_chunks, compare_files, read_chunks, read_files

    settings = load_settings(settings_file, bundle_root=root, look="above")
    asked = _queries(queries) if queries is not None else []
    bundle_root = BundleRoot(settings.bundle.root)
    names = [version_called(bundle_root, name) for name in (before, after)]
    sides = [_whole(bundle_root, name) for name in names]
    chunks = [read_chunks(paths) for paths in sides]
    changes = compare_chunks(*chunks)
    files = compare_files(*(read_files(paths) for paths in sides))
    moved = _movers(settings, names, asked, chunks, changes, top_k)
    report = _report(names, chunks, changes, files, moved, len(asked), top_k)
    if as_json:
        typer.echo(json.dumps(report, ensure_ascii=False, indent=1))
        return
    _show(report)


def _queries(file: Path) -> list[str]:
    """Return the queries of a file, in its order, each once.

    Args:
        file: Text file with one query a line, or JSON lines.

    Returns:
        The queries.

    Raises:
        InvalidArgumentError: The file cannot be read or has no query, or a line is not a query.
    """
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(
            f"--queries: {file} cannot be read: {error}", suggestion="give a text file with one query a line"
        ) from None
    found: dict[str, None] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        query = _query_of(line, f"{file}, line {number}")
        if len(query) > MAX_QUERY_CHARS:
            raise InvalidArgumentError(
                f"{file}, line {number}: found {len(query)} characters, expected at most {MAX_QUERY_CHARS}",
                suggestion="keep the words that name what is looked for",
            )
        found[query] = None
    if not found:
        raise InvalidArgumentError(f"--queries: found no query in {file}, expected some", suggestion="one a line")
    return list(found)


def _query_of(line: str, where: str) -> str:
    if not line.lstrip().startswith("{"):
        return line.strip()
    try:
        query = json.loads(line).get("query")
    except json.JSONDecodeError:
        return line.strip()  # code may start with a brace
    if not isinstance(query, str) or not query.strip():
        raise InvalidArgumentError(
            f"{where}: found an object without a query, expected {{query}}", suggestion="or write the query alone"
        )
    return query


def _whole(root: BundleRoot, version: str) -> BundlePaths:
    """Return the paths of a version that is what its manifest says.

    Args:
        root: Bundle root.
        version: Name of the version.

    Returns:
        Its paths.

    Raises:
        NotFoundError: There is no such version.
        IntegrityError: The version differs from its manifest.
        FormatError: A newer format wrote it.
    """
    paths = root.published(version)
    verify(paths, read_manifest(paths), deep=False)
    return paths


def _movers(
    settings: Settings,
    versions: list[str],
    queries: list[str],
    chunks: list[dict[int, Chunk]],
    changes: ChunkChanges,
    top_k: int,
) -> list[Mover]:
    """Return the results that moved over all queries, the biggest movers first."""
    if not queries:
        return []
    from codequarry.pipelines.cli.progress import Bars
    from codequarry.pipelines.measure.asking import engine_over
    from codequarry.pipelines.measure.movers import movers

    found: list[Mover] = []
    heirs = changes.heirs()
    root, serving = settings.bundle.root, settings.asking
    with Bars() as bars, engine_over(root, serving, versions[0]) as old, engine_over(root, serving, versions[1]) as new:
        for done, query in enumerate(queries, start=1):
            request = SearchRequest(query=query, top_k=top_k, explain=True)
            found += movers(
                query, old.search(request), new.search(request),
                heirs=heirs, chunks_before=chunks[0], chunks_after=chunks[1],
            )  # fmt: skip
            bars.show("asking both versions", done, len(queries))
    return sorted(found, key=lambda one: (-one.distance(top_k), one.query, one.after or top_k + 1, one.id))


def _report(
    versions: list[str],
    chunks: list[dict[int, Chunk]],
    changes: ChunkChanges,
    files: FileChanges,
    moved: list[Mover],
    queries: int,
    top_k: int,
) -> dict[str, Any]:
    from codequarry.serving.version.version_differences import by_repository

    def chunk(one: Chunk) -> dict[str, str]:
        return {"id": str(one.chunk_id), "place": one.text(), "name": one.qualified_name}

    def name(one: VersionFile) -> str:
        return f"{one.repo}/{one.path}"

    return {
        "before": versions[0],
        "after": versions[1],
        "repositories": by_repository(changes, *chunks),
        "files": {
            "added": [name(one) for one in files.added],
            "removed": [name(one) for one in files.removed],
            "changed": [name(one) for one in files.changed],
            "moved": [{"before": name(old), "after": name(new)} for old, new in files.moved],
        },
        "chunks": {
            "unchanged": changes.unchanged,
            "added": [chunk(one) for one in changes.added],
            "removed": [chunk(one) for one in changes.removed],
            "moved": [{"before": chunk(old), "after": chunk(new)} for old, new in changes.moved],
            "shifted": [{"before": chunk(old), "after": chunk(new)} for old, new in changes.shifted],
        },
        "queries": queries,
        "top_k": top_k,
        "results": {
            "entered": sum(one.before is None for one in moved),
            "left": sum(one.after is None for one in moved),
            "moved": sum(one.before is not None and one.after is not None for one in moved),
            "movers": [asdict(one) for one in moved],
        },
    }


def _show(report: dict[str, Any]) -> None:
    typer.echo(f"{report['before']} -> {report['after']}")
    repositories = report["repositories"]
    head = ("repository", "chunks before", "after", "added", "removed", "moved", "shifted", "unchanged")
    rows = [(repo, *(f"{number:,}" for number in counts.values())) for repo, counts in repositories.items()]
    print_table(head, rows, whole=len(head))
    files = report["files"]
    renamed = [f"{pair['before']} -> {pair['after']}" for pair in files["moved"]]
    for what, names in (*((kind, files[kind]) for kind in ("added", "removed", "changed")), ("moved", renamed)):
        _list(f"files {what}", names)
    if not report["queries"]:
        return
    results = report["results"]
    typer.echo(
        f"{counted(report['queries'], 'query')}, {counted(report['top_k'], 'result')} each: "
        f"{results['entered']} entered, {results['left']} left, {results['moved']} moved"
    )
    head = ("query", "before", "after", "chunk", "through", "place")
    shown = [
        (one["query"][:40], _rank(one["before"]), _rank(one["after"]), one["chunk"], one["through"], one["place"])
        for one in results["movers"][:_SHOWN]
    ]
    if shown:
        print_table(head, shown, whole=len(head))
    if (more := len(results["movers"]) - _SHOWN) > 0:
        typer.echo(f"and {more} more: --json lists all")


def _list(what: str, names: Iterable[str]) -> None:
    listed = list(names)
    if listed:
        more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
        typer.echo(f"{what} ({len(listed)}): {', '.join(listed[:_SHOWN])}{more}")


def _rank(rank: int | None) -> str:
    return "-" if rank is None else str(rank)

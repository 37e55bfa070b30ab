"""Metadata of the parts of a version: indexes, views, and what the retrieval gate found."""

import hashlib
import json
import re
from contextlib import closing
from typing import TYPE_CHECKING, Any

import dagster as dg

from codequarry.assets.metadata import bar_plot, frontier_plot, markdown_table, megabytes
from codequarry.assets.stages import device_metadata
from codequarry.schemas.bundle.faiss_tuning import read_tuning
from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot
from codequarry.schemas.bundle.manifest import Manifest

if TYPE_CHECKING:
    from codequarry.pipelines.bundle.manifest import VersionPiece

_PREVIEW_ROWS, _PREVIEW_COLUMNS = 5, 6
_SHOWN_FILES = 5


def piece_metadata(piece: "VersionPiece") -> dict[str, Any]:
    """Return what a reader wants to know of an index or a file: size, checksum, rows, time.

    Args:
        piece: The piece.

    Returns:
        Metadata by key.
    """
    largest = sorted(piece.files, key=lambda entry: (-entry.size_bytes, entry.path))[:_SHOWN_FILES]
    rows = [{"file": entry.path, "megabytes": f"{entry.size_bytes / 1e6:.2f}"} for entry in largest]
    counted = [entry.rows for entry in piece.files if entry.rows is not None]
    return {
        **({"dagster/row_count": sum(counted)} if counted else {}),
        **_sizes(piece),
        **(device_metadata([piece.use]) if piece.use is not None else {}),
        "preview": markdown_table(rows, ("file", "megabytes")),
    }


def view_metadata(piece: "VersionPiece", view: str) -> dict[str, Any]:
    """Return what a reader wants to know of a view or table of the catalog.

    Args:
        piece: The catalog.
        view: Name of the view.

    Returns:
        Rows, columns with their types, the first rows, and the size of the catalog.
    """
    import duckdb

    from codequarry.schemas.catalog.column_meanings import column_meanings
    from codequarry.schemas.catalog.views import set_bundle

    paths, meanings = BundlePaths(piece.folder), column_meanings(view)
    with closing(duckdb.connect(str(paths.catalog), read_only=True)) as connection:
        connection.execute(set_bundle(str(paths.path)))
        rows = connection.sql(f"SELECT count(*) FROM {view}").fetchall()[0][0]
        columns = connection.sql(f"DESCRIBE {view}").fetchall()
        names = [column[0] for column in columns if not str(column[1]).startswith("FLOAT[")]
        shown = names[:_PREVIEW_COLUMNS]
        listed = ", ".join(f'"{name}"' for name in shown)
        head = connection.sql(f"SELECT {listed} FROM {view} LIMIT {_PREVIEW_ROWS}").fetchall()
    return {
        "dagster/row_count": rows,
        "dagster/column_schema": dg.TableSchema(
            [dg.TableColumn(column[0], str(column[1]), description=meanings.get(column[0])) for column in columns]
        ),
        **_sizes(piece),
        "preview": markdown_table([dict(zip(shown, row, strict=True)) for row in head], shown),
    }


def _sizes(piece: "VersionPiece") -> dict[str, Any]:
    digests = "\n".join(entry.content_sha256 or entry.sha256 for entry in piece.files)
    return {
        "files": len(piece.files),
        "megabytes": megabytes(entry.size_bytes for entry in piece.files),
        "sha256": hashlib.sha256(digests.encode()).hexdigest(),
        "seconds": round(piece.seconds, 3),
    }


def verdict_metadata(root: BundleRoot, version: str) -> dict[str, Any]:
    """Return the verdict page of a version without its plots, and a plot of the search times of both versions.

    Args:
        root: Bundle root.
        version: The version.

    Returns:
        Metadata by key; nothing when answers were not compared.
    """
    from codequarry.pipelines.gates.answers.verdict import read_verdict, verdict_names

    if version not in verdict_names(root):
        return {}
    page = re.sub(r"\n!\[[^]]*\]\([^)]*\)\n", "", read_verdict(root, version))
    runs = json.loads(read_verdict(root, version, "verdict.json"))["runs"]
    times = {f"{name} {part}": run["latency_ms"][part] for name, run in runs.items() for part in ("p50", "p95")}
    drawn = {"latency": bar_plot("Time of a search", times, unit=" ms", digits=1)} if times else {}
    return {"verdict": dg.MetadataValue.md(page), **drawn}


def frontiers(paths: BundlePaths, manifest: Manifest) -> dict[str, Any]:
    """Return a plot of recall by vectors compared for each approximate dense index, and a note for each exact one."""
    tunings = {leg.channel: read_tuning(paths.leg(leg.channel).tuning) for leg in manifest.legs}
    return {
        f"recall_{channel}": frontier_plot(tuning)
        if tuning is not None and tuning.queries
        else f"exact: all {manifest.counts.chunks:,} vectors are compared"
        for channel, tuning in tunings.items()
    }

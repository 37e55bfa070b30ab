"""Pipeline results as Dagster metadata: rows, bytes, digests and a glance at the rows themselves."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from codequarry.pipelines.store.workspace import RepositoryWork
from codequarry.schemas.bundle.manifest import Manifest
from codequarry.serving.files.integrity import file_sha256

if TYPE_CHECKING:
    import pyarrow as pa

_PREVIEW_ROWS = 5
_CELL_CHARS = 60


def table_metadata(work: RepositoryWork, name: str, columns: Sequence[str]) -> dict[str, Any]:
    """Return metadata of a repository's rows of a table, over all its parts.

    Args:
        work: Work folder of the repository.
        name: Name of the table.
        columns: Columns of the preview, in order.

    Returns:
        Metadata by key.
    """
    import pyarrow.parquet as pq

    files = work.tables(name)
    head: list[dict[str, Any]] = []
    rows = 0
    schema = pq.read_schema(files[0])
    for path in files:
        with pq.ParquetFile(path) as file:
            rows += file.metadata.num_rows
            if len(head) < _PREVIEW_ROWS:
                batch = next(file.iter_batches(_PREVIEW_ROWS - len(head), columns=list(columns)), None)
                head += [] if batch is None else batch.to_pylist()
    digests = "\n".join(file_sha256(path) for path in files)
    return {
        "dagster/row_count": rows,
        "dagster/column_schema": _column_schema(schema),
        "bytes": sum(path.stat().st_size for path in files),
        "sha256": hashlib.sha256(digests.encode()).hexdigest(),
        "path": dg.MetadataValue.path(files[0] if len(files) == 1 else work.parts),
        "preview": markdown_table(head, columns),
    }


def bundle_metadata(manifest: Manifest) -> dict[str, Any]:
    """Return metadata of a version of the bundle."""
    sources = [
        {**source.model_dump(), "commit": source.commit[:12] or "no git", "skipped": sum(source.skipped.values())}
        for source in manifest.sources[:_PREVIEW_ROWS]
    ]
    return {
        "dagster/row_count": manifest.counts.chunks,
        "bytes": sum(entry.size_bytes for entry in manifest.files),
        "version": manifest.version,
        "digest": manifest.digest,
        "repositories": len(manifest.sources),
        "files": manifest.counts.files,
        "preview": markdown_table(sources, ("name", "commit", "dirty", "files", "skipped", "chunks")),
    }


def markdown_table(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], *, cell_chars: int = _CELL_CHARS
) -> dg.MarkdownMetadataValue:
    """Return rows as a Markdown table, cells cut where they are longer than `cell_chars`.

    >>> print(markdown_table([{"path": "a|b.py", "lines": 3}], ("path", "lines")).value)
    | path | lines |
    |---|---|
    | a\\|b.py | 3 |
    """
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    lines += [f"| {' | '.join(_cell(row[column], cell_chars) for column in columns)} |" for row in rows]
    return dg.MetadataValue.md("\n".join(lines))


def counts_table(counts: Mapping[str, int], what: str) -> dg.MarkdownMetadataValue:
    """Return counts by name as a table, largest first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return markdown_table([{what: name, "count": count} for name, count in ordered], (what, "count"))


def _cell(value: Any, chars: int) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        text = ", ".join(f"{item:.3f}" if isinstance(item, float) else str(item) for item in value[:4])
        text += f", … ({len(value)})" if len(value) > 4 else ""
    else:
        text = (
            f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1e12 else str(value)
        )
    line = " ".join(text.split())
    cut = line if len(line) <= chars else f"{line[:chars]}…"
    return "".join(f"\\{char}" if char in "\\|`*_<>[]#~" else char for char in cut)


def _column_schema(schema: "pa.Schema") -> dg.TableSchema:
    return dg.TableSchema(
        [
            dg.TableColumn(
                field.name,
                str(field.type),
                description=(field.metadata or {}).get(b"description", b"").decode() or None,
                constraints=dg.TableColumnConstraints(nullable=field.nullable),
            )
            for field in schema
        ]
    )

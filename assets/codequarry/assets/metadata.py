"""Pipeline results as Dagster metadata: rows, bytes, digests, a glance at the rows themselves, and small pictures.

Pictures are SVG inside of Markdown, so that nothing has to be served beside the page.
"""

import base64
import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

import dagster as dg

from codequarry.pipelines.store.workspace import RepositoryWork
from codequarry.schemas.bundle.faiss_tuning import FaissTuning
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
    return {
        "dagster/row_count": rows,
        "dagster/column_schema": _column_schema(schema),
        "megabytes": megabytes(path.stat().st_size for path in files),
        "sha256": tables_sha256(files),
        "path": dg.MetadataValue.path(files[0] if len(files) == 1 else work.parts),
        "preview": markdown_table(head, columns),
    }


def tables_sha256(files: Sequence[Path]) -> str:
    """Return the sha256 over the sha256 of files, in their order."""
    return hashlib.sha256("\n".join(file_sha256(path) for path in files).encode()).hexdigest()


def megabytes(sizes: Iterable[int]) -> float:
    """Return the sum of sizes in bytes as megabytes, to the kilobyte."""
    return round(sum(sizes) / 1e6, 3)


def bundle_metadata(manifest: Manifest) -> dict[str, Any]:
    """Return metadata of a version of the bundle."""
    sources = [
        {**source.model_dump(), "commit": source.commit[:12] or "no git", "skipped": sum(source.skipped.values())}
        for source in manifest.sources[:_PREVIEW_ROWS]
    ]
    return {
        "dagster/row_count": manifest.counts.chunks,
        "megabytes": megabytes(entry.size_bytes for entry in manifest.files),
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


_EDGES = (100, 200, 400, 800, 1_600)
"""Upper bounds of the classes of chunk sizes, in bytes; each is twice the one before."""

SHOWN_CHARS = 1_000
"""Dagster's page shows shorter Markdown in place, and longer Markdown behind a link."""
_WIDTH, _LABEL, _ROW, _LABEL_CHARS = 420, 150, 14, 14
_LEFT, _TOP, _CURVE = 40, 18, 110


def bar_plot(title: str, counts: Mapping[str, float], *, unit: str = "", digits: int = 0) -> dg.MarkdownMetadataValue:
    """Draw bars by name, in the order given, each beside its figure; the last ones are one bar when there are too many.

    >>> plot = bar_plot("Chunks by language", {f"language {n}": 40 - n for n in range(40)}).value
    >>> len(plot) < SHOWN_CHARS, plot.startswith("![Chunks by language](data:image/svg+xml;base64,")
    (True, True)
    """
    for most in range(len(counts), 0, -1):
        shown = dict(list(counts.items())[:most])
        if rest := sum(list(counts.values())[most:]):
            shown["others"] = rest
        found = _image(title, _svg(shown, unit, digits))
        if len(found) < SHOWN_CHARS:
            return dg.MetadataValue.md(found)
    return dg.MetadataValue.md("nothing to show")


def frontier_plot(tuning: FaissTuning) -> dg.MarkdownMetadataValue:
    """Draw the recall of an approximate index by the vectors it compares, in powers of ten.

    A dot marks the point in use.
    """
    points = [(math.log10(max(1.0, each.comparisons)), each.recall) for each in tuning.frontier]
    chosen = (math.log10(max(1.0, tuning.chosen.comparisons)), tuning.chosen.recall)
    (first, lowest), (last, highest) = points[0], points[-1]
    wide, high = (_WIDTH - 2 * _LEFT) / ((last - first) or 1), _CURVE / ((highest - lowest) or 1)

    def place(point: tuple[float, float]) -> tuple[int, int]:
        return round(_LEFT + (point[0] - first) * wide), round(_TOP + (highest - point[1]) * high)

    line = "L".join(f"{x} {y}" for x, y in map(place, points))
    x, y = place(chosen)
    used = tuning.chosen
    said = f"{used.parameters or 'in use'}: recall@10 {used.recall:.3f}, {used.comparisons:,.0f} compared"
    bottom = _TOP + _CURVE
    texts = (
        (0, _TOP, f"{highest:.2f}"), (0, bottom, f"{lowest:.2f}"), (_LEFT, 11, said),
        (_WIDTH // 2 - _LEFT, bottom + 14, "vectors compared"),
        (_LEFT, bottom + 14, f"{tuning.frontier[0].comparisons:,.0f}"),
        (_WIDTH - 2 * _LEFT, bottom + 14, f"{tuning.frontier[-1].comparisons:,.0f}"),
    )  # fmt: skip
    labels = "".join(f'<text x="{left}" y="{top}">{escape(text)}</text>' for left, top, text in texts)
    curve = f'<path fill="none" stroke="#4269d0" d="M{line}"/><circle cx="{x}" cy="{y}" r="4" fill="#4269d0"/>'
    return dg.MetadataValue.md(_image(f"Recall@10 of {tuning.factory}", _framed(labels + curve, bottom + 20)))


def shares_plot(title: str, counts: Mapping[str, int]) -> dg.MarkdownMetadataValue:
    """Draw bars of the shares of a whole in percent, largest first."""
    total = sum(counts.values()) or 1
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return bar_plot(title, {name: 100 * count / total for name, count in ordered}, unit="%", digits=1)


def chunk_sizes_plot(files: Sequence[Path]) -> dg.MarkdownMetadataValue:
    """Draw the number of chunks by size.

    Args:
        files: Parquet files of the table of chunks.

    Returns:
        The plot.
    """
    import numpy as np

    from codequarry.schemas.bundle.tables import read_table

    counts = np.zeros(len(_EDGES) + 1, np.int64)
    for file in files:
        table = read_table(file, ["start_byte", "end_byte"])
        sizes = table["end_byte"].to_numpy() - table["start_byte"].to_numpy()
        counts += np.bincount(np.searchsorted(_EDGES, sizes), minlength=len(counts))
    names = [*(f"≤ {edge} bytes" for edge in _EDGES), "more"]
    return bar_plot("Chunks by size", dict(zip(names, counts.tolist(), strict=True)))


def _svg(counts: Mapping[str, float], unit: str, digits: int) -> str:
    scale = (_WIDTH - _LABEL) / (max(counts.values()) or 1)
    height = _ROW * len(counts) + 2
    texts: list[str] = []
    bars: list[str] = []
    for row, (name, value) in enumerate(counts.items()):
        label = name if len(name) <= _LABEL_CHARS else f"{name[:_LABEL_CHARS]}…"
        texts.append(f'<text y="{_ROW * row + 11}">{escape(label)}: {value:,.{digits}f}{unit}</text>')
        bars.append(f"M{_LABEL} {_ROW * row + 2}h{value * scale:.0f}v10H{_LABEL}")
    return _framed(f'{"".join(texts)}<path fill="#4269d0" d="{"".join(bars)}"/>', height)


def _framed(drawn: str, height: int) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" font-family="Arial" '
        f'font-size="11"><path fill="#fff" d="M0 0h{_WIDTH}v{height}H0"/>{drawn}</svg>'
    )


def _image(title: str, svg: str) -> str:
    return f"![{title}](data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode('ascii')})"

"""The index of files (`schemas.file_index`) of a staged version, from its tables."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from codequarry.pipelines.embeddings import embed_texts
from codequarry.schemas.file_index import FileIndex, FileRow, card_text
from codequarry.schemas.layout import BundlePaths
from codequarry.schemas.settings import Settings
from codequarry.schemas.tables import read_table

_OUTER = 1
"""Dots in the qualified name of a definition that a card still names."""


def write_file_index(paths: BundlePaths, settings: Settings) -> None:
    """Write ``files/`` of a staged version whose tables and encoder are there."""
    columns = ["repo", "path", "skip_reason"]
    files = sorted(zip(*(read_table(paths.table("files"), columns)[name].to_pylist() for name in columns), strict=True))
    modules = {
        (row["repo"], row["path"]): row
        for row in read_table(paths.table("modules"), ["repo", "path", "doc", "fan_in", "code_lines"]).to_pylist()
    }
    outer = _outer_names(paths)
    rows: list[FileRow] = []
    cards: list[str] = []
    for row, (repo, path, skipped) in enumerate(files):
        if skipped:
            continue
        module = modules.get((repo, path), {"doc": "", "fan_in": 0, "code_lines": 0})
        rows.append(FileRow(row, repo, path, module["fan_in"], module["code_lines"]))
        cards.append(card_text(path, module["doc"], outer.get((repo, path), ())))
    FileIndex.build(rows, embed_texts(cards, paths.encoder, settings)).write(paths.files)


def _outer_names(paths: BundlePaths) -> dict[tuple[str, str], list[str]]:
    """Names of the outer definitions of each file, in order."""
    columns = ["repo", "path", "start_byte", "name", "qualified_name"]
    table = pa.concat_tables(read_table(file, columns) for file in paths.table_files("ast_nodes"))
    depth = np.array([name.count(".") for name in table["qualified_name"].to_pylist()], np.int64)
    outer = table.filter(pa.array(depth <= _OUTER)).sort_by([(name, "ascending") for name in columns[:3]])
    found: dict[tuple[str, str], list[str]] = {}
    for repo, path, name in zip(*(outer[name].to_pylist() for name in ("repo", "path", "name")), strict=True):
        found.setdefault((repo, path), []).append(name)
    return found

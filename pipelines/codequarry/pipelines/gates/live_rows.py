"""Rows of a version's tables as its readers see them: those of a delta version lie over its base's."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# Arrow ships no type stubs.

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot
from codequarry.schemas.bundle.manifest import Manifest
from codequarry.schemas.bundle.stack import HIDDEN
from codequarry.schemas.bundle.tables import read_table
from codequarry.serving.files.arrays import map_array

Place = tuple[str, str]
"""Repository and path of a file."""


class FileState(NamedTuple):
    """Contents and language of an indexed file."""

    sha256: str
    lang: str


def live_rows(paths: BundlePaths, manifest: Manifest, name: str, columns: Sequence[str]) -> pa.Table:
    """Return the rows of a table with a repository and a path.

    Args:
        paths: Paths of the version, staged or published, beside its base.
        manifest: Its manifest.
        name: Name of the table.
        columns: Columns to read, ``repo`` and ``path`` among them.

    Returns:
        The rows; of a delta version, those of its base that are not hidden, and its own.
    """
    own = _read(paths.table_files(name), columns)
    if manifest.stack is None:
        return own
    below, hidden = _base(paths, manifest), hidden_files(paths, manifest)
    rows = _read(below.table_files(name), columns)
    if hidden:
        gone = pc.SetLookupOptions(value_set=pa.array(["\0".join(place) for place in sorted(hidden)]))
        names = [rows[name].cast(pa.string()) for name in ("repo", "path")]
        places = pc.call_function("binary_join_element_wise", [*names, pa.scalar("\0")])
        rows = rows.filter(pc.call_function("invert", [pc.call_function("is_in", [places], gone)]))
    return pa.concat_tables([rows, own])


def hidden_files(paths: BundlePaths, manifest: Manifest) -> frozenset[Place]:
    """Return the files of its base that a delta version hides; none for a complete version."""
    if manifest.stack is None:
        return frozenset()
    table = _read(_base(paths, manifest).table_files("files"), ("repo", "path"))
    table = table.sort_by([("repo", "ascending"), ("path", "ascending")])
    numbers = np.asarray(map_array(paths.stack / f"{HIDDEN}.npy"))
    gone = table.take(pa.array(numbers))
    return frozenset(zip(gone["repo"].to_pylist(), gone["path"].to_pylist(), strict=True))


def indexed_files(paths: BundlePaths, manifest: Manifest) -> dict[Place, FileState]:
    """Return the indexed files."""
    table = live_rows(paths, manifest, "files", ("repo", "path", "sha256", "lang", "skip_reason"))
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return {(repo, path): FileState(sha256, lang) for repo, path, sha256, lang, skipped in rows if not skipped}


def _base(paths: BundlePaths, manifest: Manifest) -> BundlePaths:
    assert manifest.stack is not None
    return BundleRoot(paths.path.parent.parent).version(manifest.stack.base)


def _read(files: Sequence[Path], columns: Sequence[str]) -> pa.Table:
    return pa.concat_tables([read_table(file, list(columns)) for file in files]).select(list(columns))

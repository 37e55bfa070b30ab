"""Rows of a version's tables as its readers see them: those of a delta version lie over its base's."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# Arrow ships no type stubs.

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
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
_STATE = ("repo", "path", "sha256", "lang", "skip_reason")
_INDEXED = pc.field("skip_reason") == ""


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
    own = _read(paths, name, columns)
    if manifest.stack is None:
        return own
    below, hidden = _base(paths, manifest), _hidden_numbers(paths, manifest)
    if name == "files":
        rows = _files(below, columns)
        return pa.concat_tables([rows.take(np.delete(np.arange(len(rows)), hidden)), own])
    rows = _read(below, name, columns)
    if gone := hidden_files(paths, manifest):
        texts = pc.SetLookupOptions(value_set=pa.array(["\0".join(place) for place in sorted(gone)]))
        names = [rows[name].cast(pa.string()) for name in ("repo", "path")]
        places = pc.call_function("binary_join_element_wise", [*names, pa.scalar("\0")])
        rows = rows.filter(pc.call_function("invert", [pc.call_function("is_in", [places], texts)]))
    return pa.concat_tables([rows, own])


def hidden_files(paths: BundlePaths, manifest: Manifest) -> frozenset[Place]:
    """Return the files of its base that a delta version hides; none for a complete version."""
    if manifest.stack is None:
        return frozenset()
    gone = _files(_base(paths, manifest), ("repo", "path")).take(_hidden_numbers(paths, manifest))
    return frozenset(zip(gone["repo"].to_pylist(), gone["path"].to_pylist(), strict=True))


def indexed_files(paths: BundlePaths, manifest: Manifest) -> dict[Place, FileState]:
    """Return the indexed files."""
    return _states(live_rows(paths, manifest, "files", _STATE))


def count_changed_files(paths: BundlePaths, manifest: Manifest, before: BundlePaths, held: Manifest) -> int:
    """Count the files that two versions hold in different states, or that only one of them holds.

    Args:
        paths: Paths of a version, as `live_rows` takes them.
        manifest: Its manifest.
        before: Paths of the other version.
        held: Its manifest.

    Returns:
        Number of indexed files, by repository and path.
    """
    versions = ((paths, manifest), (before, held))
    bases = {each.stack.base if each.stack is not None else each.version for _, each in versions}
    if len(bases) == 1:
        states = _states_over_one_base(versions, BundleRoot(before.path.parent.parent).version(bases.pop()))
    else:
        states = [indexed_files(*each) for each in versions]
    own, other = (each.items() for each in states)
    return len({place for place, _ in own ^ other})


def count_by_language(paths: BundlePaths, manifest: Manifest) -> dict[str, Counter[str]]:
    """Return the number of indexed files by repository and language; parameters as those of `live_rows`."""
    table = live_rows(paths, manifest, "files", ("repo", "path", "lang", "skip_reason"))
    counted = table.filter(_INDEXED).group_by(["repo", "lang"]).aggregate([([], "count_all")])
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for repo, lang, count in zip(*(counted[name].to_pylist() for name in ("repo", "lang", "count_all")), strict=True):
        found[repo][lang] = count
    return found


def _states_over_one_base(
    versions: Sequence[tuple[BundlePaths, Manifest]], base: BundlePaths
) -> list[dict[Place, FileState]]:
    """Return the indexed files of versions over one base, without those of the base that none of them hides.

    Args:
        versions: Paths and manifests; the base may be among them.
        base: Paths of the base.

    Returns:
        The files of each version.
    """
    hidden = [_hidden_numbers(*each) for each in versions]
    numbers = np.unique(np.concatenate(hidden))
    rows = _files(base, _STATE).take(numbers)
    found: list[dict[Place, FileState]] = []
    for (paths, manifest), own_hidden in zip(versions, hidden, strict=True):
        live = rows.filter(~np.isin(numbers, own_hidden))
        own = [] if manifest.stack is None else [_read(paths, "files", _STATE)]
        found.append(_states(pa.concat_tables([live, *own])))
    return found


def _states(files: pa.Table) -> dict[Place, FileState]:
    """Return the states of the indexed files among some."""
    rows = zip(*(files.filter(_INDEXED)[name].to_pylist() for name in _STATE), strict=True)
    return {(repo, path): FileState(sha256, lang) for repo, path, sha256, lang, _ in rows}


def _base(paths: BundlePaths, manifest: Manifest) -> BundlePaths:
    assert manifest.stack is not None
    return BundleRoot(paths.path.parent.parent).version(manifest.stack.base)


def _hidden_numbers(paths: BundlePaths, manifest: Manifest) -> np.ndarray:
    """Return the rows of `_files` of its base that a delta version hides, (h,) int32; none for a complete version."""
    if manifest.stack is None:
        return np.empty(0, np.int32)
    return np.asarray(map_array(paths.stack / f"{HIDDEN}.npy"))


def _files(paths: BundlePaths, columns: Sequence[str]) -> pa.Table:
    """Return the rows of the files of a version, in the order of their numbers."""
    return _read(paths, "files", columns).sort_by([("repo", "ascending"), ("path", "ascending")])


def _read(paths: BundlePaths, name: str, columns: Sequence[str]) -> pa.Table:
    tables = [read_table(file, list(columns)) for file in paths.table_files(name)]
    return pa.concat_tables(tables).select(list(columns))

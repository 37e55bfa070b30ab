"""Checks of ``stack/`` of a delta version against the version itself and its base."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# Arrow ships no type stubs.

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot
from codequarry.schemas.bundle.manifest import Counts, Manifest, StackEntry
from codequarry.schemas.bundle.stack import HIDDEN, PLACES
from codequarry.schemas.bundle.tables import read_table
from codequarry.schemas.errors import CodequarryError
from codequarry.schemas.resources import raise_if_exhausted
from codequarry.serving.catalog.chunk_arrays import RowIndex
from codequarry.serving.files.integrity import base_of
from codequarry.serving.stack.overlay import Extent, read_stack_arrays, stack_problems
from codequarry.serving.version.check import Check


@dataclass(frozen=True)
class _Version:
    """Files of a version in the order of their numbers, and its arrays."""

    files: list[tuple[str, str]]
    indexed: np.ndarray
    """(f,) bool."""
    rows: RowIndex

    @property
    def extent(self) -> Extent:
        rows = self.rows
        return Extent(len(self.files), len(rows.chunks), rows.definitions.shape[1], len(rows.texts))

    def chunks_of(self, files: np.ndarray) -> int:
        """Count the chunks of some files."""
        strings, total = self.rows.texts, len(self.rows.string_starts)
        names = [tuple(strings.find(part) for part in self.files[file]) for file in files.tolist()]
        wanted = np.array([repo * total + path for repo, path in names if min(repo, path) >= 0], np.int64)
        chunks = self.rows.chunks
        return int(np.isin(chunks["repo"].astype(np.int64) * total + chunks["path"], wanted).sum())


def check_stack(paths: BundlePaths, manifest: Manifest, stack: StackEntry) -> list[Check]:
    """Check a delta version against its base, which lies beside it.

    Args:
        paths: Paths of the delta version.
        manifest: Its manifest.
        stack: Entry of its base.

    Returns:
        The checks.
    """
    root = BundleRoot(paths.path.parent.parent)
    try:
        base = base_of(root, manifest)
        below, own = _version_of(root.version(stack.base)), _version_of(paths)
        arrays = read_stack_arrays(paths.stack, precise=bool(below.rows.chunks["scip"].any()))
    except (CodequarryError, OSError) as error:
        raise_if_exhausted(error, "a part of the version cannot be read now")
        message = error.message if isinstance(error, CodequarryError) else str(error)
        return [Check("base of the delta version", False, message, "a whole version, and arrays over it")]
    checks = [
        Check("base of the delta version", True, stack.base, "a whole version"),
        _none("arrays of the stack that do not fit", stack_problems(arrays, below.extent, own.extent)),
    ]
    if not checks[-1].passed:
        return checks
    hidden = arrays[HIDDEN]
    gone = {below.files[file] for file in hidden.tolist()}
    twice = sorted(({*below.files} - gone) & {*own.files})
    checks.append(_none("files of the delta that are not hidden in the base", ["/".join(each) for each in twice]))
    lost = _lost_imports(paths, {*below.files} - gone)
    checks.append(_none("imports of the delta that lead to no file", lost))
    strange = np.isin(arrays[PLACES]["file"], hidden)
    checks.append(_none("places in hidden files", [PLACES] if strange.any() else []))
    hides = below.indexed[hidden]
    measured = {
        "hidden files": (len(hidden), stack.hidden_files),
        "hidden chunks": (below.chunks_of(hidden), stack.hidden_chunks),
        "files of the delta": (int(own.indexed.sum()), stack.files),
        "skipped files of the delta": (int((~own.indexed).sum()), stack.skipped_files),
    }
    checks += (Check(name, found == said, str(found), str(said)) for name, (found, said) in measured.items())
    total = Counts(
        files=base.counts.files - int(hides.sum()) + stack.files,
        skipped_files=base.counts.skipped_files - int((~hides).sum()) + stack.skipped_files,
        chunks=base.counts.chunks - stack.hidden_chunks + stack.chunks,
    )
    checks.append(Check("counts of the stack", total == manifest.counts, str(total), str(manifest.counts)))
    return checks


def _lost_imports(paths: BundlePaths, live: set[tuple[str, str]]) -> list[str]:
    """Return the imports of the delta's modules that resolve to what is neither one of them nor a file that stayed."""
    table = read_table(paths.table("modules"), ["repo", "path", "resolved"])
    repos, names, resolved = (column.to_pylist() for column in table.columns)
    known = live.union(zip(repos, names, strict=True))
    rows = zip(repos, names, resolved, strict=True)
    return [f"{repo}/{path}: {to}" for repo, path, targets in rows for to in targets if (repo, to) not in known]


def _version_of(paths: BundlePaths) -> _Version:
    table = read_table(paths.table("files"), ["repo", "path", "skip_reason"])
    table = table.sort_by([("repo", "ascending"), ("path", "ascending")])
    files = list(zip(table["repo"].to_pylist(), table["path"].to_pylist(), strict=True))
    indexed = np.array([not reason for reason in table["skip_reason"].to_pylist()], np.bool_)
    return _Version(files, indexed, RowIndex.open(paths.rows))


def _none(name: str, examples: list[str]) -> Check:
    return Check(name, not examples, str(len(examples)), "0", tuple(examples[:3]))

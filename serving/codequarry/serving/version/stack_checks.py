"""Checks of ``stack/`` of a delta version against the version itself and its base."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# Arrow ships no type stubs.

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot
from codequarry.schemas.bundle.manifest import Counts, Manifest, StackEntry
from codequarry.schemas.bundle.stack import DEAD, HIDDEN, NAMES, PLACE, PLACES, STACK_ARRAYS, STRINGS
from codequarry.schemas.bundle.tables import read_table
from codequarry.schemas.errors import CodequarryError
from codequarry.schemas.resources import raise_if_exhausted
from codequarry.serving.catalog.chunk_arrays import RowIndex, Strings
from codequarry.serving.files.arrays import map_array
from codequarry.serving.files.integrity import base_of
from codequarry.serving.version.check import Check

_INT = np.dtype(np.int32)


@dataclass(frozen=True)
class _Layer:
    """Files of a version in the order of their numbers, and its arrays."""

    files: list[tuple[str, str]]
    indexed: np.ndarray
    """(f,) bool."""
    rows: RowIndex

    @property
    def definitions(self) -> int:
        return self.rows.definitions.shape[1]

    @property
    def strings(self) -> Strings:
        return Strings(self.rows.strings, self.rows.string_starts)

    def chunks_of(self, files: np.ndarray) -> int:
        """Count the chunks of some files."""
        strings, total = self.strings, len(self.rows.string_starts)
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
        below, own = _layer(root.version(stack.base)), _layer(paths)
        arrays = {name: map_array(paths.stack / f"{name}.npy") for name in STACK_ARRAYS}
    except (CodequarryError, OSError) as error:
        raise_if_exhausted(error, "a part of the version cannot be read now")
        message = error.message if isinstance(error, CodequarryError) else str(error)
        return [Check("base of the delta version", False, message, "a whole version, and arrays over it")]
    checks = [
        Check("base of the delta version", True, stack.base, "a whole version"),
        _none("arrays of the stack of another form", _of_another_form(arrays, own)),
    ]
    if not checks[-1].passed:
        return checks
    hidden = arrays[HIDDEN]
    checks.append(_none("arrays of the stack with numbers out of range", _out_of_range(arrays, below, own)))
    checks.append(_none("hidden files out of order", [HIDDEN] if (np.diff(hidden) <= 0).any() else []))
    if not all(check.passed for check in checks):
        return checks
    gone = {below.files[file] for file in hidden.tolist()}
    twice = sorted(({*below.files} - gone) & {*own.files})
    checks.append(_none("files of the delta that are not hidden in the base", ["/".join(each) for each in twice]))
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


def _layer(paths: BundlePaths) -> _Layer:
    table = read_table(paths.table("files"), ["repo", "path", "skip_reason"])
    table = table.sort_by([("repo", "ascending"), ("path", "ascending")])
    files = list(zip(table["repo"].to_pylist(), table["path"].to_pylist(), strict=True))
    indexed = np.array([not reason for reason in table["skip_reason"].to_pylist()], np.bool_)
    return _Layer(files, indexed, RowIndex.open(paths.rows))


def _of_another_form(arrays: dict[str, np.ndarray], own: _Layer) -> list[str]:
    """Return the arrays of another type or shape than the stack has."""
    lengths = {name: len(array) if array.ndim else -1 for name, array in arrays.items()}
    wanted = {
        HIDDEN: (_INT, (lengths[HIDDEN],)),
        STRINGS: (_INT, (len(own.strings),)),
        NAMES: (_INT, (lengths[NAMES], 2)),
        DEAD: (_INT, (lengths[DEAD], 3)),
        PLACES: (PLACE, (lengths[PLACES],)),
    }
    return [name for name, form in wanted.items() if (arrays[name].dtype, arrays[name].shape) != form]


def _out_of_range(arrays: dict[str, np.ndarray], base: _Layer, own: _Layer) -> list[str]:
    """Return the arrays that name something which neither version has."""
    files, definitions = len(base.files) + len(own.files), base.definitions + own.definitions
    places, names, dead = arrays[PLACES], arrays[NAMES], arrays[DEAD]
    bounds = (
        (HIDDEN, arrays[HIDDEN], 0, len(base.files)),
        (STRINGS, arrays[STRINGS], -1, len(base.strings)),
        (NAMES, names[:, 0], 0, own.definitions),
        (NAMES, names[:, 1], 0, base.definitions),
        (DEAD, dead[:, 0], 0, base.definitions),
        (DEAD, dead[:, 1:], 0, len(base.files)),
        (PLACES, places["target_id"], 0, definitions),
        (PLACES, places["file"], 0, files),
        (PLACES, places["chunk"], 0, len(base.rows.chunks) + len(own.rows.chunks)),
        (PLACES, places["enclosing"], -1, definitions),
    )
    found = (
        name for name, values, least, end in bounds if values.size and not least <= values.min() <= values.max() < end
    )
    return list(dict.fromkeys(found))


def _none(name: str, examples: list[str]) -> Check:
    return Check(name, not examples, str(len(examples)), "0", tuple(examples[:3]))

"""Changes between two versions: chunks and files that came, went, or moved."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.bundle.stack import HIDDEN
from codequarry.schemas.bundle.tables import read_table
from codequarry.serving.files.arrays import map_array
from codequarry.serving.files.integrity import read_manifest
from codequarry.serving.stack.overlay import base_paths


class Chunk(NamedTuple):
    """A chunk of a version."""

    chunk_id: int
    repo: str
    path: str
    qualified_name: str
    content_sha256: str
    start_line: int
    end_line: int

    def text(self) -> str:
        """Return ``repo/path:first-last``, lines 1-based."""
        return f"{self.repo}/{self.path}:{self.start_line + 1}-{self.end_line + 1}"


class VersionFile(NamedTuple):
    """An indexed file of a version."""

    repo: str
    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class ChunkChanges:
    """Differences between the chunks of two versions.

    A chunk that keeps its id has the same text, path and name in both.
    """

    added: tuple[Chunk, ...]
    removed: tuple[Chunk, ...]
    moved: tuple[tuple[Chunk, Chunk], ...]
    """(before, after): the same text under another path or name."""
    shifted: tuple[tuple[Chunk, Chunk], ...]
    """(before, after): the same chunk on other lines of its file."""
    unchanged: int

    def heirs(self) -> dict[int, int]:
        """Return the id before, by id after, of chunks that moved."""
        return {after.chunk_id: before.chunk_id for before, after in self.moved}


@dataclass(frozen=True, slots=True)
class FileChanges:
    """Differences between the indexed files of two versions."""

    added: tuple[VersionFile, ...]
    removed: tuple[VersionFile, ...]
    changed: tuple[VersionFile, ...]
    """Files as they are after."""
    moved: tuple[tuple[VersionFile, VersionFile], ...]
    """(before, after): the same bytes under another path."""


def read_chunks(paths: BundlePaths, files: Set[tuple[str, str]] | None = None) -> dict[int, Chunk]:
    """Return the chunks of a version by id; of a delta version, those of its base that count as well.

    Args:
        paths: The version.
        files: (repository, path) of the files whose chunks are wanted; None for all.

    Returns:
        The chunks.
    """
    found: dict[int, Chunk] = {}
    for layer, hidden in _layers(paths):
        for file in layer.table_files("chunks"):
            if files is not None and not _places_in(file) & files:
                continue
            rows = read_table(file, [*Chunk._fields, "text"]).to_pylist()
            wanted = (row for row in rows if files is None or (row["repo"], row["path"]) in files)
            found |= {row["chunk_id"]: _chunk(**row) for row in wanted if (row["repo"], row["path"]) not in hidden}
    return found


def _places_in(file: Path) -> set[tuple[str, str]]:
    table = read_table(file, ["repo", "path"])
    return set(zip(table["repo"].to_pylist(), table["path"].to_pylist(), strict=True))


def _chunk(text: str, content_sha256: str, **others: Any) -> Chunk:
    return Chunk(content_sha256=content_sha256 or hashlib.sha256(text.encode()).hexdigest(), **others)


def read_files(paths: BundlePaths) -> tuple[VersionFile, ...]:
    """Return the indexed files of a version; of a delta version, those of its base that count as well."""
    found = (
        VersionFile(row["repo"], row["path"], row["sha256"])
        for layer, hidden in _layers(paths)
        for row in read_table(layer.table("files"), [*VersionFile._fields, "skip_reason"]).to_pylist()
        if not row["skip_reason"] and (row["repo"], row["path"]) not in hidden
    )
    return tuple(sorted(found))


def _layers(paths: BundlePaths) -> list[tuple[BundlePaths, set[tuple[str, str]]]]:
    """Return the versions that hold the rows of a version, each with its files that count no longer."""
    below = base_paths(paths, read_manifest(paths))
    if below is None:
        return [(paths, set())]
    table = read_table(below.table("files"), ["repo", "path"])
    files = sorted(zip(table["repo"].to_pylist(), table["path"].to_pylist(), strict=True))
    hidden = {files[file] for file in map_array(paths.stack / f"{HIDDEN}.npy").tolist()}
    return [(below, hidden), (paths, set())]


def compare_chunks(before: Mapping[int, Chunk], after: Mapping[int, Chunk]) -> ChunkChanges:
    """Compare chunks by id first, and the rest by text: within the file, under the same name, then anywhere."""
    gone = sorted((before[one] for one in before.keys() - after.keys()), key=_place)
    come = sorted((after[one] for one in after.keys() - before.keys()), key=_place)
    alike: tuple[Callable[[Chunk], Hashable], ...] = (
        lambda chunk: (chunk.content_sha256, chunk.repo, chunk.path),
        lambda chunk: (chunk.content_sha256, chunk.repo, chunk.qualified_name),
        lambda chunk: chunk.content_sha256,
    )
    moved, removed, added = _paired(gone, come, alike)
    kept = sorted(before.keys() & after.keys())
    shifted = [(before[one], after[one]) for one in kept if before[one].start_line != after[one].start_line]
    return ChunkChanges(
        added=tuple(added),
        removed=tuple(removed),
        moved=tuple(sorted(moved, key=lambda pair: _place(pair[1]))),
        shifted=tuple(sorted(shifted, key=lambda pair: _place(pair[1]))),
        unchanged=len(kept) - len(shifted),
    )


def compare_files(before: Iterable[VersionFile], after: Iterable[VersionFile]) -> FileChanges:
    """Compare files by path first, and the rest by bytes."""
    held = {(file.repo, file.path): file for file in before}
    now = {(file.repo, file.path): file for file in after}
    moved, removed, added = _paired(
        [held[one] for one in sorted(held.keys() - now.keys())],
        [now[one] for one in sorted(now.keys() - held.keys())],
        (lambda file: (file.sha256, file.repo), lambda file: file.sha256),
    )
    changed = [now[one] for one in sorted(held.keys() & now.keys()) if held[one].sha256 != now[one].sha256]
    return FileChanges(tuple(added), tuple(removed), tuple(changed), tuple(moved))


def by_repository(
    changes: ChunkChanges, before: Mapping[int, Chunk], after: Mapping[int, Chunk]
) -> dict[str, dict[str, int]]:
    """Count chunks for each repository: before and after, added, removed, moved, shifted, unchanged."""
    counted = {
        "before": Counter(chunk.repo for chunk in before.values()),
        "after": Counter(chunk.repo for chunk in after.values()),
        "added": Counter(chunk.repo for chunk in changes.added),
        "removed": Counter(chunk.repo for chunk in changes.removed),
        "moved": Counter(chunk.repo for _, chunk in changes.moved),
        "shifted": Counter(chunk.repo for _, chunk in changes.shifted),
    }
    kept = Counter(after[one].repo for one in before.keys() & after.keys())
    counted["unchanged"] = kept - counted["shifted"]
    repos = sorted({repo for counts in counted.values() for repo in counts})
    return {repo: {name: counts[repo] for name, counts in counted.items()} for repo in repos}


_T = TypeVar("_T")


def _paired(
    gone: list[_T], come: list[_T], alike: Iterable[Callable[[_T], Hashable]]
) -> tuple[list[tuple[_T, _T]], list[_T], list[_T]]:
    """Pair items by the first key function that finds a partner, each item once.

    The result is (pairs, rest of the gone, rest of the come).
    """
    pairs: list[tuple[_T, _T]] = []
    for key in alike:
        waiting: dict[Hashable, list[_T]] = defaultdict(list)
        for one in reversed(gone):
            waiting[key(one)].append(one)
        left: list[_T] = []
        taken: set[int] = set()
        for one in come:
            candidates = waiting.get(key(one))
            if candidates:
                partner = candidates.pop()
                taken.add(id(partner))
                pairs.append((partner, one))
            else:
                left.append(one)
        gone = [one for one in gone if id(one) not in taken]
        come = left
    return pairs, gone, come


def _place(chunk: Chunk) -> tuple[str, str, int, int]:
    return chunk.repo, chunk.path, chunk.start_line, chunk.chunk_id

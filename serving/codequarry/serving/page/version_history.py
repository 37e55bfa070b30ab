"""Versions of a bundle root, what the gate found of each, and what differs between two, for the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ValidationError

from codequarry.schemas.bundle.layout import BundleRoot, is_version_name
from codequarry.schemas.bundle.manifest import Manifest
from codequarry.schemas.errors import CodequarryError
from codequarry.serving.files.integrity import read_manifest
from codequarry.serving.files.version_order import ordered_versions
from codequarry.serving.version.version_differences import (
    Chunk,
    FileChanges,
    compare_chunks,
    compare_files,
    read_chunks,
    read_files,
)

_VERSIONS = 60
"""Versions and verdicts on the page, the newest ones."""
_FILES = 2_000
"""Files that differ whose definitions are compared; more take too long for a page."""


class GateCheck(BaseModel):
    """One rule of the gate, and what it found."""

    name: str
    passed: bool
    found: str
    expected: str
    examples: list[str] = []


class Figure(BaseModel):
    """A mean over questions with its 95 % interval."""

    mean: float
    low: float
    high: float


class GateRun(BaseModel):
    """Figures of one of the two versions that were asked."""

    figures: dict[str, dict[str, Figure | int]] = {}
    """By language, ``all`` among them; the number of questions is one of them."""


class MovedQuestion(BaseModel):
    """A question whose first right answer stands at another rank than before; 0 where it was not found."""

    query: str
    kind: str
    before: int
    after: int


class GateVerdict(BaseModel):
    """Findings of the gate, as ``verdicts/<version>/verdict.json`` holds them."""

    version: str
    passed: bool
    checks: list[GateCheck]
    against: str = ""
    runs: dict[str, GateRun] = {}
    moved: list[MovedQuestion] = []

    def figure(self, metric: str, run: str = "staged", kind: str = "all") -> Figure | None:
        """Return a figure of the version, or None where nothing was asked.

        Args:
            metric: Name of the figure, e.g. ``ndcg_10``.
            run: ``staged`` for the version itself, ``CURRENT`` for the one before.
            kind: Language, or ``all``.

        Returns:
            The figure.
        """
        found = self.runs[run].figures.get(kind, {}).get(metric) if run in self.runs else None
        return found if isinstance(found, Figure) else None

    def kinds(self) -> list[str]:
        """Return the languages that were asked about, ``all`` first."""
        asked = self.runs["staged"].figures if "staged" in self.runs else ()
        return sorted(asked, key=lambda kind: (kind != "all", kind))


@dataclass(frozen=True, slots=True)
class VersionLine:
    """A version that is there, or one that the gate stopped."""

    name: str
    current: bool
    manifest: Manifest | None
    """None for a version that was stopped or removed, or cannot be read."""
    verdict: GateVerdict | None
    before: str
    """The version before it that is still there; "" where there is none."""


@dataclass(frozen=True, slots=True)
class QualityPoint:
    """A version in the drawing of quality over time."""

    x: int
    y: int
    name: str
    mean: float


@dataclass(frozen=True, slots=True)
class DefinitionChanges:
    """Differences between the definitions of two versions, in the files that differ."""

    added: tuple[Chunk, ...]
    removed: tuple[Chunk, ...]
    changed: tuple[Chunk, ...]
    """Definitions with another text, as they are after."""
    moved: tuple[tuple[Chunk, Chunk], ...]
    """(before, after): the same text under another path or name."""


@dataclass(frozen=True, slots=True)
class VersionDifference:
    """Files, definitions and answers that differ between two versions."""

    before: str
    after: str
    files: FileChanges
    definitions: DefinitionChanges | None
    """None where too many files differ."""
    verdict: GateVerdict | None
    """Findings of the gate that compared these two."""


def version_lines(root: BundleRoot) -> list[VersionLine]:
    """List the versions of a root and the verdicts of versions that are gone, the newest first.

    Args:
        root: Bundle root.

    Returns:
        At most 60 of them.

    Raises:
        ResourcesError: Manifests cannot be read now.
    """
    there = ordered_versions(root)
    try:
        current = root.read_current().version
    except CodequarryError:
        current = ""
    before = dict(zip(there[1:], there, strict=False))
    gone = sorted(each.name for each in _verdict_folders(root) if each.name not in there)
    # Names begin with their time; among versions of one second the order of building counts.
    place = {name: number for number, name in enumerate(there)}
    names = sorted([*there, *gone], key=lambda name: (name[:16], place.get(name, -1)), reverse=True)[:_VERSIONS]
    return [
        VersionLine(
            name,
            name == current,
            _manifest(root, name) if name in place else None,
            read_gate_verdict(root, name),
            before.get(name, ""),
        )
        for name in names
    ]


def _verdict_folders(root: BundleRoot) -> list[Path]:
    return [each for each in root.verdicts.iterdir() if is_version_name(each.name)] if root.verdicts.is_dir() else []


def _manifest(root: BundleRoot, name: str) -> Manifest | None:
    try:
        return read_manifest(root.version(name))
    except (CodequarryError, OSError):
        return None


def read_gate_verdict(root: BundleRoot, version: str) -> GateVerdict | None:
    """Read what the gate found of a version.

    Args:
        root: Bundle root.
        version: Name of the version.

    Returns:
        The verdict; None where there is none that can be read.
    """
    try:
        return GateVerdict.model_validate_json((root.verdicts / version / "verdict.json").read_bytes())
    except (OSError, ValidationError):
        return None


def quality_points(lines: Sequence[VersionLine], metric: str, width: int, height: int) -> list[QualityPoint]:
    """Lay out how a figure went over versions, the oldest at the left; the top is 1, the bottom 0.

    Args:
        lines: Versions, the newest first.
        metric: Name of the figure.
        width: Pixels.
        height: Pixels.

    Returns:
        A point for each version that was asked questions.
    """
    known = [
        (line.name, each.mean) for line in reversed(lines) if line.verdict and (each := line.verdict.figure(metric))
    ]
    step = width / max(1, len(known) - 1)
    return [
        QualityPoint(round(number * step), round((1 - mean) * height), name, mean)
        for number, (name, mean) in enumerate(known)
    ]


def difference_between(root: BundleRoot, before: str, after: str) -> VersionDifference:
    """Compare two versions: files by path and bytes, definitions of the files that differ, and answers.

    Args:
        root: Bundle root.
        before: Name of a version.
        after: Name of another.

    Returns:
        What differs.

    Raises:
        NotFoundError: One of them is not there.
        CodequarryError: One of them cannot be read.
    """
    sides = [root.published(name) for name in (before, after)]
    files = compare_files(*map(read_files, sides))
    moved = [each for pair in files.moved for each in pair]
    touched = {(each.repo, each.path) for each in (*files.added, *files.removed, *files.changed, *moved)}
    chunks = [read_chunks(paths, touched) for paths in sides] if len(touched) <= _FILES else None
    verdict = read_gate_verdict(root, after)
    return VersionDifference(
        before,
        after,
        files,
        _definition_changes(*chunks) if chunks is not None else None,
        verdict if verdict is not None and verdict.against == before else None,
    )


def _definition_changes(before: Mapping[int, Chunk], after: Mapping[int, Chunk]) -> DefinitionChanges:
    changes = compare_chunks(_with_names(before), _with_names(after))
    gone, come = ({_identity(each): each for each in some} for some in (changes.removed, changes.added))
    return DefinitionChanges(
        tuple(each for name, each in come.items() if name not in gone),
        tuple(each for name, each in gone.items() if name not in come),
        tuple(each for name, each in come.items() if name in gone),
        changes.moved,
    )


def _with_names(chunks: Mapping[int, Chunk]) -> dict[int, Chunk]:
    return {number: chunk for number, chunk in chunks.items() if chunk.qualified_name}


def _identity(chunk: Chunk) -> tuple[str, str, str]:
    return chunk.repo, chunk.path, chunk.qualified_name

"""Comparison of a staged version with CURRENT: a large difference is a fault of the build, or meant.

Each repository that is in both versions is compared with itself; the user decides which repositories there are. Small
repositories are not judged, since a file more or less is a large share of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from codequarry.pipelines.gates.live_rows import count_by_language
from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot
from codequarry.schemas.bundle.manifest import Manifest, SourceEntry
from codequarry.schemas.errors import CodequarryError
from codequarry.schemas.gates.expectation import EXAMPLES
from codequarry.schemas.resources import raise_if_exhausted
from codequarry.schemas.settings.gates import DriftSettings
from codequarry.schemas.settings.load import Settings
from codequarry.serving.files.integrity import base_of, current_manifest
from codequarry.serving.version.check import Check

LOST = "indexed files that went"
GREW = "indexed files that came"
LANGUAGE_LOST = "files of a language that went"
LANGUAGES = "share of a language"
CLASSES = "share of a path class"
SKIPPED = "share of files skipped for a reason"
CHUNKS = "chunks per file"
TOKENS = "token vectors per chunk"
BYTES = "bytes per chunk"
SECRETS = "secrets that came"
ENCODERS = "encoders that changed"
DRIFT = (LOST, GREW, LANGUAGE_LOST, LANGUAGES, CLASSES, SKIPPED, CHUNKS, TOKENS, BYTES, SECRETS, ENCODERS)
"""Every check of this module."""


@dataclass(frozen=True, slots=True)
class _MeasuredChange:
    """A quantity that was measured in both versions."""

    check: str
    what: str
    size: float
    """Size of the change, in the check's own measure."""
    limit: float
    said: str

    @property
    def exceeds_limit(self) -> bool:
        return self.size > self.limit


def drift_checks(root: BundleRoot, paths: BundlePaths, manifest: Manifest, settings: Settings) -> list[Check]:
    """Compare a staged version with CURRENT, a delta with its base as one; without CURRENT there are no checks."""
    held = current_manifest(root)
    if held is None:
        return []
    limits = settings.drift
    changes = [
        *_files(held, manifest, limits),
        *_languages(root.version(held.version), held, paths, manifest, limits),
        *_measures(root, held, manifest, limits),
    ]
    return [*(_check(name, [each for each in changes if each.check == name]) for name in DRIFT[:-1]),
            _encoders(held, manifest, settings)]  # fmt: skip


def _pairs(held: Manifest, manifest: Manifest, limits: DriftSettings) -> Iterator[tuple[SourceEntry, SourceEntry]]:
    """Yield the repositories that are in both versions and large enough to be judged."""
    before = {(source.name, source.url): source for source in held.sources}
    for source in manifest.sources:
        old = before.get((source.name, source.url))
        if old is not None and old.files >= limits.min_files:
            yield old, source


def _files(held: Manifest, manifest: Manifest, limits: DriftSettings) -> Iterator[_MeasuredChange]:
    for old, new in _pairs(held, manifest, limits):
        said = f"{new.name}: {old.files} -> {new.files} files"
        yield _MeasuredChange(LOST, new.name, 1 - new.files / old.files, limits.max_files_lost, said)
        yield _MeasuredChange(GREW, new.name, new.files / old.files, limits.max_growth, said)
        yield from _shares(CLASSES, new.name, old.classes, new.classes, limits.max_share_change, limits.min_files)
        census = ({"": old.files, **old.skipped}, {"": new.files, **new.skipped})
        for change in _shares(SKIPPED, new.name, *census, limits.max_skipped_change, limits.min_files):
            if change.what and new.skipped.get(change.what, 0) > old.skipped.get(change.what, 0):
                yield change
        if old.secrets is not None and new.secrets is not None:
            before, now = sum(old.secrets.values()), sum(new.secrets.values())
            said = f"{new.name}: {before} -> {now} secrets"
            yield _MeasuredChange(SECRETS, new.name, now - before, limits.max_new_secrets, said)


def _languages(
    before: BundlePaths, held: Manifest, paths: BundlePaths, manifest: Manifest, limits: DriftSettings
) -> Iterator[_MeasuredChange]:
    pairs = list(_pairs(held, manifest, limits))
    if not pairs:
        return
    try:
        earlier = count_by_language(before, held)
    except (OSError, KeyError, pa.ArrowException, CodequarryError) as error:
        raise_if_exhausted(error, f"version {held.version} cannot be compared now")
        return  # a CURRENT whose table is damaged has to be replaceable
    now = count_by_language(paths, manifest)
    for _, new in pairs:
        old_files, files = earlier[new.name], now[new.name]
        for language, count in sorted(old_files.items()):
            if count >= limits.min_files:
                said = f"{new.name} {language}: {count} -> {files[language]} files"
                yield _MeasuredChange(
                    LANGUAGE_LOST, language, 1 - files[language] / count, limits.max_language_lost, said
                )
        yield from _shares(LANGUAGES, new.name, old_files, files, limits.max_share_change, limits.min_files)


def _shares(
    check: str, repo: str, before: Mapping[str, int], after: Mapping[str, int], limit: float, min_files: int
) -> Iterator[_MeasuredChange]:
    """Yield the changed share of each kind whose count changed by some files."""
    old_sum, new_sum = max(1, sum(before.values())), max(1, sum(after.values()))
    for kind in sorted({*before, *after}):
        old, new = before.get(kind, 0), after.get(kind, 0)
        if abs(new - old) >= min_files or abs(new_sum - old_sum) >= min_files:
            share, now = old / old_sum, new / new_sum
            yield _MeasuredChange(check, kind, abs(now - share), limit, f"{repo} {kind}: {share:.0%} -> {now:.0%}")


def _measures(root: BundleRoot, held: Manifest, manifest: Manifest, limits: DriftSettings) -> Iterator[_MeasuredChange]:
    """Yield ratios that follow from settings and program; nothing when the settings changed."""
    if held.settings_sha256 != manifest.settings_sha256:
        return
    limit = limits.max_ratio
    pairs = list(_pairs(held, manifest, limits))
    for old, new in pairs:
        yield _ratio(CHUNKS, new.name, old.chunks / old.files, new.chunks / new.files, limit)
    if pairs and held.warp is not None and manifest.warp is not None:
        rate, now = (warp.tokens / max(1, warp.documents) for warp in (held.warp, manifest.warp))
        yield _ratio(TOKENS, "all", rate, now, limit)
    # Both parts of a stack have what each version takes, however small: a complete version is compared with the base.
    whole = held if held.stack is None else base_of(root, held)
    if pairs and len(pairs) == len(held.sources) == len(manifest.sources) and manifest.stack is None:
        size, now = (_index_bytes(each) / max(1, each.counts.chunks) for each in (whole, manifest))
        yield _ratio(BYTES, "all", size, now, limit)


def _ratio(check: str, what: str, before: float, after: float, limit: float) -> _MeasuredChange:
    factor = max(before, after) / max(min(before, after), 1e-9)
    return _MeasuredChange(check, what, factor, limit, f"{what}: {before:,.1f} -> {after:,.1f}")


def _index_bytes(manifest: Manifest) -> int:
    """Return the bytes of a version without its encoders, whose size does not depend on the number of chunks."""
    return sum(
        entry.size_bytes for entry in manifest.files if not entry.path.startswith(("encoder", "warp/encoder"))
    )  # fmt: skip


def _encoders(held: Manifest, manifest: Manifest, settings: Settings) -> Check:
    """Check that the encoders are those of CURRENT, unless the settings or another program bring others."""
    second = settings.embedding.second
    given = {
        "faiss": settings.embedding.folder or settings.embedding.adapt,
        "faiss2": second is not None and second.folder,
    }
    upgraded = held.tools.get("codequarry") != manifest.tools.get("codequarry")
    asked = upgraded or held.settings_sha256 != manifest.settings_sha256 or settings.drift.encoders_may_change
    before, after = _fingerprints(held), _fingerprints(manifest)
    changed = [
        f"{leg}: {before[leg][:12]} -> {after[leg][:12]}"
        for leg in sorted(before.keys() & after.keys())
        if before[leg] != after[leg] and not asked and not given.get(leg)
    ]
    return Check(ENCODERS, not changed, str(len(changed)), "0", tuple(changed[:EXAMPLES]), regression=True)


def _fingerprints(manifest: Manifest) -> dict[str, str]:
    found = {leg.channel: leg.encoder.fingerprint for leg in manifest.legs}
    return found | ({"warp": manifest.warp.encoder.fingerprint} if manifest.warp is not None else {})


def _check(name: str, changes: list[_MeasuredChange]) -> Check:
    """Return the check of one kind, over all repositories; the largest changes first."""
    broken = sorted((each for each in changes if each.exceeds_limit), key=lambda each: (-each.size, each.said))
    worst = max(changes, key=lambda each: each.size - each.limit, default=None)
    expected = f"at most {_size(name, worst.limit if worst is not None else 0.0)}"
    found = "nothing to compare" if worst is None else f"{worst.said} ({_size(name, worst.size)})"
    examples = tuple(each.said for each in broken[:EXAMPLES])
    return Check(name, not broken, found, expected, examples, regression=True)


def _size(check: str, size: float) -> str:
    """Format a change, or its limit, in the unit of its check."""
    if check == SECRETS:
        return f"{size:+.0f}"
    return f"a factor of {size:.2f}" if check in (GREW, CHUNKS, TOKENS, BYTES) else f"{size:.0%}"

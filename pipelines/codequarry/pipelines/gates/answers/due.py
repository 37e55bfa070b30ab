"""Decision whether a staged version has to be asked.

It need not be when it differs from CURRENT in a few files and was made by the same means. A commit to one file costs a
few seconds, and so does asking. Asking guards against other encoders, weights, settings and programs, and against
changes of many files; the checks of a version's contents are made in any case. Changed files are counted from the
version that was asked last, so that many small changes lead to asking as well. A complete version over deltas is always
asked: it takes the place of what was judged in parts.
"""

from __future__ import annotations

import json
from pathlib import Path

from codequarry.pipelines.gates.live_rows import count_changed_files
from codequarry.pipelines.store.workspace import Progress, write_json
from codequarry.schemas.bundle.layout import RANKING_FILE, BundlePaths, BundleRoot
from codequarry.schemas.bundle.manifest import Manifest
from codequarry.schemas.settings.load import Settings
from codequarry.serving.files.integrity import current_manifest, read_manifest
from codequarry.serving.version.check import Check

_NOTE = "asked.json"
"""File in the work folder: the number of files changed since a version was asked."""


def retrieval_checks(paths: BundlePaths, settings: Settings, progress: Progress) -> tuple[Check, ...]:
    """Run the gate: the checks of `asked.ask_staged`, or one that says that asking was not due; parameters as there."""
    if not settings.retrieval.enabled:
        return ()
    manifest = read_manifest(paths)
    changed = _changed_files(paths, manifest, BundleRoot(settings.bundle.root))
    note = settings.paths.work / _NOTE
    if changed is not None:
        total = changed + _read_changed_files(note)
        share = total / max(1, manifest.counts.files)
        if share <= settings.retrieval.min_changed_share:
            write_json(note, {"changed": total})
            return (
                Check(
                    "files changed since answers were compared", True, f"{total:,} of {manifest.counts.files:,}",
                    f"answers are compared from a share of {settings.retrieval.min_changed_share:g} on",
                ),
            )  # fmt: skip
    from codequarry.pipelines.gates.answers.asked import ask_staged

    checks = ask_staged(paths, settings, progress)
    if all(check.passed for check in checks):  # a stopped version is asked again, however little it differs
        write_json(note, {"changed": 0})
    return checks


def _read_changed_files(note: Path) -> int:
    try:
        return int(json.loads(note.read_text(encoding="utf-8"))["changed"])
    except (OSError, ValueError, KeyError, TypeError):
        return 1 << 60  # unknown: ask


def _changed_files(paths: BundlePaths, manifest: Manifest, root: BundleRoot) -> int | None:
    """Count the files that differ from CURRENT's; None when asking is due however few do.

    CURRENT was made by other means, or is a delta version in whose place a complete one comes; or there is none.
    """
    held = current_manifest(root)
    if held is None or _means(held) != _means(manifest) or (held.stack is not None and manifest.stack is None):
        return None
    return count_changed_files(paths, manifest, root.version(held.version), held)


def _means(manifest: Manifest) -> tuple[object, ...]:
    """Return everything besides the files that decides answers."""
    encoders = [leg.encoder.fingerprint for leg in manifest.legs]
    profile = [entry.sha256 for entry in manifest.files if entry.path == RANKING_FILE]
    sources = [source.name for source in manifest.sources]
    return manifest.settings_sha256, manifest.tools, encoders, profile, sources

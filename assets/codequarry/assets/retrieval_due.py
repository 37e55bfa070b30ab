"""Whether a staged version has to be asked: it is not for a few files more or less, made by the same means as CURRENT.

A commit to one file costs a few seconds, and so does asking. What asking guards against are other encoders, weights,
settings and programs, and files that changed in number; the checks of what a version holds are made in any case. Files
that changed are counted from the version that was asked last on, so that many small changes are asked about as well.
"""

from __future__ import annotations

import json
from pathlib import Path

from codequarry.pipelines.workspace import Progress, write_json
from codequarry.schemas.checks import Check
from codequarry.schemas.integrity import current_manifest, read_manifest
from codequarry.schemas.layout import RANKING_FILE, BundlePaths, BundleRoot
from codequarry.schemas.manifest import Manifest
from codequarry.schemas.settings import Settings
from codequarry.schemas.tables import read_table

_NOTE = "asked.json"
"""In the work folder: how many files changed since a version was asked."""


def retrieval_checks(paths: BundlePaths, settings: Settings, progress: Progress) -> tuple[Check, ...]:
    """The gate: what `retrieval_gate.ask_staged` says, or that nothing had to be asked; see there for parameters."""
    if not settings.retrieval.enabled:
        return ()
    manifest = read_manifest(paths)
    changed = _changed_files(paths, manifest, settings)
    note = settings.paths.work / _NOTE
    if changed is not None:
        total = changed + _noted(note)
        share = total / max(1, manifest.counts.files)
        if share <= settings.retrieval.min_changed_share:
            write_json(note, {"changed": total})
            return (
                Check(
                    "files changed since answers were compared", True, f"{total:,} of {manifest.counts.files:,}",
                    f"answers are compared from a share of {settings.retrieval.min_changed_share:g} on",
                ),
            )  # fmt: skip
    from codequarry.assets.retrieval_gate import ask_staged

    checks = ask_staged(paths, settings, progress)
    if all(check.passed for check in checks):  # what was stopped is asked again, however little it differs
        write_json(note, {"changed": 0})
    return checks


def _noted(note: Path) -> int:
    try:
        return int(json.loads(note.read_text(encoding="utf-8"))["changed"])
    except (OSError, ValueError, KeyError, TypeError):
        return 1 << 60  # nobody knows: ask


def _changed_files(paths: BundlePaths, manifest: Manifest, settings: Settings) -> int | None:
    """Files that CURRENT lacks, has otherwise or alone; None where it was made by other means, or there is none."""
    root = BundleRoot(settings.bundle.root)
    held = current_manifest(root)
    if held is None or _means(held) != _means(manifest):
        return None
    differing = _files(paths) ^ _files(root.version(held.version))
    return len({(repo, path) for repo, path, _ in differing})


def _means(manifest: Manifest) -> tuple[object, ...]:
    """Of all that decides answers besides the files."""
    encoders = [leg.encoder.fingerprint for leg in manifest.legs]
    profile = [entry.sha256 for entry in manifest.files if entry.path == RANKING_FILE]
    sources = [source.name for source in manifest.sources]
    return manifest.settings_sha256, manifest.tools, encoders, profile, sources


def _files(paths: BundlePaths) -> set[tuple[str, str, str]]:
    """(repository, path, sha256) of the indexed files."""
    columns = ["repo", "path", "sha256", "skip_reason"]
    return {
        (row["repo"], row["path"], row["sha256"])
        for file in paths.table_files("files")
        for row in read_table(file, columns).to_pylist()
        if not row["skip_reason"]
    }

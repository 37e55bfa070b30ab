"""Stage 7: a staged version is checked before it may be published."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from codequarry.pipelines.acceptance import judge
from codequarry.pipelines.contents import content_checks
from codequarry.pipelines.drift import drift_checks
from codequarry.pipelines.gates import gate_checks
from codequarry.pipelines.secret_gate import secret_checks
from codequarry.pipelines.staging import read_pointer, staged_pointer
from codequarry.pipelines.staging_folder import using
from codequarry.pipelines.workspace import Progress, silent, write_json
from codequarry.schemas.checks import Check
from codequarry.schemas.errors import CodequarryError
from codequarry.schemas.integrity import current_manifest, file_sha256, read_manifest, verify
from codequarry.schemas.known_files import known_sha256
from codequarry.schemas.layout import BundlePaths, BundleRoot
from codequarry.schemas.manifest import AcceptedEntry, to_json
from codequarry.schemas.settings import Settings


@dataclass(frozen=True, slots=True)
class Verification:
    """Every check of a staged version."""

    version: str
    path: Path
    checks: tuple[Check, ...]
    accepted: tuple[AcceptedEntry, ...] = ()
    """Those that failed and were accepted; the manifest keeps them."""


def verified_pointer(settings: Settings) -> Path:
    """The file that tells the publish stage which version passed."""
    return settings.paths.work / "verified.json"


def verify_staged(settings: Settings, progress: Progress = silent, *, accept: str = "") -> Verification:
    """Run every check on the staged version and record that it passed.

    accept: why regressions against CURRENT are well; "" accepts none.

    Raises PublishError: nothing is staged, or a check failed (its message names each). IntegrityError: the files
    differ from the manifest. A version that fails is removed; CURRENT is as it was.
    """
    paths = BundlePaths(Path(read_pointer(staged_pointer(settings), "staged")["path"]))
    verified_pointer(settings).unlink(missing_ok=True)
    progress("verifying", 0, 1)
    with using(paths.path):
        try:
            result = _verified(paths, settings, accept, progress)
        except CodequarryError:
            shutil.rmtree(paths.path, ignore_errors=True)
            staged_pointer(settings).unlink()
            raise
    progress("verifying", 1, 1)
    write_json(verified_pointer(settings), {"path": str(paths.path), "manifest_sha256": file_sha256(paths.manifest)})
    return result


def _verified(paths: BundlePaths, settings: Settings, accept: str, progress: Progress) -> Verification:
    manifest = read_manifest(paths)
    verify(paths, manifest, deep=True, sha256=known_sha256)
    root = BundleRoot(settings.bundle.root)
    checks = (
        Check("files match the manifest", True, f"{len(manifest.files)} files", "every sha256"),
        *content_checks(paths, manifest, settings),
        *secret_checks(paths, manifest, current_manifest(root), settings),
        *drift_checks(root, paths, manifest, settings),
    )
    accepted = judge(manifest.version, checks, accept)
    asked = gate_checks(paths, settings, progress)  # only what is whole is asked
    accepted += judge(manifest.version, asked, accept)
    if accepted:
        paths.manifest.write_bytes(to_json(manifest.model_copy(update={"accepted": accepted})))
    return Verification(manifest.version, paths.path, (*checks, *asked), accepted)

"""Stage 7: a staged version is checked before it may be published."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from codequarry.pipelines.bundle.folder import using
from codequarry.pipelines.bundle.stage import Staged
from codequarry.pipelines.gates.accept import judge
from codequarry.pipelines.gates.answers.due import retrieval_checks
from codequarry.pipelines.gates.drift import drift_checks
from codequarry.pipelines.gates.required_content import content_checks
from codequarry.pipelines.gates.secrets import secret_checks
from codequarry.pipelines.store.workspace import Progress, silent
from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot
from codequarry.schemas.bundle.manifest import AcceptedEntry, to_json
from codequarry.schemas.errors import CodequarryError, PublishError
from codequarry.schemas.settings.load import Settings
from codequarry.serving.files.integrity import complete_manifest, file_sha256, read_manifest, verify
from codequarry.serving.version.check import Check


@dataclass(frozen=True, slots=True)
class Verified:
    """A staged version that passed every check; `publish_verified` takes it."""

    version: str
    path: Path
    """Its hidden folder under the bundle root."""
    manifest_sha256: str
    """Of the manifest's bytes when the checks had passed."""
    checks: tuple[Check, ...]
    accepted: tuple[AcceptedEntry, ...] = ()
    """Failed checks that were accepted; the manifest keeps them."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences for whoever publishes."""
        return tuple(check.warning for check in self.checks if check.warning)


def verify_staged(
    staged: Staged,
    settings: Settings,
    progress: Progress = silent,
    *,
    accept: str = "",
    report: Callable[[Sequence[Check]], None] | None = None,
) -> Verified:
    """Run every check on a staged version.

    A version that fails is removed; CURRENT is as it was.

    Args:
        staged: The version. Its files are judged as they are on the disk, the manifest included.
        settings: Settings of the run.
        progress: Told of the steps.
        accept: Why regressions against CURRENT are acceptable; "" accepts none.
        report: Told of the checks as they are made, before a failed one stops the version.

    Returns:
        The same version, and every check.

    Raises:
        PublishError: A check failed (the message names each), or the disk refuses.
        IntegrityError: The files differ from the manifest.
    """
    paths = BundlePaths(staged.path)
    progress("verifying", 0, 1)
    with using(paths.path):
        try:
            verified = _verified(paths, settings, accept, progress, report or (lambda _: None))
        except (CodequarryError, OSError) as error:
            shutil.rmtree(paths.path, ignore_errors=True)
            if isinstance(error, CodequarryError):
                raise
            raise PublishError(
                f"the staged version could not be verified: {error}",
                suggestion="free disk space or fix the disk, then index again; CURRENT is unchanged",
            ) from error
    progress("verifying", 1, 1)
    return verified


def _verified(
    paths: BundlePaths,
    settings: Settings,
    accept: str,
    progress: Progress,
    report: Callable[[Sequence[Check]], None],
) -> Verified:
    manifest = read_manifest(paths)
    verify(paths, manifest, deep=True)
    root = BundleRoot(settings.bundle.root)
    held = complete_manifest(root)
    checks = (
        Check("files match the manifest", True, f"{len(manifest.files)} files", "every sha256"),
        *content_checks(paths, manifest, settings.checks),
        *secret_checks(paths, manifest, held, settings.secrets, settings.checks.max_secrets),
        *drift_checks(root, paths, manifest, settings),
    )
    report(checks)
    accepted = judge(manifest.version, checks, accept)
    asked = retrieval_checks(paths, settings, progress)
    report(asked)
    accepted += judge(manifest.version, asked, accept)
    if accepted:
        paths.manifest.write_bytes(to_json(manifest.model_copy(update={"accepted": accepted})))
    return Verified(manifest.version, paths.path, file_sha256(paths.manifest), (*checks, *asked), accepted)

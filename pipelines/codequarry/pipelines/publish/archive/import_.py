"""Import of an archive as a published version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from codequarry.pipelines.gates.required_content import check_imported
from codequarry.pipelines.publish.archive.read import opened_archive, skip_base, unpack, unpack_base
from codequarry.pipelines.publish.archive.signatures import checked_signature
from codequarry.pipelines.publish.arrival import CheckContents, Imported, publish_arriving
from codequarry.pipelines.publish.leaving import RawManifest
from codequarry.pipelines.store.workspace import Progress, silent
from codequarry.schemas.bundle.provenance import Provenance
from codequarry.schemas.settings.load import Settings


@dataclass(frozen=True, slots=True)
class _Members:
    """Files of an archive, behind its manifests."""

    stream: BinaryIO

    def write_base(self, base: RawManifest, folder: Path, progress: Progress) -> None:
        unpack_base(self.stream, base, folder, progress)

    def skip_base(self, base: RawManifest) -> None:
        skip_base(self.stream, base)

    def write(self, version: RawManifest, folder: Path, progress: Progress) -> None:
        unpack(self.stream, version.raw, version.manifest, folder, progress)


def import_version(
    file: Path,
    settings: Settings,
    progress: Progress = silent,
    *,
    keep_current: bool = False,
    keys: Sequence[str] = (),
    check: CheckContents = check_imported,
) -> Imported:
    """Unpack an archive beside the published versions, verify it, and publish it.

    After any error CURRENT and the versions are as they were, and nothing that was unpacked is left.

    Args:
        file: The archive.
        settings: Settings of the bundle root, the gates and the trusted keys.
        progress: Told of the megabytes unpacked.
        keep_current: Add the version without making it current; retention is not asked.
        keys: Public keys, one of which has to have signed the archive, besides those of the settings.
        check: Checks the contents of the files; raises.

    Returns:
        The version and what was done.

    Raises:
        IntegrityError: The file is no archive, is damaged, or lacks a required signature.
        FormatError: The archive's format is not one this program reads.
        UnavailableError: The file cannot be read.
        PublishError: A version of that name is there with other contents or damaged, the contents are not fit, or the
            disk refuses or has no room; or the base of a delta version is another one, or neither there nor in the
            archive.
        InvalidArgumentError: There is no current version to keep.
        BusyError: Another process is publishing.
    """
    with opened_archive(file) as opened:
        own = opened.version
        provenance = _checked_provenance(file, own.raw, settings.archive.trusted_keys, keys)
        return publish_arriving(
            own, opened.base, _Members(opened.stream), settings, provenance, progress,
            keep_current=keep_current, check=check,
        )  # fmt: skip


def _checked_provenance(file: Path, raw: bytes, trusted: Sequence[str], keys: Sequence[str]) -> Provenance:
    """Check the required signatures, and return the origin of the version.

    Args:
        file: The archive.
        raw: Bytes of its manifest.
        trusted: Trusted keys of the settings.
        keys: Public keys of the caller.

    Returns:
        The origin.

    Raises:
        IntegrityError: The settings or the caller ask for a signature, and it is missing or another's.
    """
    signed = [checked_signature(file, raw, each) for each in (trusted, keys) if each]
    now = datetime.now(UTC).replace(microsecond=0, tzinfo=None)
    return Provenance(
        file=str(file.absolute()),
        imported=f"{now.isoformat()}Z",
        signed_by=signed[0].key if signed else "",
        comment=signed[0].comment if signed else "",
    )

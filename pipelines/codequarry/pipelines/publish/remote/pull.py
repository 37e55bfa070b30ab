"""Pull of a version from object storage, verified byte by byte, and published as one that was built here."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from codequarry.pipelines.gates.required_content import check_imported
from codequarry.pipelines.publish.arrival import CheckContents, Imported, publish_arriving
from codequarry.pipelines.publish.leaving import RawManifest, check_manifest_size
from codequarry.pipelines.publish.remote.store import NamedCurrent, RemoteStore
from codequarry.pipelines.store.access import make_bundle_root
from codequarry.pipelines.store.durable import write_all
from codequarry.pipelines.store.workspace import Progress, exclusive, silent
from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot
from codequarry.schemas.bundle.manifest import FileEntry, from_json
from codequarry.schemas.bundle.provenance import Provenance
from codequarry.schemas.errors import CodequarryError, IntegrityError, NoBundleError, RemoteError
from codequarry.schemas.settings.load import Settings
from codequarry.serving.files.integrity import file_sha256, read_manifest

DOWNLOADS = ".downloads"
"""Folder of the bundle root with what a pull that ended early had received."""
_WORKERS = 8
_TRIES = 5
"""Connections that may break before a file is whole."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """Result of a pull."""

    imported: Imported
    objects: int
    """Objects that travelled."""
    received_bytes: int


def pull_version(
    store: RemoteStore,
    settings: Settings,
    version: str = "",
    progress: Progress = silent,
    *,
    keep_current: bool = False,
    named: NamedCurrent | None = None,
    beside: Mapping[str, Path] | None = None,
    check: CheckContents = check_imported,
) -> Pulled:
    """Take a version from a store, and publish it under the bundle root.

    Files whose bytes a version here holds are links to them. What a pull that ended early had received is used, and a
    file that it had received in part goes on from there. After any error CURRENT and the versions are as they were.

    Args:
        store: The place.
        settings: Settings of the bundle root and the gates.
        version: Name of the version; "" for the one that is current there.
        progress: Told of the megabytes received.
        keep_current: Add the version without making it current.
        named: Content of the store's CURRENT, where it was read already.
        beside: Files by sha256 of other bundle roots, which are linked too.
        check: Checks the contents of the files; raises.

    Returns:
        The version, what was done, and what travelled.

    Raises:
        NoBundleError: Nothing is current there.
        NotFoundError: There is no such version, or an object of it is missing.
        IntegrityError: Bytes differ from the manifest, or that from CURRENT; or the settings ask for signatures.
        FormatError: The version's format is not one this program reads.
        PublishError: As `publish_arriving` does.
        BusyError: Another process publishes, or pulls.
        RemoteError: The store does not answer.
        UnavailableError: It refuses.
    """
    if settings.archive.trusted_keys:
        raise IntegrityError(
            "[archive] trusted_keys asks for signatures, and versions in object storage bear none",
            suggestion="import signed archives, or take the keys out of the settings",
        )
    expected = ""
    if not version:
        if (named := named or store.read_current()) is None:
            raise NoBundleError(f"nothing is current at {store.url}", suggestion="`codequarry push` a version there")
        version, expected = named.current.version, named.current.manifest_sha256
    own = _read_manifest(store, version, expected)
    stack = own.manifest.stack
    base = None if stack is None else _read_manifest(store, stack.base, stack.base_sha256)
    make_bundle_root(settings.bundle)
    root = BundleRoot(settings.bundle.root)
    now = datetime.now(UTC).replace(microsecond=0, tzinfo=None)
    provenance = Provenance(file=store.url, imported=f"{now.isoformat()}Z", signed_by="")
    with exclusive(root.path / f"{DOWNLOADS}.lock", "pulling"):
        objects = _Objects(store, root, here={**(beside or {}), **_files_here(root)})
        done = publish_arriving(
            own, base, objects, settings, provenance, progress, keep_current=keep_current, check=check
        )
        shutil.rmtree(root.path / DOWNLOADS, ignore_errors=True)
    return Pulled(done, objects.count, objects.received_bytes)


def _read_manifest(store: RemoteStore, version: str, expected_sha256: str) -> RawManifest:
    raw = store.read_manifest(version)
    check_manifest_size(len(raw))
    found = hashlib.sha256(raw).hexdigest()
    if expected_sha256 and found != expected_sha256:
        raise IntegrityError(
            f"the manifest of {version} at {store.url} has sha256 {found[:12]}…, expected {expected_sha256[:12]}…",
            suggestion="push the version again from where it was built; CURRENT is unchanged",
        )
    own = RawManifest(raw, from_json(raw))
    if own.manifest.version != version:
        raise IntegrityError(
            f"the manifest of {version} at {store.url} is that of {own.manifest.version}",
            suggestion="push the version again from where it was built; CURRENT is unchanged",
        )
    return own


@dataclass
class _Objects:
    """Files of versions, taken from a store."""

    store: RemoteStore
    root: BundleRoot
    count: int = 0
    received_bytes: int = 0
    here: dict[str, Path] = field(default_factory=dict[str, Path])
    """Files of this machine by digest: those of published versions here and beside, then those that came."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def write_base(self, base: RawManifest, folder: Path, progress: Progress) -> None:
        self.write(base, folder, progress)

    def skip_base(self, base: RawManifest) -> None:
        """Nothing has to be passed over: each object is asked for by name."""

    def write(self, version: RawManifest, folder: Path, progress: Progress) -> None:
        entries = version.manifest.files
        for parent in sorted({(folder / entry.path).parent for entry in entries}):
            parent.mkdir(parents=True, exist_ok=True)
        by_digest: dict[str, list[FileEntry]] = {}
        for entry in entries:
            by_digest.setdefault(entry.sha256, []).append(entry)
        received, total = 0, version.manifest.size_bytes
        (self.root.path / DOWNLOADS).mkdir(exist_ok=True)

        def put(alike: Sequence[FileEntry]) -> int:
            first = alike[0]
            target = folder / first.path
            if not _link(self.here.get(first.sha256), target, first):
                _link_or_copy(self._receive(first), target)
                self.here[first.sha256] = target
            for other in alike[1:]:
                shutil.copyfile(target, folder / other.path)
            return sum(entry.size_bytes for entry in alike)

        with ThreadPoolExecutor(_WORKERS, "pull") as pool:
            try:
                for size in pool.map(put, by_digest.values()):
                    received += size
                    progress("receiving, MB", received // 1_000_000, total // 1_000_000)
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        with open(BundlePaths(folder).manifest, "xb") as stream:
            stream.write(version.raw)

    def _receive(self, entry: FileEntry) -> Path:
        """Return the file with the bytes of an object, received whole and checked."""
        whole = self.root.path / DOWNLOADS / entry.sha256
        if whole.is_file() and file_sha256(whole) == entry.sha256:
            return whole
        part = whole.with_suffix(".part")
        for left in reversed(range(_TRIES)):
            try:
                self._append(entry, part)
            except RemoteError:
                if not left:
                    raise
                continue
            if part.stat().st_size >= entry.size_bytes or self.store.object_size(entry.sha256) != entry.size_bytes:
                break
        found = file_sha256(part)
        if found != entry.sha256:
            size = part.stat().st_size
            part.unlink()  # or each try would go on from wrong bytes
            raise IntegrityError(
                f"{entry.path} came from {self.store.url} with {size:,} bytes and sha256 {found[:12]}…, expected "
                f"{entry.size_bytes:,} and {entry.sha256[:12]}…",
                suggestion="pull again; if it stays so, push the version again from where it was built",
            )
        os.rename(part, whole)
        with self._lock:
            self.count += 1
        return whole

    def _append(self, entry: FileEntry, part: Path) -> None:
        """Receive what a file lacks at its end."""
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            start = os.fstat(descriptor).st_size
            if start > entry.size_bytes:
                os.ftruncate(descriptor, 0)
                start = 0
            for piece in self.store.read_object(entry.sha256, start, entry.size_bytes):
                write_all(descriptor, piece)
                with self._lock:
                    self.received_bytes += len(piece)
        finally:
            os.close(descriptor)


def _files_here(root: BundleRoot) -> dict[str, Path]:
    """Return the files of the published versions by digest; one that cannot be read gives none."""
    found: dict[str, Path] = {}
    for name in root.version_names():
        paths = root.version(name)
        with suppress(CodequarryError, OSError):
            found |= {entry.sha256: paths.path / entry.path for entry in read_manifest(paths).files}
    return found


def _link(source: Path | None, target: Path, entry: FileEntry) -> bool:
    """Link a file of a published version, if its bytes are still those of the entry."""
    if source is None:
        return False
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # removed meanwhile, or a file system without links
        return False
    if file_sha256(target) == entry.sha256:
        return True
    target.unlink()
    return False


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # a file system without links
        shutil.copyfile(source, target)

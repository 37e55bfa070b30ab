"""Push of a published version into object storage: only what is not there travels, and CURRENT comes last.

A version that another publisher made current meanwhile is seen by the condition of the replacement: the newer of the
two stays current.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from codequarry.pipelines.publish.leaving import RawManifest, lease_base, lease_version
from codequarry.pipelines.publish.remote.store import RemoteStore
from codequarry.pipelines.store.workspace import Progress, silent
from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot, Current
from codequarry.schemas.bundle.manifest import FileEntry, Manifest, from_json
from codequarry.schemas.errors import (
    CodequarryError,
    FormatError,
    IntegrityError,
    InvalidArgumentError,
    NotFoundError,
    PublishError,
)
from codequarry.schemas.fleet.generation import CURRENT_PATH
from codequarry.schemas.settings.load import Settings
from codequarry.serving.files.integrity import file_sha256
from codequarry.serving.files.version_order import place_of

_WORKERS = 16
_ROUNDS = 5
"""Tries of what another publisher may disturb."""
_GRACE = timedelta(hours=24)
"""Objects younger than this stay: a version that names them may be on its way."""
_DELETED_TOGETHER = 500


@dataclass(frozen=True, slots=True)
class Pushed:
    """Result of a push."""

    url: str
    """The place."""
    manifest: Manifest
    objects: int
    """Objects that travelled."""
    sent_bytes: int
    """Bytes of them."""
    current: str
    """Version that CURRENT names in the store now; "" when nothing is current there."""
    removed: tuple[str, ...] = ()
    """Versions that retention removed from the store."""

    @property
    def is_current(self) -> bool:
        """True when the store serves the pushed version."""
        return self.current == self.manifest.version


def push_version(
    root: BundleRoot,
    store: RemoteStore,
    version: str = "",
    progress: Progress = silent,
    *,
    keep_current: bool = False,
    force: bool = False,
    keep: int = 0,
) -> Pushed:
    """Put a version, and the base of a delta version, into a store, and make it current there.

    Every byte that travels is checked against the manifest first. A push that ended early goes on where it was: objects
    that are there do not travel again.

    Args:
        root: Bundle root.
        store: The place.
        version: Name of the version; "" for the current one.
        progress: Told of the objects looked after.
        keep_current: Leave CURRENT of the store as it is.
        force: Make it current also when a newer version is current there: so a rollback is pushed.
        keep: Versions kept in the store, bases of kept ones apart; 0 = all.

    Returns:
        What travelled, and what is current in the store.

    Raises:
        NoBundleError: Nothing is published under the root.
        NotFoundError: There is no such version.
        IntegrityError: A file differs from its manifest; or the store holds another version of that name.
        PublishError: Others replaced CURRENT or removed objects again and again.
        InvalidArgumentError: Versions would be removed from the place of a fleet, which has a retention of its own.
        RemoteError: The store does not answer.
        UnavailableError: It refuses.
    """
    if keep and store.read_bytes(CURRENT_PATH) is not None:
        raise InvalidArgumentError(
            f"a fleet lives at {store.url}, and what it names may not be removed by a push",
            suggestion="push to another place, or without --keep and [bundle] push_keep; "
            "[fleet] keep_generations decides what stays there",
        )
    with lease_version(root, version) as (paths, own), lease_base(root, own.manifest) as (base_paths, base):
        parts = [(paths, own)] if base is None else [(base_paths, base), (paths, own)]
        sent = _put_objects(store, parts, progress)
        for _, each in parts:
            store.put_manifest(each.manifest.version, each.raw)
        for _ in range(_ROUNDS):  # a retention that listed the manifests before this one may have removed some
            if not (more := _put_objects(store, parts, silent)):
                break
            sent |= more
        else:
            raise PublishError(
                f"objects vanish from {store.url} as they are put", suggestion="see who removes them there"
            )
    current = _read_name(store) if keep_current else _make_current(store, own, force=force)
    removed = _remove_old(store, keep) if keep and current == own.manifest.version else ()
    return Pushed(store.url, own.manifest, len(sent), sum(sent.values()), current, removed)


def push_published(settings: Settings, progress: Progress = silent) -> Pushed | None:
    """Push what CURRENT names to the place of the settings, unless it is current there.

    Args:
        settings: Settings with the place and the bundle root.
        progress: Told of the objects looked after.

    Returns:
        What travelled; None when the settings name no place, or nothing had to be done.

    Raises:
        CodequarryError: As `push_version` does; what is published here stays published.
    """
    if not settings.bundle.push_to:
        return None
    root, store = BundleRoot(settings.bundle.root), RemoteStore.open(settings.bundle.push_to, create=True)
    named = store.read_current()
    if named is not None and named.current == root.read_current():
        return None
    return push_version(root, store, progress=progress, keep=settings.bundle.push_keep)


def _put_objects(
    store: RemoteStore, parts: Sequence[tuple[BundlePaths, RawManifest]], progress: Progress
) -> dict[str, int]:
    """Put the objects that the store lacks.

    Args:
        store: The place.
        parts: Versions with their folders.
        progress: Told of the objects looked after.

    Returns:
        Bytes of what travelled, by digest.
    """
    wanted = {entry.sha256: (paths.path / entry.path, entry) for paths, each in parts for entry in each.manifest.files}
    sent: dict[str, int] = {}
    with ThreadPoolExecutor(_WORKERS, "push") as pool:
        try:
            for done, size in enumerate(pool.map(_putter(store), wanted.values()), 1):
                progress("pushing, objects", done, len(wanted))
                sent |= size
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return sent


def _putter(store: RemoteStore) -> Callable[[tuple[Path, FileEntry]], dict[str, int]]:
    def put(wanted: tuple[Path, FileEntry]) -> dict[str, int]:
        file, entry = wanted
        if store.object_size(entry.sha256) == entry.size_bytes:
            return {}
        if (found := file_sha256(file)) != entry.sha256:
            raise IntegrityError(
                f"{file} has sha256 {found[:12]}…, expected {entry.sha256[:12]}…",
                suggestion="push another version, or index again; see `codequarry verify --deep`",
            )
        store.put_object(entry.sha256, file)
        return {entry.sha256: entry.size_bytes}

    return put


def _make_current(store: RemoteStore, own: RawManifest, *, force: bool) -> str:
    """Let CURRENT name a version, unless it names a newer one; return the version it names then."""
    new = Current(own.manifest.version, own.sha256)
    for _ in range(_ROUNDS):
        known = store.read_current()
        if known is not None and (
            known.current == new or (not force and _is_newer(store, known.current.version, own.manifest))
        ):
            return known.current.version
        if store.replace_current(new, known):
            return new.version
    raise PublishError(
        f"{new.version} could not be made current at {store.url}: others replace CURRENT all the time",
        suggestion="push again; its objects are there",
    )


def _is_newer(store: RemoteStore, version: str, manifest: Manifest) -> bool:
    """Return true when a version of the store was built after the one of the manifest; names do not count."""
    try:
        known = from_json(store.read_manifest(version))
    except (FormatError, IntegrityError, NotFoundError):
        known = None  # one that is damaged or gone still has its place
    return place_of(version, known) > place_of(manifest.version, manifest)


def _read_name(store: RemoteStore) -> str:
    named = store.read_current()
    return named.current.version if named is not None else ""


def _remove_old(store: RemoteStore, keep: int) -> tuple[str, ...]:
    """Remove the versions beyond the newest ones, then the objects that no manifest names.

    Args:
        store: The place.
        keep: Number of versions that stay. So do CURRENT, and the bases of what stays.

    Returns:
        The removed versions.
    """
    manifests = manifests_in(store, _names_in(store))
    by_age = sorted(manifests, key=lambda name: place_of(name, manifests[name]))
    stay = {*by_age[-keep:], _read_name(store)}
    stay |= {stack.base for name in stay if name in manifests and (stack := manifests[name].stack) is not None}
    removed = tuple(name for name in by_age if name not in stay)
    for name in removed:
        store.delete_version(name)
    remove_unnamed_objects(store)
    return removed


def _names_in(store: RemoteStore) -> set[str]:
    """Return the versions of the list, and CURRENT's, which a late list may lack."""
    return {*store.versions(), *filter(None, [_read_name(store)])}


def is_young(modified: datetime) -> bool:
    """Return whether something that names this object may be on its way."""
    return datetime.now(UTC) - modified <= _GRACE


def remove_unnamed_objects(
    store: RemoteStore, further: Callable[[], set[str]] = set, among: Collection[str] | None = None
) -> None:
    """Remove the objects that no manifest names, unless they are young.

    Args:
        store: The place.
        further: Returns digests of objects that stay as well.
        among: Digests of the objects that may go, all of versions that are not young; None for a look at every object.

    Raises:
        PublishError: A manifest cannot be read, so that nothing is removed.
        RemoteError: The store does not answer.
        UnavailableError: It refuses.
    """
    if among is None:
        among = [each.path.rpartition("/")[2] for each in store.objects() if not is_young(each.modified)]
    old = sorted(among)
    for start in range(0, len(old), _DELETED_TOGETHER):
        # Read anew each time: whatever came meanwhile keeps what it names.
        manifests = manifests_in(store, _names_in(store))
        named = {entry.sha256 for manifest in manifests.values() for entry in manifest.files} | further()
        store.delete_objects(each for each in old[start : start + _DELETED_TOGETHER] if each not in named)


def manifests_in(store: RemoteStore, names: set[str]) -> dict[str, Manifest]:
    """Return manifests of a store, and those of the bases of delta versions, by version.

    Args:
        store: The place.
        names: Versions; those that are gone are left out.

    Returns:
        Manifests by version.

    Raises:
        PublishError: One cannot be read.
        RemoteError: The store does not answer.
        UnavailableError: It refuses.
    """
    found: dict[str, Manifest] = {}
    names = set(names)
    while names:
        name = names.pop()
        try:
            found[name] = from_json(store.read_manifest(name))
        except NotFoundError:
            continue  # removed meanwhile
        except CodequarryError as error:
            raise PublishError(
                f"the manifest of {name} at {store.url} cannot be read, so that nothing is removed: {error.message}",
                suggestion=error.suggestion,
            ) from error
        stack = found[name].stack
        if stack is not None and stack.base not in found:
            names.add(stack.base)
    return found

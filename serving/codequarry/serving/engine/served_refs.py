"""Versions of further refs, opened when somebody asks for one."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel

from codequarry.schemas.bundle.layout import BundleRoot, Current
from codequarry.schemas.bundle.refs import RefName, list_refs, read_ref, sound_refs
from codequarry.schemas.errors import CodequarryError, InvalidArgumentError, UnavailableError
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.trust.source_places import local_folders, read_places, read_ref_places
from codequarry.schemas.wire.describe import RefDescription
from codequarry.serving.catalog import present
from codequarry.serving.engine.local_files import LocalFiles
from codequarry.serving.engine.working_tree import WorkingTree
from codequarry.serving.files.integrity import read_manifest, verify
from codequarry.serving.request.repository_scope import EVERYTHING, RepositoryScope
from codequarry.serving.version.open import SERVED_CHANNELS, Bundle
from codequarry.serving.version.served import Served

_MOST_OPEN = 16
_MOST_LISTED = 12
_COMMIT_DIGITS = frozenset("0123456789abcdefABCDEF")


class Choice(NamedTuple):
    """The version that answers a request."""

    ref: RefName | None
    """None for what CURRENT names."""
    note: str = ""
    """A sentence for the answer; "" where nothing has to be said."""


class _OpenRef(NamedTuple):
    current: Current
    served: Served
    files: LocalFiles | None


class ServedRefs:
    """Open versions of further refs, of which the least recently used one is closed. Safe to share between threads.

    Args:
        root: Bundle root.
        settings: Threads and limits of each version.
        channels: Channels to open.
        tree: Work tree that the client works in; None where that is not known.
    """

    def __init__(
        self,
        root: Path,
        settings: ServingSettings,
        *,
        channels: Iterable[str] = SERVED_CHANNELS,
        tree: WorkingTree | None = None,
    ) -> None:
        self.tree = tree
        self._root, self._settings, self._channels = BundleRoot(root), settings, tuple(channels)
        self._lock, self._opening = threading.Lock(), threading.Lock()
        self._open: OrderedDict[RefName, _OpenRef] = OrderedDict()

    def choose(self, request: BaseModel, scope: RepositoryScope = EVERYTHING) -> Choice:
        """Return the ref that a request is about.

        Args:
            request: Arguments of any tool.
            scope: Repositories that the caller may see; refs of others are not indexed for it.

        Returns:
            The ref that it names; else that of the client's work tree, or a sentence when that one is not indexed.

        Raises:
            InvalidArgumentError: The request names a ref that is not indexed, or one of several repositories.
        """
        filters: Any = getattr(request, "filters", None)
        if ref := str(getattr(filters, "ref", "") or ""):
            return Choice(self._resolve(ref, getattr(filters, "repos", []), scope))
        if (ref := str(getattr(request, "ref", "") or "")) and not is_commit(ref):
            return Choice(self._resolve(ref, [], scope))
        if self.tree is None:
            return Choice(None)
        name, note = self.tree.other_than_served()
        if name is not None and name in list_refs(self._root):
            return Choice(name)
        return Choice(None, note)

    @contextmanager
    def lease(self, name: RefName) -> Iterator[tuple[Bundle, LocalFiles | None]]:
        """Keep the version of a ref open for one request.

        Args:
            name: The ref.

        Yields:
            The version, and the comparison with files on this machine; None where there are none.

        Raises:
            InvalidArgumentError: There is no such ref any more.
            UnavailableError: Its version cannot be opened.
        """
        with ExitStack() as stack:
            opened, bundle = self._lease_open(name, stack)
            bundle.require_whole()
            yield bundle, opened.files

    def describe(self, scope: RepositoryScope = EVERYTHING) -> list[RefDescription]:
        """Return the refs of a scope that are indexed."""
        found: list[RefDescription] = []
        for name, current in sorted(sound_refs(self._root).items()):
            if not scope.sees(name.repository):
                continue
            commit = ""
            with suppress(CodequarryError):
                manifest = read_manifest(self._root.version(current.version), expected_sha256=current.manifest_sha256)
                commit = next((each.revision for each in manifest.sources if each.name == name.repository), "")
            found.append(RefDescription(repo=name.repository, ref=name.ref, version=current.version, commit=commit))
        return found

    def close_stale(self) -> None:
        """Close versions that their refs do not name any more, once their last request has ended."""
        with self._lock:
            for name, opened in list(self._open.items()):
                with suppress(CodequarryError):
                    if read_ref(self._root, name) != opened.current:
                        self._open.pop(name).served.close()

    def close(self) -> None:
        """Close every version, once its last request has ended."""
        with self._lock:
            while self._open:
                self._open.popitem()[1].served.close()

    def _resolve(self, ref: str, repositories: Iterable[str], scope: RepositoryScope) -> RefName | None:
        """Return the indexed ref that a request means; None when it is what CURRENT holds."""
        wanted, names = set(repositories), [each for each in list_refs(self._root) if scope.sees(each.repository)]
        labels = {name: label for name, label in served_labels(self._root.path).items() if scope.sees(name)}
        current = sorted(
            repository for repository, label in labels.items() if label == ref and (not wanted or repository in wanted)
        )
        found = [
            name
            for name in names
            if name.ref == ref and name.repository not in current and (not wanted or name.repository in wanted)
        ]
        if len(found) + len(current) == 1 or (current and not found):
            return found[0] if found else None
        if found:
            of = ", ".join(sorted({*current, *(name.repository for name in found)}))
            raise InvalidArgumentError(
                f"ref: several repositories have it: {of}", suggestion="name one of them in `filters.repos`"
            )
        known = sorted({str(name) for name in names} | {str(RefName(*each)) for each in labels.items()})
        shown = ", ".join(map(present.printable, known[:_MOST_LISTED]))
        more = f" and {len(known) - _MOST_LISTED} more" if len(known) > _MOST_LISTED else ""
        raise InvalidArgumentError(
            "ref: no such branch is indexed" + (f"; indexed are {shown}{more}" if known else ", nor any other"),
            suggestion="leave it out for the one that is served, or index it: `codequarry index PATH PATH#BRANCH`",
        )

    def _lease_open(self, name: RefName, stack: ExitStack) -> tuple[_OpenRef, Bundle]:
        current = self._current(name)
        if (found := self._lease_known(name, current, stack)) is not None:
            return found
        with self._opening:
            current = self._current(name)
            if (found := self._lease_known(name, current, stack)) is not None:
                return found
            opened = self._open_version(name, current)
            with self._lock:
                if (before := self._open.pop(name, None)) is not None:
                    before.served.close()
                while len(self._open) >= _MOST_OPEN:
                    self._open.popitem(last=False)[1].served.close()
                self._open[name] = opened
                return opened, stack.enter_context(opened.served.lease())

    def _lease_known(self, name: RefName, current: Current, stack: ExitStack) -> tuple[_OpenRef, Bundle] | None:
        with self._lock:
            opened = self._open.get(name)
            if opened is None or opened.current != current:
                return None
            self._open.move_to_end(name)
            return opened, stack.enter_context(opened.served.lease())

    def _current(self, name: RefName) -> Current:
        current = read_ref(self._root, name)
        if current is None:
            raise InvalidArgumentError(
                f"ref: {present.printable(name.ref)} is not indexed any more", suggestion="leave it out"
            )
        return current

    def _open_version(self, name: RefName, current: Current) -> _OpenRef:
        while True:
            try:
                bundle = Bundle.open_version(self._root, current, self._settings, channels=self._channels)
                break
            except CodequarryError:
                # As with CURRENT: it may have been replaced meanwhile.
                before, current = current, self._current(name)
                if before == current:
                    raise
        try:
            if bundle.manifest.stack is not None:
                verify(bundle.paths, bundle.manifest, deep=True)
        except BaseException as error:
            bundle.close()
            if isinstance(error, OSError):
                raise UnavailableError(
                    f"the version of {present.printable(name.ref)} cannot be read: {error.strerror}",
                    suggestion="check the disk, or index again",
                ) from error
            raise
        bundle.ref = name.ref
        return _OpenRef(current, Served(bundle), self._files(name))

    def _files(self, name: RefName) -> LocalFiles | None:
        if self.tree is None:
            return None
        folders = local_folders(self._root.path)
        folders.pop(name.repository, None)
        with suppress(UnavailableError):
            place = read_ref_places(self._root.path).get(name.file_name, {})
            if place.get("path") and not place.get("ref"):
                folders[name.repository] = Path(str(place["path"]))
        return LocalFiles(folders)


def served_labels(root: Path) -> dict[str, str]:
    """Return the ref or the branch of what CURRENT holds, by repository.

    Args:
        root: Bundle root.

    Returns:
        Labels, as far as they are known on this machine or in the manifest.
    """
    labels: dict[str, str] = {}
    with suppress(CodequarryError):
        labels |= {name: str(place.get("branch") or "") for name, place in read_places(root).items()}
    with suppress(CodequarryError):
        bundle_root = BundleRoot(root)
        manifest = read_manifest(bundle_root.version(bundle_root.read_current().version))
        labels = {each.name: each.ref or labels.get(each.name, "") for each in manifest.sources}
    return {name: label for name, label in labels.items() if label}


def is_commit(ref: str) -> bool:
    """Return whether a ref has the form of a commit id, which `fetch` compares with what is indexed."""
    return len(ref) >= 7 and set(ref) <= _COMMIT_DIGITS

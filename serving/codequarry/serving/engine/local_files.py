"""Files of repositories on this machine, compared with what was indexed of them.

For clients that work on the same files as the index: an answer says where the lines that it names may have moved. Only
files that an answer names are looked at, and nothing of them is told but that they differ.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, Self, TypeVar

from pydantic import BaseModel

from codequarry.schemas.bundle.manifest import Manifest
from codequarry.schemas.encodings import UNKNOWN, UTF_8
from codequarry.schemas.times import parse_time
from codequarry.schemas.trust.git_head import head_commit_of
from codequarry.schemas.trust.privileges import is_inside
from codequarry.schemas.trust.source_places import local_folders
from codequarry.schemas.wire.health import SourceHead
from codequarry.schemas.wire.search import OnDisk
from codequarry.serving.catalog import present
from codequarry.serving.version.open import Bundle

AnswerT = TypeVar("AnswerT", bound=BaseModel)

_REMEDY = "`codequarry index` reads them again"
_MOST_BYTES = 8 << 20
"""Larger files are compared by size and time alone."""
_MOST_NAMED = 3
_REMEMBERED = 4_096
_FEW_FILES = 20_000
"""Up to so many files of a version are read at once, which takes no longer than reading ten of them."""


class _Indexed(NamedTuple):
    """A file as it was indexed."""

    size_bytes: int
    sha256: str
    encoding: str
    at_ns: int
    """Time of the version, nanoseconds since 1970."""


class LocalFiles:
    """Comparison of files on disk with the versions that are served. Safe to share between threads.

    Args:
        folders: Folders of repositories by name. Files of others are not looked at.
        root: Bundle root whose folders are read again for each version; None where they stay.
    """

    def __init__(self, folders: Mapping[str, Path], root: Path | None = None) -> None:
        self._root = root
        self._folders = _resolved(folders)
        self._lock = Lock()
        self._folders_of: dict[str, str] = {}
        self._version = ""
        self._indexed: dict[str, _Indexed | None] = {}
        self._digests: OrderedDict[tuple[str, int, int, int], str] = OrderedDict()

    @classmethod
    def of(cls, root: Path) -> Self:
        """Compare with the folders that ``codequarry index`` read for a bundle root on this machine."""
        return cls(local_folders(root), root)

    def mark(self, answer: AnswerT, bundle: Bundle) -> AnswerT:
        """Return an answer that says which of its files differ on disk from what was indexed.

        Args:
            answer: Answer of any tool.
            bundle: Version that it was computed from.

        Returns:
            The answer, with ``on_disk`` at its places and a sentence in ``limits``; unchanged where nothing differs.
        """
        self._follow(bundle)
        states = self.states(_uris(answer), bundle) if self._folders else {}
        return answer.model_copy(update=_updates(answer, states)) if states else answer

    def states(self, uris: Iterable[str], bundle: Bundle) -> dict[str, OnDisk]:
        """Return the files that differ from what was indexed.

        Args:
            uris: ``repository/path`` of files.
            bundle: Version that indexed them.

        Returns:
            What happened to each file that differs.
        """
        asked = [uri for uri in dict.fromkeys(uris) if uri.partition("/")[0] in self._folders]
        facts = self._facts(asked, bundle)
        return {uri: state for uri in asked if uri in facts and (state := self._state(uri, facts[uri])) is not None}

    def heads(self, bundle: Bundle) -> list[SourceHead]:
        """Return the commit that each repository was indexed at, and the one that its work tree is at now.

        Args:
            bundle: Version that indexed them.

        Returns:
            Repositories on this machine that were read as they are and have a commit.
        """
        self._follow(bundle)
        return source_heads(bundle.manifest, self._folders)

    def _follow(self, bundle: Bundle) -> None:
        """Forget what was read for another version; its repositories may lie elsewhere, or be others."""
        version = bundle.manifest.version
        with self._lock:
            if version == self._version and self._folders:
                return
            if version != self._version:
                self._version, self._indexed = version, {}
            if self._root is not None:
                self._folders, self._folders_of = _resolved(local_folders(self._root)), {}

    def _facts(self, uris: list[str], bundle: Bundle) -> dict[str, _Indexed]:
        """Return the indexed files among these, read from the catalog once for each version."""
        self._follow(bundle)
        known = self._indexed
        if missing := [uri for uri in uris if uri not in known]:
            # The manifest has whole seconds: what was written within that one was there before.
            at_ns = int(parse_time(bundle.manifest.created).timestamp() + 1) * 1_000_000_000
            few = len(bundle.directory.paths) <= _FEW_FILES
            facts = bundle.catalog.facts_of_files(None if few else missing).values()
            read = {uri: _Indexed(size, sha256, encoding, at_ns) for uri, size, sha256, encoding in facts}
            known.update(dict.fromkeys(missing) | read)
        return {uri: indexed for uri in uris if (indexed := known.get(uri)) is not None}

    def _state(self, uri: str, indexed: _Indexed) -> OnDisk | None:
        repo, _, path = uri.partition("/")
        file = self._place_of(repo, path)
        if not file:
            return None
        try:
            status = os.lstat(file)
        except (FileNotFoundError, NotADirectoryError):
            # A repository that is gone tells nothing of its files.
            return "deleted" if self._folders[repo].is_dir() else None
        except OSError:
            return None
        if stat.S_ISLNK(status.st_mode):
            return None
        if not stat.S_ISREG(status.st_mode):
            return "changed_since_index"
        if self._digest(file, status) == indexed.sha256:
            return None
        as_it_is = indexed.encoding in (UTF_8, UNKNOWN)
        # Bytes that were indexed may differ from the file's: secrets are redacted, other encodings converted.
        differs = (as_it_is and status.st_size != indexed.size_bytes) or status.st_mtime_ns > indexed.at_ns
        return "changed_since_index" if differs else None

    def _place_of(self, repo: str, path: str) -> str:
        """Return the place of a file; "" when its folder is a link out of the repository."""
        folder = self._folders[repo]
        parent, _, name = path.rpartition("/")
        key = f"{repo}/{parent}"
        real = self._folders_of.get(key)
        if real is None:
            real = os.path.realpath(folder / parent)
            real = real if is_inside(Path(real), folder) else ""
            if len(self._folders_of) < _REMEMBERED:
                self._folders_of[key] = real
        return f"{real}/{name}" if real and name not in ("", ".", "..") else ""

    def _digest(self, file: str, status: os.stat_result) -> str:
        """Return the sha256 of a file, read again when its size or time changes; "" when it cannot be read."""
        key = (file, status.st_ino, status.st_size, status.st_mtime_ns)
        with self._lock:
            known = self._digests.get(key)
        if known is not None or status.st_size > _MOST_BYTES:
            return known or ""
        try:
            digest = read_digest(file)
        except OSError:
            return ""
        with self._lock:
            self._digests[key] = digest
            while len(self._digests) > _REMEMBERED:
                self._digests.popitem(last=False)
        return digest


def source_heads(manifest: Manifest, folders: Mapping[str, Path]) -> list[SourceHead]:
    """Return the commit that each repository was indexed at, and the one that its work tree is at now.

    Args:
        manifest: Manifest of the version that indexed them.
        folders: Folders of repositories on this machine, by name.

    Returns:
        Repositories that were read as they are, and that have a commit then or now.
    """
    return [
        SourceHead(name=source.name, indexed=source.revision, head=head)
        for source in manifest.sources
        if (folder := folders.get(source.name)) is not None and not source.ref and (head := head_commit_of(folder))
    ]


def _resolved(folders: Mapping[str, Path]) -> dict[str, Path]:
    return {name: Path(os.path.realpath(folder)) for name, folder in folders.items()}


def read_digest(file: str) -> str:
    """Return the sha256 in hex of the first megabytes of a file; raises OSError where it cannot be read."""
    with open(file, "rb") as stream:
        return hashlib.sha256(stream.read(_MOST_BYTES + 1)).hexdigest()


def _uris(answer: BaseModel) -> Iterator[str]:
    """Yield ``repository/path`` of every place that an answer names."""
    for name in ("results", "objects"):
        for place in getattr(answer, name, ()):
            yield _uri(place)
    if (one := getattr(answer, "one", None)) is not None:
        yield _uri(one)


def _uri(place: Any) -> str:
    return str(getattr(getattr(place, "metadata", None) or place, "uri", ""))


def _updates(answer: BaseModel, states: Mapping[str, OnDisk]) -> dict[str, Any]:
    """Return the fields of an answer that change because files differ."""
    updates: dict[str, Any] = {
        name: [_mark(place, states) for place in getattr(answer, name)]
        for name in ("results", "objects")
        if getattr(answer, name, None)
    }
    if (one := getattr(answer, "one", None)) is not None and (state := states.get(_uri(one))) is not None:
        updates["one"] = _mark(one, states)
        updates["metadata"] = {**getattr(answer, "metadata", {}), "on_disk": state}
    limits = getattr(answer, "limits", None)
    if isinstance(limits, list):
        updates["limits"] = [*limits, _sentence(states)]
    return updates


def _mark(place: Any, states: Mapping[str, OnDisk]) -> Any:
    """Return a place with its state; places are frozen."""
    state = states.get(_uri(place))
    if state is None:
        return place
    metadata = getattr(place, "metadata", None)
    if metadata is None:
        return place.model_copy(update={"on_disk": state})
    return place.model_copy(update={"metadata": metadata.model_copy(update={"on_disk": state})})


def _sentence(states: Mapping[str, OnDisk]) -> str:
    """Return a sentence about the files that differ.

    >>> _sentence({"app/a.py": "changed_since_index", "app/b.py": "deleted"})
    'changed on disk since it was indexed: app/a.py; deleted: app/b.py; `codequarry index` reads them again'
    """
    changed = [uri for uri, state in states.items() if state == "changed_since_index"]
    deleted = [uri for uri, state in states.items() if state == "deleted"]
    parts: list[str] = []
    if changed:
        many = "it was" if len(changed) == 1 else "they were"
        parts.append(f"changed on disk since {many} indexed: {_list_names(changed)}")
    if deleted:
        parts.append(f"deleted: {_list_names(deleted)}")
    return "; ".join([*parts, _REMEDY])


def _list_names(uris: list[str]) -> str:
    more = len(uris) - _MOST_NAMED
    return ", ".join(map(present.printable, uris[:_MOST_NAMED])) + (f" and {more} more" if more > 0 else "")

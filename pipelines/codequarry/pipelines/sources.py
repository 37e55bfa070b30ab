"""From a configured repository to the list of paths to look at."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from codequarry.pipelines.git import HeadEntry, read_commit, read_work_tree, resolve_ref
from codequarry.pipelines.git_remote import fetch_commit
from codequarry.schemas.errors import InvalidArgumentError, SourceError
from codequarry.schemas.git_urls import parse_git_url
from codequarry.schemas.layout import BundleRoot
from codequarry.schemas.settings import RepositorySettings, Settings

_NEVER_ENTERED = {".git", ".hg", ".svn", ".codequarry"}


@dataclass(frozen=True, slots=True)
class Source:
    """A repository or plain directory, listed but not yet read."""

    name: str
    root: Path
    commit: str
    """Commit id; "" for a plain directory."""
    head: dict[bytes, HeadEntry]
    """What that commit holds, by path; empty for a plain directory."""
    paths: tuple[bytes, ...]
    """Paths relative to the root, as raw bytes, sorted; a trailing '/' marks a nested repository."""
    from_commit: bool = False
    """True when files are those of the commit, False when they are those on disk."""
    unchecked: frozenset[bytes] = frozenset()
    """Paths of the commit that a sparse checkout leaves out on purpose."""


def named(repositories: tuple[RepositorySettings, ...]) -> dict[str, RepositorySettings]:
    """Repositories by the name that ids and URLs use: the given one, else the folder's.

    Raises InvalidArgumentError: two share a name, or a folder's name cannot be one.
    """
    found: dict[str, RepositorySettings] = {}
    for repository in repositories:
        full = repository.model_copy(update={"name": _usable(repository.name or _own_name(repository), repository)})
        if full.name in found:
            raise InvalidArgumentError(
                f"two repositories are named {full.name!r}: {found[full.name].place} and {full.place}",
                suggestion="name one of them, e.g. `codequarry index other=PATH`",
            )
        found[full.name] = full
    return found


def _own_name(repository: RepositorySettings) -> str:
    if repository.path is None:
        return parse_git_url(repository.url).name
    return os.path.basename(os.path.realpath(repository.path))


def _usable(name: str, repository: RepositorySettings) -> str:
    cleaned = "".join(char if char.isascii() and (char.isalnum() or char in "._-") else "-" for char in name)
    cleaned = cleaned.lstrip("._-")[:100]
    if not cleaned:
        raise InvalidArgumentError(
            f"no repository name can be made of {repository.place!r}",
            suggestion="name it, e.g. `codequarry index name=PATH`",
        )
    return cleaned


def open_source(repository: RepositorySettings, settings: Settings) -> Source:
    """List a repository of the settings, fetching it into the store first when it is a URL.

    Raises SourceError: see ``list_source``; or the URL cannot be fetched, or has no such ref.
    """
    if repository.url:
        fetched = fetch_commit(repository.url, repository.ref, settings.paths.store)
        return _from_commit(repository.name, fetched.repository, fetched.commit)
    root = BundleRoot(settings.bundle.root)
    own = [settings.paths.store, settings.paths.work, root.versions, root.current, root.lock]
    return list_source(repository, own)


def list_source(repository: RepositorySettings, own: Iterable[Path] = ()) -> Source:
    """List a local repository's paths: by git where there is a work tree, else by walking the directory.

    With a ref the paths are those of its commit, and no work tree is needed or looked at.

    own: files and folders, resolved, that codequarry itself writes: never listed, or each run would index the last one.

    Raises SourceError: the path is missing, is no directory, cannot be listed, or git refuses it or its ref.
    """
    root = _folder(repository)
    if repository.ref:
        return _from_commit(repository.name, root, resolve_ref(root, repository.ref))
    tree = read_work_tree(root)
    if tree is not None and tree.paths:
        paths = _without(own, root, tree.paths)
        return Source(repository.name, root, tree.commit, tree.head, paths, unchecked=tree.unchecked)
    # A folder that git ignores (site-packages inside a checkout, say) was named on purpose: take it as it lies.
    return Source(repository.name, root, "", {}, _without(own, root, tuple(sorted(_walk(root)))))


def _folder(repository: RepositorySettings) -> Path:
    root = repository.path
    assert root is not None
    try:
        mode = root.stat().st_mode
    except FileNotFoundError:
        raise SourceError(
            f"{root} does not exist", suggestion="check the path; it must be a repository or a directory"
        ) from None
    except OSError as error:
        raise SourceError(f"{root} cannot be read: {error.strerror}", suggestion="check the path") from error
    if not stat.S_ISDIR(mode):
        raise SourceError(f"{root} is a file, expected a directory", suggestion=f"index its folder: {root.parent}")
    return root.resolve()


def _from_commit(name: str, root: Path, commit: str) -> Source:
    entries = read_commit(root, commit)
    return Source(name, root, commit, entries, tuple(sorted(entries)), from_commit=True)


def _without(own: Iterable[Path], root: Path, paths: tuple[bytes, ...]) -> tuple[bytes, ...]:
    inside = [os.fsencode(path.relative_to(root)) for path in own if root in path.parents]
    if not inside:
        return paths
    below = tuple(path + b"/" for path in inside)
    return tuple(path for path in paths if path not in inside and not path.startswith(below))


def _walk(root: Path) -> Iterator[bytes]:
    """Files, links, and the folders that cannot be listed."""
    base = os.fsencode(root)
    refused: list[bytes] = []

    def refuse(error: OSError) -> None:
        if os.fsencode(error.filename or "") == base:
            raise SourceError(f"{root} cannot be listed: {error.strerror}", suggestion="check its permissions")
        refused.append(os.path.relpath(os.fsencode(error.filename), base))

    for folder, folders, files in os.walk(base, onerror=refuse, followlinks=False):
        folders[:] = sorted(name for name in folders if os.fsdecode(name) not in _NEVER_ENTERED)
        for name in files:
            yield os.path.relpath(os.path.join(folder, name), base)
        for name in folders:
            if os.path.islink(os.path.join(folder, name)):
                yield os.path.relpath(os.path.join(folder, name), base)
    yield from refused

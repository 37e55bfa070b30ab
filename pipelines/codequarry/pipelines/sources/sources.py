"""The configured repositories: the listing of their paths, and their current commits, asked without fetching."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from codequarry.pipelines.git.listing import Listing
from codequarry.pipelines.git.remote import fetch_commit, remote_head
from codequarry.pipelines.git.trees import LIMITS, HeadEntry, head_commit, read_commit, read_work_tree, resolve_ref
from codequarry.pipelines.sources.beneath import Beneath
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.errors import CodequarryError, InvalidArgumentError, SourceError
from codequarry.schemas.git_urls import parse_git_url
from codequarry.schemas.settings.load import RepositorySettings, Settings
from codequarry.schemas.settings.sources import LimitsSettings

_NEVER_ENTERED = {".git", ".hg", ".svn", ".codequarry"}


@dataclass(frozen=True, slots=True)
class Source:
    """A repository or plain directory, listed but not yet read."""

    name: str
    root: Path
    commit: str
    """Commit id; "" for a plain directory."""
    head: Mapping[bytes, HeadEntry]
    """Entries of that commit, by path; empty for a plain directory."""
    paths: tuple[bytes, ...]
    """Paths relative to the root, as raw bytes, sorted; a trailing '/' marks a nested repository."""
    from_commit: bool = False
    """True when files are read from the commit, False when they are read from disk."""
    unborn: bool = False
    """True for a git work tree without commits yet."""
    unchecked: frozenset[bytes] = frozenset()
    """Paths of the commit that a sparse checkout leaves out on purpose."""
    unwatched: frozenset[bytes] = frozenset()
    """Paths whose changes git was told not to look for."""


def repositories_by_name(repositories: tuple[RepositorySettings, ...]) -> dict[str, RepositorySettings]:
    """Return repositories by the name that ids and URLs use: the given one, else the folder's.

    Args:
        repositories: Repositories of the settings.

    Returns:
        Repositories with names, by name.

    Raises:
        InvalidArgumentError: Two share a name, or no name can be made of a folder's.
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


def repositories_to_index(settings: Settings) -> dict[str, RepositorySettings]:
    """Return the repositories of the settings, of which there is one at least; raises as `repositories_by_name`."""
    repositories = repositories_by_name(settings.sources.repositories)
    if not repositories:
        raise InvalidArgumentError(
            "no repository to index", suggestion="give a path, or list [[sources.repositories]] in the settings file"
        )
    return repositories


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

    Args:
        repository: Repository to list.
        settings: Settings of the run.

    Returns:
        The listed source.

    Raises:
        SourceError: As `list_source` does; or the URL cannot be fetched, or has no such ref.
    """
    if repository.url:
        fetched = fetch_commit(repository.url, repository.ref, settings.paths.store)
        return _from_commit(repository, fetched.repository, fetched.commit, settings.limits)
    root = BundleRoot(settings.bundle.root)
    own = [settings.paths.store, settings.paths.work, root.versions, root.current, root.lock]
    return list_source(repository, own, settings.limits)


def list_source(repository: RepositorySettings, own: Iterable[Path] = (), limits: LimitsSettings = LIMITS) -> Source:
    """List a local repository's paths: by git where there is a work tree, else by walking the directory.

    With a ref the paths are those of its commit, and no work tree is needed or looked at.

    Args:
        repository: Repository with a local path.
        own: Files and folders, resolved, that codequarry itself writes: never listed, or each run would index the last
            one.
        limits: Limits of the listing.

    Returns:
        The listed source.

    Raises:
        SourceError: The path is missing, is no directory, cannot be listed, or git refuses it or its ref.
        SourceLimitError: The repository has more than the limits allow.
    """
    root = _folder(repository)
    if repository.ref:
        return _from_commit(repository, root, resolve_ref(root, repository.ref), limits)
    place = _called(repository)
    tree = read_work_tree(root, limits, place)
    if tree is not None and tree.paths:
        paths = _without(own, root, tree.paths)
        return Source(
            repository.name, root, tree.commit, tree.head, paths,
            unborn=not tree.commit, unchecked=tree.unchecked, unwatched=tree.unwatched,
        )  # fmt: skip
    # A folder that git ignores (site-packages inside a checkout, say) was named on purpose: list all its files.
    paths = tuple(sorted(_walk(root, Listing(place, limits))))
    return Source(repository.name, root, "", {}, _without(own, root, paths))


def _folder(repository: RepositorySettings) -> Path:
    root = repository.path
    assert root is not None
    try:
        mode = root.stat().st_mode
    except FileNotFoundError:
        raise SourceError(
            f"repository {_name_of(repository)!r}: {root} does not exist",
            suggestion="check the path; it must be a repository or a directory",
        ) from None
    except OSError as error:
        raise SourceError(
            f"repository {_name_of(repository)!r}: {root} cannot be read: {error.strerror}", suggestion="check the path"
        ) from error
    if not stat.S_ISDIR(mode):
        raise SourceError(
            f"repository {_name_of(repository)!r}: {root} is a file, expected a directory",
            suggestion=f"index its folder: {root.parent}",
        )
    return root.resolve()


def _name_of(repository: RepositorySettings) -> str:
    return repository.name or _own_name(repository)


def _from_commit(repository: RepositorySettings, root: Path, commit: str, limits: LimitsSettings) -> Source:
    entries = read_commit(root, commit, limits, _called(repository))
    return Source(repository.name, root, commit, entries, tuple(sorted(entries)), from_commit=True)


def _called(repository: RepositorySettings) -> str:
    """Return the name of a repository in messages."""
    return f"{repository.name} ({repository.place})"


def _without(own: Iterable[Path], root: Path, paths: tuple[bytes, ...]) -> tuple[bytes, ...]:
    inside = [os.fsencode(path.relative_to(root)) for path in own if root in path.parents]
    if not inside:
        return paths
    below = tuple(path + b"/" for path in inside)
    return tuple(path for path in paths if path not in inside and not path.startswith(below))


def _walk(root: Path, listing: Listing) -> Iterator[bytes]:
    """Yield files, links, and the folders that cannot be listed."""
    with Beneath(os.fsencode(root)) as tree:
        folders = [b""]
        while folders:
            folder = folders.pop()
            try:
                entries = list(_list_entries(tree, folder, listing))
            except OSError as error:
                if not folder:
                    message = f"{root} cannot be listed: {error.strerror}"
                    raise SourceError(message, suggestion="check its permissions") from error
                yield folder
                continue
            for path, is_folder in entries:
                if is_folder:
                    folders.append(path)
                else:
                    yield path


def _list_entries(tree: Beneath, folder: bytes, listing: Listing) -> Iterator[tuple[bytes, bool]]:
    """Yield (path, True for a folder) of the entries of a folder, without folders that are never entered."""
    for name, is_folder in tree.entries(folder):
        if not (is_folder and os.fsdecode(name) in _NEVER_ENTERED):
            path = folder + b"/" + name if folder else name
            listing.add(path)
            yield path, is_folder


ASK_TIMEOUT_S = 20.0
"""Timeout of one remote."""
_ALL_TIMEOUT_S = 45.0
"""Timeout of all repositories: Dagster gives a sensor a minute."""
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Heads:
    """Answers of repositories."""

    commits: dict[str, str]
    """Commit by name of the repository; "" for a folder without git."""
    problems: dict[str, str]
    """Error message of each repository without an answer, by name."""


def read_heads(repositories: Iterable[RepositorySettings], folder: Path) -> Heads:
    """Ask every repository for the commit a run would read now, several at once.

    Args:
        repositories: Repositories as `named` returns them.
        folder: Any folder that exists, to start git in.

    Returns:
        Commits and problems by name.
    """
    commits: dict[str, str] = {}
    problems: dict[str, str] = {}
    pool = ThreadPoolExecutor(_AT_ONCE)
    try:
        asked = {pool.submit(_head, each, folder): each.name for each in repositories}
        done, late = wait(asked, timeout=_ALL_TIMEOUT_S)
        for each in done:
            error = each.exception()
            if error is None:
                commits[asked[each]] = each.result()
            elif isinstance(error, CodequarryError):
                problems[asked[each]] = error.message
            else:
                raise error
        problems |= {asked[each]: f"there was no answer in {_ALL_TIMEOUT_S:g} s" for each in late}
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    return Heads(commits, problems)


def _head(repository: RepositorySettings, folder: Path) -> str:
    if repository.url:
        return remote_head(repository.url, repository.ref, folder, ASK_TIMEOUT_S)
    assert repository.path is not None
    if not repository.path.is_dir():
        raise SourceError(f"{repository.path} does not exist", suggestion="check the path")
    return resolve_ref(repository.path, repository.ref) if repository.ref else head_commit(repository.path)

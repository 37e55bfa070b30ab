"""From a configured repository to the list of paths to look at."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from codequarry.pipelines.git import HeadEntry, read_work_tree
from codequarry.schemas.errors import InvalidArgumentError, SourceError
from codequarry.schemas.settings import RepositorySettings

_NEVER_ENTERED = {".git", ".hg", ".svn", ".codequarry"}


@dataclass(frozen=True, slots=True)
class Source:
    """A repository or plain directory, listed but not yet read."""

    name: str
    root: Path
    commit: str
    """Commit id of HEAD; "" for a plain directory."""
    head: dict[bytes, HeadEntry]
    """What HEAD holds, by path; empty for a plain directory."""
    paths: tuple[bytes, ...]
    """Paths relative to the root, as raw bytes, sorted; a trailing '/' marks a nested repository."""


def named(repositories: tuple[RepositorySettings, ...]) -> dict[str, RepositorySettings]:
    """Repositories by the name that ids and URLs use: the given one, else the folder's.

    Raises InvalidArgumentError: two share a name, or a folder's name cannot be one.
    """
    found: dict[str, RepositorySettings] = {}
    for repository in repositories:
        name = repository.name or os.path.basename(os.path.realpath(repository.path))
        full = RepositorySettings.model_validate({"path": repository.path, "name": _usable(name, repository.path)})
        if full.name in found:
            raise InvalidArgumentError(
                f"two repositories are named {full.name!r}: {found[full.name].path} and {full.path}",
                suggestion="name one of them, e.g. `codequarry index other=PATH`",
            )
        found[full.name] = full
    return found


def _usable(name: str, path: Path) -> str:
    cleaned = "".join(char if char.isascii() and (char.isalnum() or char in "._-") else "-" for char in name)
    cleaned = cleaned.lstrip("._-")[:100]
    if not cleaned:
        raise InvalidArgumentError(
            f"no repository name can be made of {str(path)!r}", suggestion="name it, e.g. `codequarry index name=PATH`"
        )
    return cleaned


def list_source(repository: RepositorySettings, own: Iterable[Path] = ()) -> Source:
    """List a repository's paths: by git where there is a work tree, else by walking the directory.

    own: files and folders, resolved, that codequarry itself writes: never listed, or each run would index the last one.

    Raises SourceError: the path is missing, is no directory, cannot be listed, or git refuses it.
    """
    root = repository.path
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
    root = root.resolve()
    tree = read_work_tree(root)
    if tree is not None and tree.paths:
        return Source(repository.name, root, tree.commit, tree.head, _without(own, root, tree.paths))
    # A folder that git ignores (site-packages inside a checkout, say) was named on purpose: take it as it lies.
    return Source(repository.name, root, "", {}, _without(own, root, tuple(sorted(_walk(root)))))


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

"""Further refs of the repositories that a run indexes: those asked for, and those that stay."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from codequarry.pipelines.sources.earlier import remembered_repository
from codequarry.pipelines.sources.sources import repositories_by_name
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.bundle.refs import RefName, list_refs, ref_file
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.git_urls import check_ref
from codequarry.schemas.settings.load import RepositorySettings, Settings
from codequarry.schemas.trust.git_head import head_branch_of, main_work_tree
from codequarry.schemas.trust.git_index import git_top
from codequarry.schemas.trust.source_places import read_ref_places, remember_ref_places


@dataclass(frozen=True, slots=True)
class FurtherRef:
    """A ref that gets a version of its own."""

    name: RefName
    repository: RepositorySettings
    """The repository at that ref, or its work tree."""


@dataclass(frozen=True, slots=True)
class RefPlan:
    """Further refs of a run."""

    refs: tuple[FurtherRef, ...]
    """Those to index."""
    leaving: dict[RefName, str]
    """Those that leave, and why."""
    kept: dict[RefName, str]
    """Those that stay as they are, and why."""


def split_refs(
    repositories: tuple[RepositorySettings, ...],
) -> tuple[tuple[RepositorySettings, ...], tuple[FurtherRef, ...]]:
    """Separate the first ref of each repository from further ones of the same repository.

    Args:
        repositories: Repositories as they were asked for.

    Returns:
        The repositories, each once; and their further refs.

    Raises:
        InvalidArgumentError: A ref is asked for twice, or has no name.
    """
    first: dict[str, RepositorySettings] = {}
    once: list[RepositorySettings] = []
    further: dict[RefName, FurtherRef] = {}
    for each in repositories:
        ((name, full),) = repositories_by_name((each,)).items()
        before = first.setdefault(name, full)
        if before is full or not _is_another_ref(before, full):
            once.append(each)
            continue
        ref = RefName(name, ref_label(full))
        if not ref.ref or ref.ref == ref_label(before) or ref in further:
            raise InvalidArgumentError(
                f"{full.place} is the same ref of {name!r} as one before it",
                suggestion="give each ref once; the first one is served where no ref is asked for",
            )
        further[ref] = FurtherRef(ref, full)
    return tuple(once), tuple(further.values())


def plan_refs(settings: Settings, asked: Iterable[FurtherRef], *, only: bool) -> RefPlan:
    """Decide which further refs a run indexes.

    Args:
        settings: Settings with the repositories of the run.
        asked: Further refs that were asked for.
        only: No other ref stays.

    Returns:
        The plan: refs that were indexed before stay, as repositories do.
    """
    root = BundleRoot(settings.bundle.root)
    repositories = repositories_by_name(settings.sources.repositories)
    places = read_ref_places(root.path)
    wanted = {each.name: each for each in asked}
    leaving: dict[RefName, str] = {}
    kept: dict[RefName, str] = {}
    for name in list_refs(root):
        if name in wanted:
            continue
        known = remembered_repository(name.repository, places.get(name.file_name, {}))
        if only:
            leaving[name] = "--only leaves it out"
        elif name.repository not in repositories:
            leaving[name] = "its repository leaves"
        elif name.ref == ref_label(repositories[name.repository]):
            leaving[name] = "it is what is served without a ref now"
        elif known is None or (known.path is None and not known.url):
            kept[name] = "its place is not known here"
        elif known.path is not None and not known.path.is_dir():
            leaving[name] = f"{known.path} is not there any more"
        else:
            wanted[name] = FurtherRef(name, known)
    for name in wanted:
        ref_file(root, name)  # raises for a name that no file can have
    return RefPlan(tuple(wanted.values()), leaving, kept)


def remember_refs(root: Path, refs: Iterable[FurtherRef], kept: Iterable[RefName]) -> None:
    """Store the places that further refs were read from.

    Args:
        root: Bundle root.
        refs: Refs that were indexed.
        kept: Refs whose record stays.

    Raises:
        UnavailableError: The record cannot be written.
    """
    before = read_ref_places(root)
    places = {name.file_name: before[name.file_name] for name in kept if name.file_name in before}
    for each in refs:
        path = each.repository.path
        places[each.name.file_name] = {
            "path": os.path.realpath(path) if path is not None else "",
            "url": each.repository.model_dump()["url"],  # without credentials
            "ref": each.repository.ref,
        }
    remember_ref_places(root, places)


def ref_label(repository: RepositorySettings) -> str:
    """Return the name of the ref that a repository is read at.

    Args:
        repository: A repository.

    Returns:
        The ref that was asked for, else the branch of its work tree, else the folder of a linked work tree; "" when
        there is none.
    """
    if repository.ref or repository.path is None:
        return repository.ref
    folder = Path(os.path.realpath(repository.path))
    if branch := head_branch_of(folder):
        return branch
    top = git_top(folder)
    return folder.name if top == folder and main_work_tree(folder) is not None and _is_ref(folder.name) else ""


def _is_ref(name: str) -> bool:
    try:
        check_ref(name)
    except ValueError:
        return False
    return True


def _is_another_ref(one: RepositorySettings, other: RepositorySettings) -> bool:
    """Return whether two repositories are one and the same, at different refs or in different work trees."""
    if one.path is None or other.path is None:
        return one.path is other.path and one.url == other.url and one.ref != other.ref
    ours, theirs = Path(os.path.realpath(one.path)), Path(os.path.realpath(other.path))
    if ours == theirs:
        return one.ref != other.ref
    return (main_work_tree(ours) or ours) == (main_work_tree(theirs) or theirs)

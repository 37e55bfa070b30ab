"""Further refs of repositories, each served from a version of its own.

``refs/<repository>@<ref>`` below the bundle root names a version as CURRENT does. A ref is written as in the path of a
URL. No name of a repository holds ``@``, so the first one ends it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

from codequarry.schemas.bundle.layout import BundleRoot, Current
from codequarry.schemas.errors import CodequarryError, IntegrityError, InvalidArgumentError, NoBundleError
from codequarry.schemas.git_urls import check_ref

_LONGEST_NAME = 200
"""Bytes of a file name that every file system takes, with those of a temporary one."""

_LEFT = ".left-"


class RefName(NamedTuple):
    """A ref of a repository."""

    repository: str
    ref: str

    def __str__(self) -> str:
        return f"{self.repository}#{self.ref}"

    @property
    def file_name(self) -> str:
        """Name of its file.

        >>> RefName("app", "feature/x").file_name
        'app@feature%2Fx'
        """
        return f"{self.repository}@{quote(self.ref, safe='')}"

    @classmethod
    def parse(cls, file_name: str) -> RefName | None:
        """Return the ref of a file; None for the file of no ref.

        >>> RefName.parse("app@feature%2Fx"), RefName.parse(".app.new")
        (RefName(repository='app', ref='feature/x'), None)
        """
        repository, separator, encoded = file_name.partition("@")
        found = cls(repository, unquote(encoded))
        try:
            check_ref(found.ref)
        except ValueError:
            return None
        named = separator and repository and not repository.startswith(".")
        return found if named and found.file_name == file_name else None


def left_file(root: BundleRoot, version: str) -> Path:
    """Return the file that says of a version that it was made for a ref; it belongs to nobody unless a ref names it."""
    return root.refs / f"{_LEFT}{version}"


def left_versions(root: BundleRoot) -> set[str]:
    """Return the versions that were made for refs, and that refs left or did not name yet."""
    try:
        return {name.removeprefix(_LEFT) for name in os.listdir(root.refs) if name.startswith(_LEFT)}
    except OSError:
        return set()


def ref_file(root: BundleRoot, name: RefName) -> Path:
    """Return the file of a ref, which need not be there.

    Args:
        root: Bundle root.
        name: The ref.

    Returns:
        Its path.

    Raises:
        InvalidArgumentError: The name is too long for a file.
    """
    if len(name.file_name) > _LONGEST_NAME:
        raise InvalidArgumentError(
            f"the name of the ref {str(name)[:60]!r}… is too long to be kept",
            suggestion="rename the branch",
        )
    return root.refs / name.file_name


def list_refs(root: BundleRoot) -> list[RefName]:
    """Return the refs that have a file, sorted.

    Args:
        root: Bundle root.

    Returns:
        Refs of all repositories.

    Raises:
        IntegrityError: The folder is a link, or cannot be read.
    """
    if root.refs.is_symlink():
        raise IntegrityError(f"{root.refs} is a symbolic link, expected a folder", suggestion="remove it; index again")
    try:
        names = os.listdir(root.refs)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise IntegrityError(f"{root.refs} cannot be read: {error.strerror}", suggestion="check the folder") from error
    return sorted(filter(None, map(RefName.parse, names)))


def read_ref(root: BundleRoot, name: RefName) -> Current | None:
    """Return the version of a ref.

    Args:
        root: Bundle root.
        name: The ref.

    Returns:
        The version and the sha256 of its manifest; None when there is no such ref.

    Raises:
        IntegrityError: Its file is a link, or not one valid line.
        ResourcesError: It cannot be read now.
    """
    if root.refs.is_symlink() or name not in list_refs(root):
        return None
    try:
        return root.read_pointer(ref_file(root, name))
    except NoBundleError:  # removed meanwhile
        return None


def read_refs(root: BundleRoot) -> dict[RefName, Current]:
    """Return the version of every ref; raises as `list_refs` and `read_ref`."""
    read = {name: read_ref(root, name) for name in list_refs(root)}
    return {name: current for name, current in read.items() if current is not None}


def sound_refs(root: BundleRoot) -> dict[RefName, Current]:
    """Return the version of every ref whose file is sound."""
    found: dict[RefName, Current] = {}
    with suppress(CodequarryError):
        for name in list_refs(root):
            with suppress(CodequarryError):
                if (current := read_ref(root, name)) is not None:
                    found[name] = current
    return found

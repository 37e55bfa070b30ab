"""Paths of indexed files as a shell in the working folder opens them, and the files that such paths mean."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.trust.privileges import is_inside
from codequarry.schemas.trust.source_places import local_folders
from codequarry.schemas.wire.search import BundleInfo

Filters = dict[str, list[str] | str]
"""Filters of a request as `filters_of` returns them."""
_LINES = re.compile(r"(?::\d+(?:[-:]\d+)?)?$")
_WILDCARD = re.compile(r"[*?\[]")


class ShellPaths:
    """Translation between ``repository/path`` and paths on this machine.

    Args:
        folders: Folders of the repositories on this machine, by name. Files of others keep the names of the index.
        here: The working folder.
    """

    def __init__(self, folders: Mapping[str, Path], here: Path) -> None:
        self._folders = {name: os.path.realpath(folder) for name, folder in folders.items() if folder.is_dir()}
        self._here = os.path.realpath(here)

    @classmethod
    def of(cls, root: Path) -> Self:
        """Translate for the repositories of a bundle root, and the working folder of the process."""
        return cls(local_folders(root), Path.cwd())

    def show(self, uri: str, bundle: BundleInfo) -> str:
        """Return the path of a file, relative to the working folder where that is not longer than the whole path.

        Args:
            uri: ``repository/path``.
            bundle: Version that the file is of.

        Returns:
            A path that a shell opens, without control characters; for a repository that is not on this machine, or
            another branch of one, the path as answers show it.
        """
        from codequarry.serving.render.lines import shown_path  # brings NumPy, which the list of commands does without

        repository, _, path = uri.partition("/")
        folder = None if bundle.ref else self._folders.get(repository)
        if folder is None or not path.isprintable():
            return shown_path(uri, bundle)
        whole = os.path.join(folder, path)
        return min(os.path.relpath(whole, self._here), whole, key=len)

    def resolve(self, given: str) -> str:
        """Return the file or folder of the index that a path on this machine means, with its lines.

        Args:
            given: What the user typed: a path, which lines may follow, or anything else.

        Returns:
            ``repository/path`` and the lines; what was given where no file of a repository has that path.
        """
        path, lines = _split_lines(given)
        found = self._find(path)
        return given if found is None else "/".join(part for part in found if part) + lines

    def narrow(self, filters: Filters, paths: Sequence[str]) -> Filters:
        """Return filters that let only these files, folders and globs through as well.

        Args:
            filters: Filters of the options.
            paths: What the user typed; none for no such filter.

        Returns:
            The filters.

        Raises:
            InvalidArgumentError: The paths lie in several repositories, one is neither a path nor a glob, or
                ``--include`` is given too.
        """
        if not paths:
            return filters
        if "include" in filters:
            raise InvalidArgumentError(
                "paths and --include are both given, expected one of them",
                suggestion="write a glob in place of the path: 'src/**/*.py'",
            )
        repositories, include = set[str](), list[str]()
        for path in paths:
            if (found := self._find(path)) is not None:
                repositories.add(found[0])
                below = "/**" if os.path.isdir(os.path.join(self._here, path)) else ""
                include.append(f"./{_literal(found[1])}{below}" if found[1] else "**")
            elif _WILDCARD.search(path):
                include.append(path)
            else:
                raise InvalidArgumentError(
                    f"{path!r} is no file or folder of an indexed repository on this machine",
                    suggestion="put quotes around words that belong together; name what lies elsewhere by --include",
                )
        if len(repositories) > 1:
            raise InvalidArgumentError(
                f"the paths lie in {len(repositories)} repositories: {', '.join(sorted(repositories))}",
                suggestion="ask for the paths of one repository at a time",
            )
        return {**filters, "repos": [*filters.get("repos", ()), *sorted(repositories)], "include": include}

    def _find(self, path: str) -> tuple[str, str] | None:
        """Return the repository that a path lies in and the path inside it; None where it exists in none."""
        whole = os.path.realpath(os.path.join(self._here, path))
        if not path or not os.path.exists(whole):
            return None
        inside = [name for name, folder in self._folders.items() if is_inside(Path(whole), Path(folder))]
        if not inside:
            return None
        name = max(inside, key=lambda each: len(self._folders[each]))
        relative = os.path.relpath(whole, self._folders[name])
        return name, "" if relative == "." else relative


def place_of(given: str, paths: ShellPaths) -> dict[str, Any] | None:
    """Return the place that ``PATH:LINE`` or ``PATH:LINE:COLUMN`` names, in the form of requests: 0-based.

    Args:
        given: What the user typed.
        paths: Translation of paths.

    Returns:
        The fields ``uri``, ``line`` and ``column``; None when it is no such place.
    """
    match = re.fullmatch(r"(.+?):([1-9]\d{0,9})(?::([1-9]\d{0,9}))?", given)
    if match is None:
        return None
    return {"uri": paths.resolve(match[1]), "line": int(match[2]) - 1, "column": int(match[3] or "0") - 1}


def _split_lines(given: str) -> tuple[str, str]:
    """Return a path and the lines behind it.

    >>> _split_lines("src/a.py:10-20"), _split_lines("src/a.py")
    (('src/a.py', ':10-20'), ('src/a.py', ''))
    """
    found = _LINES.search(given)
    at = len(given) if found is None else found.start()
    return given[:at], given[at:]


def _literal(path: str) -> str:
    """Return a glob that matches the path itself.

    >>> _literal("app/[id]/page.tsx")
    'app/[[]id]/page.tsx'
    """
    return re.sub(r"([*?\[])", r"[\1]", path)

"""The work tree that a client works in, compared with the one that is served."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from codequarry.schemas.bundle.refs import RefName
from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.trust.git_head import head_branch_of, main_work_tree
from codequarry.schemas.trust.git_index import git_top
from codequarry.schemas.trust.source_places import read_places
from codequarry.serving.catalog import present


class WorkingTree:
    """Work tree around a folder. It is read at each request: its branch may be another one by then.

    Args:
        root: Bundle root that is served.
        folder: Folder that the client works in.
    """

    def __init__(self, root: Path, folder: Path) -> None:
        self._root = root
        self._top = git_top(Path(os.path.realpath(folder)))

    def other_than_served(self) -> tuple[RefName | None, str]:
        """Return the ref of the work tree when CURRENT holds another one of its repository.

        Returns:
            The ref, and a sentence for answers that come from CURRENT all the same; None and "" when the work tree is
            what CURRENT holds, is of another repository, or is not known.
        """
        top = self._top
        if top is None:
            return None, ""
        try:
            places = read_places(self._root)
        except UnavailableError:
            return None, ""
        main = main_work_tree(top)
        for repository, place in places.items():
            folder = str(place.get("path") or "")
            served = git_top(Path(folder)) if folder else None
            if served is None or (main_work_tree(served) or served) != (main or top):
                continue
            label = head_branch_of(top) or (top.name if main is not None else "")
            held = str(place.get("ref") or place.get("branch") or "")
            same_tree = served == top and not place.get("ref")
            if label == held and (same_tree or place.get("ref")):
                return None, ""
            if not label or not (held or same_tree or main is not None):
                continue
            return RefName(repository, label), _sentence(repository, place, label, linked=main is not None)
        return None, ""


def _sentence(repository: str, place: dict[str, Any], label: str, *, linked: bool) -> str:
    """Return a sentence that says which tree answers, and which command indexes the other one."""
    ref, held = str(place.get("ref") or ""), str(place.get("ref") or place.get("branch") or "")
    arguments = "" if linked or not ref else f" .#{ref} .#{label}"
    of = f"at {held}" if held else "as its main work tree is"
    text = f"this answer is of {repository} {of}, and the working folder is at {label}; `codequarry index{arguments}` "
    return present.printable(f"{text}there indexes it")

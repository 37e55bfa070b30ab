"""Linked work trees whose repository is indexed in its main one: that index answers, and no other is made."""

from __future__ import annotations

import os
from pathlib import Path

from codequarry.schemas.trust.git_head import main_work_tree
from codequarry.schemas.trust.git_index import git_top
from codequarry.schemas.trust.state_home import HOME_FOLDER, state_base

_CURRENT = Path(HOME_FOLDER) / "bundles" / "CURRENT"


def indexed_main_tree(here: Path) -> Path | None:
    """Return the main work tree whose index answers in a linked one.

    Args:
        here: A folder.

    Returns:
        Top of the main work tree; None when the folder is in no linked work tree, when an index was made there already,
        and when the main one has none, or is another user's.
    """
    here = Path(os.path.realpath(here))
    top = git_top(here)
    main = None if top is None else main_work_tree(top)
    if top is None or main is None or not main.is_dir():
        return None
    inside = (here, *(each for each in here.parents if top in (each, *each.parents)))
    if any(os.path.lexists(_index_of(folder)) for folder in inside) or not os.path.lexists(_index_of(main)):
        return None
    own = all(path.lstat().st_uid == os.geteuid() for path in (main, _index_of(main)))
    return main if own else None


def _index_of(folder: Path) -> Path:
    return state_base(folder, writing=False) / _CURRENT

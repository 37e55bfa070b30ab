"""The first index of a repository, made when somebody asks before there is one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from codequarry.pipelines.cli.index import publish
from codequarry.pipelines.cli.progress import console
from codequarry.pipelines.cli.repositories import over
from codequarry.pipelines.sources.earlier import selected
from codequarry.schemas.settings.load import SETTINGS_FILE, load_settings
from codequarry.schemas.trust.git_index import git_top
from codequarry.schemas.trust.privileges import is_inside
from codequarry.schemas.trust.state_folders import nearest_home
from codequarry.schemas.wording import counted
from codequarry.serving.cli.terminal import for_terminal

ASKING = frozenset(
    {"search", "grep", "definition", "references", "relations", "outline", "files", "overview", "explore"}
)
"""Commands that ask about code; the others need no answer at once."""
_PLACES = ("--root", "--settings")


def index_first(arguments: Sequence[str]) -> bool:
    """Index the repository around the current folder, if a command asks about it before any index.

    It is what the settings file there lists, or else the git work tree. Nothing is done for a command that names a
    place with ``--root`` or ``--settings``, outside of a repository, and in a work tree that holds the home folder.

    Args:
        arguments: The command line, without the program.

    Returns:
        Whether a version was published, so that the command can be run again.

    Raises:
        CodequarryError: As ``codequarry index`` does.
    """
    if not arguments or arguments[0] not in ASKING or any(each.split("=", 1)[0] in _PLACES for each in arguments):
        return False
    here = Path.cwd()
    folder = repository_around(here)
    if folder is None:
        return False
    console.print(for_terminal(f"nothing is indexed here yet: indexing {folder} first"), highlight=False)
    os.chdir(folder)
    try:
        settings = load_settings(None)
        listed = settings.sources.repositories
        selection = selected(over(settings, []), listed, whole=bool(listed), only=False)
        report = publish(selection.settings)
    finally:
        os.chdir(here)
    counts = report.manifest.counts
    seconds = sum(report.seconds.values())
    what = f"{counted(counts.files, 'file')}, {counted(counts.chunks, 'chunk')}"
    console.print(f"indexed {what} in {seconds:.0f} s; `codequarry index` brings it up to date\n", highlight=False)
    return True


def repository_to_serve(arguments: Sequence[str]) -> Path | None:
    """Return the repository around the current folder whose first index ``codequarry serve`` makes beside itself.

    Args:
        arguments: The command line, without the program.

    Returns:
        Its folder; None for another command, for one that names a place, and where `index_first` makes no index.
    """
    named = any(each.split("=", 1)[0] in _PLACES for each in arguments)
    return None if arguments[:1] != ["serve"] or named else repository_around(Path.cwd())


def repository_around(here: Path) -> Path | None:
    """Return the folder whose settings or whose git work tree hold a folder.

    Args:
        here: The folder.

    Returns:
        The folder found; None when there is none, or it holds the home folder or is another user's.
    """
    home = nearest_home(here, SETTINGS_FILE)
    if os.path.lexists(home / SETTINGS_FILE):
        return home
    top, user = git_top(here), Path(os.path.realpath(os.path.expanduser("~")))
    # What root put there, such as a mounted checkout, is as trusted as the program itself.
    return None if top is None or is_inside(user, top) or top.stat().st_uid not in (os.geteuid(), 0) else top

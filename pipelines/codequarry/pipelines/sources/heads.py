"""Current commit of each repository, asked without fetching anything."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from codequarry.pipelines.git.remote import remote_head
from codequarry.pipelines.git.trees import head_commit, resolve_ref
from codequarry.schemas.errors import CodequarryError, SourceError
from codequarry.schemas.settings.load import RepositorySettings

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

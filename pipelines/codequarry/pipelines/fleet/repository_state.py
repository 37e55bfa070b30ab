"""State of the repositories of a fleet before anything is built: their heads, and the sizes of new ones."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress

from codequarry.pipelines.sources.sources import Heads, open_source, read_heads
from codequarry.pipelines.store.access import make_folder_for
from codequarry.pipelines.store.workspace import Progress
from codequarry.schemas.fleet.generation import BundleEntry, RepositoryEntry
from codequarry.schemas.languages import language_of
from codequarry.schemas.settings.load import RepositorySettings, Settings

_BYTES_PER_CHUNK = 800
"""Source bytes of a chunk: 790 to 830 in projects of 3 to 9 MB, by the figures of docs/BENCHMARKS.md."""
_ASKED_TOGETHER = 100


def ask_heads(repositories: Iterable[RepositorySettings], settings: Settings, progress: Progress) -> Heads:
    """Ask every repository for its commit; a hundred at a time, as all of one call share a deadline.

    Args:
        repositories: Repositories with names.
        settings: Settings of the run.
        progress: Told of the repositories asked.

    Returns:
        Commits and problems by name.
    """
    wanted, heads = list(repositories), Heads({}, {})
    make_folder_for(settings.fleet.folder, settings.bundle.readable_by)
    for start in range(0, len(wanted), _ASKED_TOGETHER):
        found = read_heads(wanted[start : start + _ASKED_TOGETHER], settings.fleet.folder)
        heads = Heads(heads.commits | found.commits, heads.problems | found.problems)
        progress("asking for heads", len(heads.commits) + len(heads.problems), len(wanted))
    return heads


def estimate_chunks(repository: RepositorySettings, settings: Settings) -> int:
    """Estimate the chunks of a repository that was never indexed, from the bytes of its source files.

    Args:
        repository: The repository, which is fetched first when it is a URL.
        settings: Settings of the run.

    Returns:
        Chunks, 1 at least; too many rather than too few, as generated and ignored files count.

    Raises:
        SourceError: It cannot be listed.
    """
    source = open_source(repository, settings)
    total = 0
    for path in source.paths:
        if language_of(os.fsdecode(path)) is None:
            continue
        size = source.head[path].size if source.from_commit else None
        if size is None:
            with suppress(OSError):
                size = os.stat(os.path.join(os.fsencode(source.root), path), follow_symlinks=False).st_size
        if size is not None and size <= settings.sources.max_file_bytes:
            total += size
    return max(total // _BYTES_PER_CHUNK, 1)


def reason_to_build(
    entry: BundleEntry | None, repositories: Mapping[str, RepositorySettings], heads: Heads, settings: Settings
) -> str:
    """Return why a bundle has to be looked at; "" when nothing can have changed.

    Repositories that were not asked are taken to be as the entry says, and what failed in them stays for later.

    Args:
        entry: Its entry in the current generation; None for a new bundle.
        repositories: Its repositories now, by name.
        heads: Commits of those that were asked.
        settings: Settings of the run.

    Returns:
        The reason, for people.
    """
    if entry is None:
        return "it is new"
    if added := sorted(repositories.keys() - entry.repositories.keys()):
        return f"it gets {', '.join(added)}"
    if lost := sorted(entry.repositories.keys() - repositories.keys()):
        return f"it loses {', '.join(lost)}"
    if entry.settings_sha256 != settings.index_hash():
        return "the settings of its contents changed"
    asked = sorted(repositories.keys() & (heads.commits.keys() | heads.problems.keys()))
    if entry.failed is not None and asked:
        return "its last build failed"
    reasons = (_reason_to_read(repositories[name], entry.repositories[name], heads) for name in asked)
    return next(filter(None, reasons), "")


def _reason_to_read(repository: RepositorySettings, entry: RepositoryEntry, heads: Heads) -> str:
    name = repository.name
    if name in heads.problems:
        return f"{name} does not answer"
    if entry.failed is not None:
        return f"{name} could not be read"
    head = heads.commits[name]
    if head != entry.commit or repository.ref != entry.ref:
        return f"{name} is at {head[:12] or 'no commit'}, was at {entry.commit[:12] or 'none'}"
    # What a work tree holds beside its commit, only its files tell.
    return f"{name} is a work tree, whose files are looked at" if repository.path and not repository.ref else ""

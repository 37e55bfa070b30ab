"""Distance of a version from the work trees on this machine that it was made of."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.errors import CodequarryError
from codequarry.schemas.times import parse_time
from codequarry.schemas.trust.git_head import head_commit_of, written_since
from codequarry.schemas.trust.source_places import local_folders
from codequarry.schemas.wording import counted
from codequarry.serving.files.integrity import read_manifest

CommitsBetween = Callable[[Path, str, str], tuple[int, int] | None]
_SHOWN = 12
_MOST_COMPARED = 10_000
"""Of more files the time alone is compared."""


@dataclass(frozen=True, slots=True)
class Lag:
    """Distance of one repository from its work tree."""

    name: str
    indexed: str
    """Commit that was indexed; "" when there was none."""
    head: str
    """Commit that the work tree is at."""
    commits_behind: int | None
    """Commits that HEAD has and the index lacks; None where nobody counted them."""
    commits_gone: int | None
    """Commits that the index has and HEAD lacks."""
    files_written: int
    """Tracked files that were written or removed since, and are not as they were indexed."""

    @property
    def sentence(self) -> str:
        """The distance, for people."""
        head = f"HEAD is {self.head[:_SHOWN]}"
        parts = [] if self.head == self.indexed else [f"{self._commits()}, {head}" if self._commits() else head]
        if self.files_written:
            parts.append(f"{counted(self.files_written, 'file')} changed since")
        return f"{self.name}: {'; '.join(parts) or 'at HEAD, and no tracked file changed since'}"

    def _commits(self) -> str:
        behind = f"{counted(self.commits_behind, 'commit')} behind" if self.commits_behind else ""
        gone = f"{counted(self.commits_gone, 'commit')} that HEAD no longer has" if self.commits_gone else ""
        return ", ".join(filter(None, (behind, gone)))


def measure_lag(root: BundleRoot, version: str, commits_between: CommitsBetween | None) -> list[Lag]:
    """Measure how far a version is behind the work trees of its repositories.

    Args:
        root: Bundle root.
        version: A whole version below it.
        commits_between: Counts commits; None where no program may be started.

    Returns:
        Repositories on this machine that were read as they are, and that are at a commit.
    """
    manifest = read_manifest(root.version(version))
    # The manifest has whole seconds: what was written within that one was there before.
    at_ns = int(parse_time(manifest.created).timestamp() + 1) * 1_000_000_000
    folders = local_folders(root.path)
    lags: list[Lag] = []
    for source in manifest.sources:
        folder = folders.get(source.name)
        if folder is None or source.ref or not (head := head_commit_of(folder)):
            continue
        counts = None
        if commits_between is not None and source.commit and source.commit != head:
            counts = commits_between(folder, source.commit, head)
        behind, gone = counts or ((0, 0) if source.commit == head else (None, None))
        changed = _count_changed(root, version, source.name, folder, written_since(folder, at_ns))
        lags.append(Lag(source.name, source.commit, head, behind, gone, changed))
    return lags


def _count_changed(root: BundleRoot, version: str, name: str, folder: Path, written: list[str]) -> int:
    """Count the files that are not as they were indexed: a switch of branches, and one back, writes what was there."""
    if not written or len(written) > _MOST_COMPARED:
        return len(written)
    # Slow to load, and seldom needed here.
    from codequarry.serving.engine.local_files import read_digest
    from codequarry.serving.version.open import Bundle

    try:
        with closing(Bundle.open_current(root.path, channels=())) as bundle:
            if bundle.manifest.version != version:
                return len(written)
            facts = bundle.catalog.facts_of_files([f"{name}/{path}" for path in written]).values()
    except CodequarryError:
        return len(written)
    indexed = {each.uri.removeprefix(f"{name}/"): each.sha256 for each in facts}

    def has_changed(path: str) -> bool:
        try:
            return read_digest(str(folder / path)) != indexed.get(path)
        except FileNotFoundError:
            return path in indexed
        except OSError:
            return True

    return sum(map(has_changed, written))

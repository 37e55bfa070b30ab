"""Work folder of a run: paths of the stages' outputs, locks, and atomic replacement of files."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codequarry.pipelines.store.access import make_state_folders
from codequarry.schemas.errors import BusyError, SourceError, UnavailableError
from codequarry.schemas.resources import raise_if_exhausted
from codequarry.schemas.settings.load import Settings
from codequarry.schemas.trust.state_folders import require_own_links
from codequarry.schemas.trust.state_home import HOME_FOLDER

Progress = Callable[[str, int, int], None]
"""Called with (what is being done, units done, units in all)."""


def silent(_what: str, _done: int, _total: int) -> None:
    """Show no progress; a `Progress`."""


@dataclass(frozen=True, slots=True)
class RepositoryWork:
    """Stage outputs of one repository."""

    path: Path

    @property
    def snapshot(self) -> Path:
        return self.path / "snapshot.json"

    @property
    def failure(self) -> Path:
        """File about the last reading, where it failed; absent otherwise."""
        return self.path / "failure.json"

    @property
    def census(self) -> Path:
        return self.path / "census.parquet"

    @property
    def stamps(self) -> Path:
        """Stamps of the files of a folder without git, as of the census."""
        return self.path / "stamps.parquet"

    @property
    def contents(self) -> Path:
        return self.path / "contents.parquet"

    @property
    def parts(self) -> Path:
        """Folders of the parts; see ``parts``."""
        return self.path / "parts"

    @property
    def scip(self) -> Path:
        """Report on each indexer; written after the three tables."""
        return self.path / "scip.json"

    def table(self, name: str) -> Path:
        """Return the file of this repository's rows of a table that is not kept in parts."""
        return self.path / f"{name}.parquet"

    def tables(self, name: str) -> list[Path]:
        """Return the files of this repository's rows of a table, kept in parts or not."""
        return sorted(self.parts.glob(f"*/{name}.parquet")) or [self.table(name)]

    def require(self, path: Path, stage: str) -> Path:
        """Return the path, after checking that its stage has run.

        Args:
            path: Output of the stage.
            stage: Name of the stage, for the message.

        Returns:
            The same path.

        Raises:
            SourceError: The stage has not run.
        """
        if not path.is_file():
            raise SourceError(
                f"{self.path.name}: {path.name} is missing",
                suggestion=f"run the {stage} stage of {self.path.name} first",
            )
        return path


def repository_work(work: Path, name: str) -> RepositoryWork:
    """Return the work folder of a repository, created when missing."""
    folder = work / "repositories" / name
    folder.mkdir(parents=True, exist_ok=True)
    return RepositoryWork(folder)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path that takes the final name when the block ends without an exception.

    Its name is always the same, so that leftovers of a killed run are overwritten; the work folder has one writer.

    Args:
        path: Final path.

    Yields:
        Temporary path to write to.

    Raises:
        UnavailableError: The file cannot be written.
    """
    temporary = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        os.replace(temporary, path)
    except OSError as error:
        raise_if_exhausted(error, f"{path} cannot be written now")
        raise UnavailableError(
            f"{path} cannot be written: {error.strerror or error}",
            suggestion="free disk space or check permissions, then run again",
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def working(settings: Settings) -> Iterator[None]:
    """Lock the work folder for this run, and tell git to ignore its files.

    Args:
        settings: Settings with the paths.

    Raises:
        BusyError: Another run uses the work folder.
        UnavailableError: The work folder cannot be written.
        UntrustedError: Links lead out of the work folder or the store.
    """
    require_own_links([settings.paths.work, settings.paths.store])
    make_state_folders(settings)
    with exclusive(settings.paths.work / ".lock", "indexing"):
        if _units_lock(settings).exists():
            with _locked(_units_lock(settings), fcntl.LOCK_EX):  # units of a run that was killed end within moments
                pass
        hide_home(settings)
        yield


@contextmanager
def in_unit(settings: Settings) -> Iterator[None]:
    """Keep the next run waiting until this unit of the current one has ended, also when the run itself is killed.

    Args:
        settings: Settings with the paths.

    Yields:
        Nothing.
    """
    with _locked(_units_lock(settings), fcntl.LOCK_SH):
        yield


def _units_lock(settings: Settings) -> Path:
    return settings.paths.work / ".units"


@contextmanager
def _locked(lock: Path, how: int) -> Iterator[None]:
    with open(lock, "a", opener=_for_writers) as stream:
        fcntl.flock(stream, how)
        yield


def hide_home(settings: Settings) -> None:
    """Tell git to ignore the folder that holds the work folder, the store and the bundles by default."""
    for folder in (settings.paths.work, settings.paths.store, settings.bundle.root):
        if folder.parent.name == HOME_FOLDER and folder.parent.is_dir():
            ignore = folder.parent / ".gitignore"
            if not ignore.exists():
                with replacing(ignore) as temporary:
                    temporary.write_text("*\n", encoding="ascii")


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write JSON so that readers see the old or the new file."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _for_writers(path: str, flags: int) -> int:
    """Open a lock file that only users who may write it can open: an open file is enough to hold a lock."""
    descriptor = os.open(path, flags, 0o622)
    mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
    if mode & 0o044:
        with suppress(PermissionError):  # another user's
            os.fchmod(descriptor, mode & ~0o044)
    return descriptor


@contextmanager
def exclusive(lock: Path, what: str, *, wait: bool = False) -> Iterator[None]:
    """Hold a lock file for the block; the kernel releases it when the process dies.

    Args:
        lock: Lock file, created when missing.
        what: Description of the work, for the message of BusyError.
        wait: Wait until another holder is done, instead of raising; for work of seconds.

    Raises:
        BusyError: Another process holds the lock.
        UnavailableError: The lock file cannot be made.
    """
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        stream = open(lock, "a", opener=_for_writers)  # noqa: SIM115 - closed below
    except OSError as error:
        raise_if_exhausted(error, f"{lock} cannot be opened now")
        raise UnavailableError(
            f"{lock} cannot be written: {error.strerror}", suggestion="check permissions and disk space"
        ) from error
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise BusyError(
                f"another process is {what} (lock {lock.name})", suggestion="wait for it to finish, then run again"
            ) from None
        yield

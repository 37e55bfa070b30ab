"""Where the stages of a run leave their outputs, and how files appear there whole or not at all."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codequarry.schemas.errors import BusyError, SourceError, UnavailableError
from codequarry.schemas.settings import Settings

HOME_FOLDER = ".codequarry"
Progress = Callable[[str, int, int], None]
"""Called with (what is being done, units done, units in all)."""


def silent(_what: str, _done: int, _total: int) -> None:
    """A Progress that shows nothing."""


@dataclass(frozen=True, slots=True)
class RepositoryWork:
    """Stage outputs of one repository."""

    path: Path

    @property
    def snapshot(self) -> Path:
        return self.path / "snapshot.json"

    @property
    def census(self) -> Path:
        return self.path / "census.parquet"

    @property
    def contents(self) -> Path:
        return self.path / "contents.parquet"

    @property
    def parts(self) -> Path:
        """Folders of the rows that follow from a few files alone; see ``parts``."""
        return self.path / "parts"

    @property
    def scip(self) -> Path:
        """What each indexer did; written after the three tables."""
        return self.path / "scip.json"

    def table(self, name: str) -> Path:
        """This repository's rows of a table that is not kept in parts."""
        return self.path / f"{name}.parquet"

    def tables(self, name: str) -> list[Path]:
        """The files of this repository's rows of a table, whether it is kept in parts or not."""
        return sorted(self.parts.glob(f"*/{name}.parquet")) or [self.table(name)]

    def require(self, path: Path, stage: str) -> Path:
        """The path, when its stage has run. Raises SourceError: it has not."""
        if not path.is_file():
            raise SourceError(
                f"{self.path.name}: {path.name} is missing",
                suggestion=f"run the {stage} stage of {self.path.name} first",
            )
        return path


def repository_work(work: Path, name: str) -> RepositoryWork:
    """The work folder of a repository, created when missing."""
    folder = work / "repositories" / name
    folder.mkdir(parents=True, exist_ok=True)
    return RepositoryWork(folder)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path that takes the final name when the block ends without an exception.

    Its name is always the same, so that what a killed run left is overwritten; the work folder has one writer.

    Raises UnavailableError: the file cannot be written.
    """
    temporary = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        os.replace(temporary, path)
    except OSError as error:
        raise UnavailableError(
            f"{path} cannot be written: {error.strerror or error}",
            suggestion="free disk space or check permissions, then run again",
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def working(settings: Settings) -> Iterator[None]:
    """Be the one run that uses the work folder, whose files git is told to ignore.

    Raises BusyError: another run uses it. UnavailableError: it cannot be written.
    """
    with exclusive(settings.paths.work / ".lock", "indexing"):
        hide_home(settings)
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


@contextmanager
def exclusive(lock: Path, what: str, *, wait: bool = False) -> Iterator[None]:
    """Hold a lock file for the block; the kernel releases it when the process dies.

    wait: until another holder is done, instead of raising; for work of seconds.

    Raises BusyError: another process holds it. UnavailableError: the lock file cannot be made.
    """
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        stream = lock.open("a")
    except OSError as error:
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

"""Repositories whose last reading failed: what is known of the failure, and whether an earlier snapshot stands in.

One repository that cannot be read must not keep the commits of the others back. Its last good snapshot goes on in the
bundle, for a limited time; a repository that was never read is left out.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass

from codequarry.pipelines.store.workspace import RepositoryWork, write_json
from codequarry.schemas.errors import CodequarryError


@dataclass(frozen=True, slots=True)
class FailedReading:
    """The last reading of a repository, which failed."""

    name: str
    message: str
    suggestion: str
    since: float
    """Unix time of the first failure in a row."""
    carried: bool
    """True when an earlier snapshot stands in."""

    @property
    def hours(self) -> float:
        """Hours since the first failure."""
        return max(time.time() - self.since, 0.0) / 3600

    def line(self) -> str:
        """Return one sentence for people."""
        instead = f"its last snapshot goes on, for {self.hours:.1f} hours now" if self.carried else "it is left out"
        return f"{self.name}: {self.message}; {instead}" + (f"; {self.suggestion}" if self.suggestion else "")


def keep_failure(work: RepositoryWork, error: CodequarryError) -> FailedReading:
    """Keep that a repository could not be read.

    Args:
        work: Its work folder.
        error: Why.

    Returns:
        The failure, as of the first one in a row.

    Raises:
        UnavailableError: The file cannot be written.
    """
    before = failed_reading(work)
    failure = FailedReading(
        work.path.name, error.message, error.suggestion, before.since if before is not None else time.time(),
        carried=work.snapshot.is_file() and work.contents.is_file(),
    )  # fmt: skip
    work.path.mkdir(parents=True, exist_ok=True)
    write_json(work.failure, asdict(failure))
    return failure


def forget_failure(work: RepositoryWork) -> None:
    """Forget the failures of a repository that was read."""
    work.failure.unlink(missing_ok=True)


def left_out(work: RepositoryWork) -> FailedReading | None:
    """Return the last reading of a repository if it failed and no earlier snapshot stands in."""
    failure = failed_reading(work)
    return None if failure is None or failure.carried else failure


def failed_reading(work: RepositoryWork) -> FailedReading | None:
    """Return the last reading of a repository if it failed."""
    if not work.failure.is_file():
        return None
    return FailedReading(**json.loads(work.failure.read_text(encoding="utf-8")))

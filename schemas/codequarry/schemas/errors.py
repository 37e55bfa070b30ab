"""Every error codequarry raises on purpose, in one tree.

Each message says what was found, what was expected and what to do; ``suggestion`` holds the last part::

    CodequarryError                  code INTERNAL
    ├── InvalidArgumentError         INVALID_ARGUMENT  (also ValueError)
    │   └── SettingsError            a settings file or an environment override that cannot be used
    ├── NotFoundError                NOT_FOUND         (also LookupError)
    ├── BusyError                    BUSY              every worker is taken; retry
    ├── DeadlineError                DEADLINE          (also TimeoutError)
    └── UnavailableError             UNAVAILABLE
        ├── SourceError              a repository or directory that cannot be read
        │   └── RemoteError          a remote that does not answer; retry
        ├── ScipIndexError           bytes that are no SCIP index
        ├── NoBundleError            nothing published under the bundle root
        ├── IntegrityError           a bundle that is not what its manifest says
        ├── FormatError              a bundle written by a newer or unknown format
        ├── PublishError             staging, verification or the flip failed; CURRENT is unchanged
        └── MissingExtraError        a command needs an optional dependency (also ImportError)
"""

from __future__ import annotations

from typing import Literal

ErrorCode = Literal["INVALID_ARGUMENT", "NOT_FOUND", "BUSY", "DEADLINE", "UNAVAILABLE", "INTERNAL"]


class CodequarryError(Exception):
    """Base of the tree: a message for people, a code and a suggestion for programs."""

    code: ErrorCode = "INTERNAL"
    retryable: bool = False
    exit_code: int = 1

    def __init__(self, message: str, *, suggestion: str = "") -> None:
        # Where only str(error) is shown, a run page or a log, the remedy is shown too.
        super().__init__(f"{message}; {suggestion}" if suggestion else message)
        self.message = message
        self.suggestion = suggestion


class InvalidArgumentError(CodequarryError, ValueError):
    code = "INVALID_ARGUMENT"
    exit_code = 2


class SettingsError(InvalidArgumentError):
    """The settings cannot be used: unknown key, wrong type, unreadable file."""


class NotFoundError(CodequarryError, LookupError):
    code = "NOT_FOUND"


class BusyError(CodequarryError):
    code = "BUSY"
    retryable = True


class DeadlineError(CodequarryError, TimeoutError):
    code = "DEADLINE"
    retryable = True


class UnavailableError(CodequarryError):
    code = "UNAVAILABLE"


class SourceError(UnavailableError):
    """A source is missing, unreadable, empty, or not what it was said to be."""


class RemoteError(SourceError):
    """A remote does not answer, or the connection broke: later it may."""

    retryable = True


class ScipIndexError(UnavailableError):
    """What an indexer left cannot be read as a SCIP index."""


class NoBundleError(UnavailableError):
    """The bundle root holds no published version."""


class IntegrityError(UnavailableError):
    """Bytes, rows or ids differ from what the manifest promises."""


class FormatError(UnavailableError):
    """The bundle's format version is not one this program reads."""


class PublishError(UnavailableError):
    """A version could not be staged, verified or published; CURRENT is as it was."""


class MissingExtraError(UnavailableError, ImportError):
    """An optional dependency is not installed."""

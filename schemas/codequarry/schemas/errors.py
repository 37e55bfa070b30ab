"""Every error codequarry raises on purpose, in one tree.

Each message says what was found, what was expected and what to do; ``suggestion`` holds the last part::

    CodequarryError                  code INTERNAL
    ├── InvalidArgumentError         INVALID_ARGUMENT  (also ValueError)
    │   ├── SettingsError            a settings file or an environment override that cannot be used
    │   └── UntrustedError           settings or state that came with a folder, and that the user does not trust
    ├── NotFoundError                NOT_FOUND         (also LookupError)
    ├── BusyError                    BUSY              every worker is taken; retry
    ├── DeadlineError                DEADLINE          (also TimeoutError)
    └── UnavailableError             UNAVAILABLE
        ├── SourceError              a repository or directory that cannot be read
        │   ├── RemoteError          a remote that does not answer; retry
        │   └── SourceLimitError     a repository that is larger than a limit of the settings
        ├── ScipIndexError           bytes that are no SCIP index
        ├── NoBundleError            nothing published under the bundle root
        ├── StartingError            the first version is being made; retry
        ├── IntegrityError           a bundle that is not what its manifest says
        ├── FormatError              a bundle written by a newer or unknown format
        ├── ResourcesError           no descriptor or memory left to look at it; retry
        ├── ReplicaError             a replica of a fleet that does not answer a router, or not as it should; retry
        ├── EndpointError            a model server that does not answer, or not as it should
        ├── PublishError             staging, verification or the flip failed; CURRENT is unchanged
        │   └── GateError            checks of the staged version failed: the same sources fail again
        └── MissingExtraError        a command needs an optional dependency (also ImportError)
"""

from __future__ import annotations

from typing import Literal

ErrorCode = Literal["INVALID_ARGUMENT", "NOT_FOUND", "BUSY", "DEADLINE", "UNAVAILABLE", "INTERNAL"]


class CodequarryError(Exception):
    """Base of the tree: a message for people, a code and a suggestion for programs."""

    code: ErrorCode = "INTERNAL"
    retryable: bool = False
    exit_code: int = 2
    """Exit code of a command that this error ends; 1 says that nothing was found, or that a check did not pass."""

    def __init__(self, message: str, *, suggestion: str = "") -> None:
        # Where only str(error) is shown, a run page or a log, the remedy is shown too.
        super().__init__(f"{message}; {suggestion}" if suggestion else message)
        self.message = message
        self.suggestion = suggestion


class InvalidArgumentError(CodequarryError, ValueError):
    code = "INVALID_ARGUMENT"


class SettingsError(InvalidArgumentError):
    """The settings cannot be used: unknown key, wrong type, unreadable file."""


class UntrustedError(InvalidArgumentError):
    """A settings file, a state folder or a program that lies in a folder asks for trust that the user did not give."""


class NotFoundError(CodequarryError, LookupError):
    code = "NOT_FOUND"
    exit_code = 1


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


class SourceLimitError(SourceError):
    """A repository exceeds a limit of the settings."""

    def __init__(self, message: str, *, limit: str, suggestion: str = "") -> None:
        """Create the error.

        Args:
            message: Text for people.
            limit: Name of the setting, such as ``limits.entries``; "" when no setting holds the limit.
            suggestion: Remedy, for people.
        """
        super().__init__(message, suggestion=suggestion)
        self.limit = limit


class ScipIndexError(UnavailableError):
    """An indexer's output cannot be read as a SCIP index."""


class NoBundleError(UnavailableError):
    """The bundle root holds no published version."""


class StartingError(UnavailableError):
    """Another process makes the first version; the message says how far it is."""

    retryable = True


class IntegrityError(UnavailableError):
    """Bytes, rows or ids differ from what the manifest promises."""


class FormatError(UnavailableError):
    """The bundle's format version is not one this program reads."""


class ResourcesError(UnavailableError):
    """The process or the machine has no descriptor or memory left; nothing is known of what was to be read."""

    retryable = True


class PublishError(UnavailableError):
    """A version could not be staged, verified or published; CURRENT is as it was."""


class GateError(PublishError):
    """Checks of a staged version failed, so that the same sources and settings would fail again."""


class ReplicaError(UnavailableError):
    """A replica does not answer, or not as it should; the rest of an answer comes from others."""

    retryable = True


class EndpointError(UnavailableError):
    """A model server cannot be reached, refuses, or answers something else; its address is not in the message."""

    def __init__(
        self,
        message: str,
        *,
        suggestion: str = "",
        retryable: bool = False,
        retry_after_s: float = 0.0,
        too_large: bool = False,
    ) -> None:
        """Create the error.

        Args:
            message: Text for people, without the server's address.
            suggestion: Remedy, for people.
            retryable: The same request may succeed later.
            retry_after_s: Seconds after which the server asks to be called again; 0 when it names none.
            too_large: A smaller request may succeed.
        """
        super().__init__(message, suggestion=suggestion)
        self.retryable = retryable
        self.retry_after_s = retry_after_s
        self.too_large = too_large


class MissingExtraError(UnavailableError, ImportError):
    """An optional dependency is not installed."""


def error_of(code: ErrorCode, message: str, suggestion: str) -> CodequarryError:
    """Return the error that another process raised.

    >>> error_of("NOT_FOUND", "there is no such file", "list the files").exit_code
    1

    Args:
        code: Its code.
        message: Its message.
        suggestion: What to do.

    Returns:
        An error of the class that has the code.
    """
    known: dict[ErrorCode, type[CodequarryError]] = {
        "INVALID_ARGUMENT": InvalidArgumentError,
        "NOT_FOUND": NotFoundError,
        "BUSY": BusyError,
        "DEADLINE": DeadlineError,
        "UNAVAILABLE": UnavailableError,
    }
    return known.get(code, CodequarryError)(message, suggestion=suggestion)

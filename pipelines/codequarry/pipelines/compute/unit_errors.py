"""Errors that pass from one process to another as JSON, and are raised there."""

from __future__ import annotations

import builtins
import contextlib
from typing import Any

from codequarry.schemas import errors


def describe_error(error: BaseException, where: str) -> dict[str, Any]:
    """Return an error as a value that JSON can hold, of which `error_of` makes one of its class or of one above it.

    Args:
        error: The error.
        where: Its traceback, for people.

    Returns:
        The value.
    """
    ours = isinstance(error, errors.CodequarryError)
    system = None
    if isinstance(error, OSError) and error.errno is not None:
        system = (error.errno, error.strerror, None if error.filename is None else str(error.filename))
    return {
        "kinds": [kind.__name__ for kind in type(error).__mro__ if kind.__module__ in (errors.__name__, "builtins")],
        "text": error.message if ours else str(error) or type(error).__name__,
        "suggestion": error.suggestion if ours else "",
        "system": system,
        "where": where,
    }


def error_of(value: dict[str, Any]) -> BaseException:
    """Return the error that `describe_error` described; RuntimeError for one that is no Exception."""
    error: BaseException = RuntimeError(value["text"])
    if value["system"] is not None:
        error = OSError(*value["system"])
    else:
        for name in value["kinds"]:
            kind = getattr(errors, name, None) or getattr(builtins, name)
            with contextlib.suppress(TypeError):  # what a class wants besides is not told
                if issubclass(kind, errors.CodequarryError):
                    error = kind(value["text"], suggestion=value["suggestion"])
                    break
                if issubclass(kind, Exception):
                    error = kind(value["text"])
                    break
    error.add_note(value["where"])
    return error

"""What to install when something optional is missing: the one module that knows the extras by name."""

from __future__ import annotations

from codequarry.schemas.errors import MissingExtraError


def install_hint(extra: str) -> str:
    """The shell command that installs an extra.

    >>> install_hint("build")
    "pip install 'codequarry[build]'"
    """
    return f"pip install 'codequarry[{extra}]'"


def missing_extra(what: str, extra: str, *, missing: str | None = None) -> MissingExtraError:
    """The error for something that needs an extra.

    what: what cannot be done, e.g. "codequarry index". missing: the module that was not found.
    """
    found = f" ({missing} is not installed)" if missing else ""
    return MissingExtraError(f"{what} needs the extra {extra!r}{found}", suggestion=f"run: {install_hint(extra)}")

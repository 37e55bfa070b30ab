"""Conversion of a request's filters into the set of chunks that may be returned."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import partial, reduce

import numpy as np

from codequarry.schemas.catalog.symbol_views import PATH_CLASSES
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.kinds import stored_kinds
from codequarry.schemas.languages import BY_NAME, nearest_languages
from codequarry.schemas.wire.search import FileFilters, SearchFilters
from codequarry.serving.catalog import present
from codequarry.serving.catalog.catalog import Catalog
from codequarry.serving.catalog.directory import ChunkDirectory

MAX_SYMBOL_CHARS = 512
_NOT_FIXED = ("example", "test", "docs", "vendored")
"""Path classes of files in which an issue is hardly ever fixed."""
_PREFIX = "symbol:"
"""May stand before a name, as in other systems' queries."""


def fixable_chunks(allowed: np.ndarray | None, directory: ChunkDirectory) -> np.ndarray | None:
    """Leave out the chunks of tests, examples, documentation and vendored files.

    Args:
        allowed: (m,) int64, sorted: ids to choose from; None for all.
        directory: Directory of the version's chunks.

    Returns:
        Their ids, sorted; ``allowed`` where nothing would be left.
    """
    ranks = [PATH_CLASSES.index(name) + 1 for name in _NOT_FIXED]
    kept = directory.chunk_ids[~np.isin(directory.class_rank, ranks)[directory.file_of]]
    if allowed is not None:
        kept = np.intersect1d(allowed, kept, assume_unique=True)
    return kept if len(kept) else allowed


def allowed_chunks(
    filters: SearchFilters, directory: ChunkDirectory, catalog: Catalog
) -> tuple[np.ndarray | None, list[str]]:
    """Find the chunks that the filters let through.

    Args:
        filters: Filters of the request.
        directory: Directory of the version's chunks.
        catalog: Catalog of the version, which is asked for chunks by symbol.

    Returns:
        Their ids, (m,) int64, sorted, or None when nothing is filtered; and notes for the caller. Where the caller may
        not see every repository, the chunks of those that it may see are a filter of their own.

    Raises:
        InvalidArgumentError: A language or repository is unknown, or a glob or symbol is not allowed.
    """
    symbols = [_symbol(name) for name in filters.symbols]
    files = allowed_files(filters, directory)
    sets = [] if directory.visible is None else [directory.chunk_ids]
    if files is not None:
        sets = [directory.chunk_ids[files[directory.file_of]]]
    notes: list[str] = []
    if symbols:
        by_symbol = {name: catalog.defining([name]) for name in symbols}
        notes = [_undefined(name, catalog) for name, chunk_ids in by_symbol.items() if not len(chunk_ids)]
        sets.append(np.unique(np.concatenate(list(by_symbol.values()))))
    if filters.kinds:
        sets.append(catalog.of_kinds(stored_kinds(filters.kinds)))
    common = reduce(partial(np.intersect1d, assume_unique=True), sets) if sets else None
    return common, notes


def allowed_files(filters: FileFilters, directory: ChunkDirectory) -> np.ndarray | None:
    """Select the files that the filters let through.

    Args:
        filters: Filters of the request.
        directory: Directory of the version's chunks.

    Returns:
        (files,) bool; None when nothing is filtered.

    Raises:
        InvalidArgumentError: A language or repository is unknown, or a glob is not allowed.
    """
    return _files(filters, directory, "filters.")


def scope_files(scope: FileFilters, directory: ChunkDirectory) -> np.ndarray | None:
    """Select the files of a scope like `allowed_files`; error messages name the scope."""
    return _files(scope, directory, "scope: ")


def _files(filters: FileFilters, directory: ChunkDirectory, prefix: str) -> np.ndarray | None:
    _check_languages(f"{prefix}lang", filters.lang)
    check_repositories(f"{prefix}repos", filters.repos, directory.repo_names)
    files = None if filters.within is None else scope_files(filters.within, directory)
    if filters.lang:
        files = _both(files, directory.files_of(filters.lang))
    if filters.repos:
        files = _both(files, directory.files_in(filters.repos))
    if filters.include:
        files = _both(files, np.logical_or.reduce([directory.files_matching(glob) for glob in filters.include]))
    if filters.exclude:
        files = _both(files, ~np.logical_or.reduce([directory.files_matching(glob) for glob in filters.exclude]))
    return files if files is None or directory.visible is None else files & directory.visible


def _both(left: np.ndarray | None, right: np.ndarray) -> np.ndarray:
    return right if left is None else left & right


def _check_languages(field: str, given: list[str]) -> None:
    for name in given:
        if name not in BY_NAME:
            raise InvalidArgumentError(
                f"{field}: a name is not one of the {len(BY_NAME)} languages, nor an alias or a suffix of one",
                suggestion=f"use {_quote_names(nearest_languages(name))}",
            )


def check_repositories(field: str, given: list[str], known: Iterable[str]) -> None:
    """Check names of repositories.

    Args:
        field: Where they are given, for the message.
        given: The names.
        known: Names of the repositories that there are.

    Raises:
        InvalidArgumentError: A name is none of them.
    """
    names = list(known)
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name[:64].lower(), names, n=3, cutoff=0.4) or sorted(names)[:10]
            raise InvalidArgumentError(
                f"{field}: a name is not one of the {len(names)} repositories of this bundle",
                suggestion=f"use {_quote_names(near)}" if near else "leave the filter out",
            )


def _quote_names(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def _undefined(name: str, catalog: Catalog) -> str:
    near = catalog.index.near_names(name.rpartition(".")[2].lower())
    shown = ", ".join(present.one_line(one, 80) for one in near[:3])
    return f"filters.symbols: nothing is called {present.safe_echo(name)!r}" + (
        f"; near names: {shown}" if near else ""
    )


def _symbol(name: str) -> str:
    name = name.removeprefix(_PREFIX)
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


def members(ids: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Tell which ids are in the sorted array: (m,) bool.

    NumPy's general set operations cost more for small arrays than the work itself.

    >>> members(np.array([3, 1, 9]), np.array([1, 3])), members(np.array([3]), np.array([]))
    (array([ True,  True, False]), array([False]))
    """
    if not len(allowed):
        return np.zeros(len(ids), np.bool_)
    places = np.searchsorted(allowed, ids)
    places[places == len(allowed)] = 0
    return allowed[places] == ids

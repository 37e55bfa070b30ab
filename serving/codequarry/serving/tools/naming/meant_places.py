"""Places of a name that mean certain definitions, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from codequarry.schemas.catalog.symbol_views import IMPORT
from codequarry.serving.catalog.definition_rows import Places, SymbolRow
from codequarry.serving.request.deadline import Deadline
from codequarry.serving.tools.naming.meanings import CERTAINTY, SAME_NAME, Meanings, Meant, NamedPlace, near_files
from codequarry.serving.version.open import Bundle

_EXACT, _RESOLVED, _BY_NAME = range(len(CERTAINTY))


class MeantPlaces(NamedTuple):
    """Places that mean certain definitions."""

    places: Places
    certainty: np.ndarray
    """(m,) int8: position in `CERTAINTY`."""
    meaning: np.ndarray
    """(m,) int32: ``symbol_id`` of what a resolved place means, else -1."""
    unread: int
    """Places of files that were not read: they are known by name alone."""

    def where(self, rows: np.ndarray) -> MeantPlaces:
        """Select rows by mask or position."""
        return MeantPlaces(self.places.where(rows), self.certainty[rows], self.meaning[rows], self.unread)

    def behind(self, defining: Places, limit: int) -> MeantPlaces:
        """Return the first of definitions, which mean themselves, and of these places behind them."""
        certainty = np.where(defining.precise, _EXACT, _RESOLVED).astype(np.int8)
        places = Places(*(np.concatenate(pair)[:limit] for pair in zip(defining, self.places, strict=True)))
        meaning = np.concatenate([np.full(len(certainty), -1, np.int32), self.meaning])[:limit]
        return MeantPlaces(places, np.concatenate([certainty, self.certainty])[:limit], meaning, self.unread)


def tell_apart(bundle: Bundle, rows: Sequence[SymbolRow], places: Places, deadline: Deadline) -> MeantPlaces:
    """Leave out the places that mean something else of the same name.

    Args:
        bundle: The version.
        rows: Definitions that are asked for.
        places: Places of what indexers say of them, and of their names; the first ones are read first.
        deadline: Deadline of the request.

    Returns:
        The places that are left, in their order.

    Raises:
        DeadlineError: The deadline has passed.
    """
    certainty = np.where(places.precise, _EXACT, _BY_NAME).astype(np.int8)
    meaning = np.full(len(certainty), -1, np.int32)
    kept = np.ones(len(certainty), np.bool_)
    by_name = np.flatnonzero(~places.precise & ~places.defining)
    kindred = bundle.directory.related_files(np.array([row.file for row in rows], np.int64))
    names: dict[int, list[Meant]] = {}
    for row in rows if len(by_name) else ():
        if (same := names.get(row.name_id)) is None:
            same = names[row.name_id] = [*bundle.symbols.with_name(row.name, SAME_NAME, kindred)]
        if all(row.symbol_id != one.symbol_id for one in same):
            same.append(row)
    wanted = {row.symbol_id for row in rows}
    importing = set(places.file[places.roles & IMPORT != 0].tolist())
    asked: list[tuple[list[Meant], NamedPlace]] = []
    for name, file, _, _, line, column, _, end, enclosing, _ in places.where(by_name).rows():
        asked.append((names[name], NamedPlace(file, line, column, end - column, enclosing)))
    meanings = Meanings(bundle, kindred, deadline)
    evidence = meanings.of_places(asked, importing, near_files(bundle, rows))
    for at, choices in zip(by_name.tolist(), evidence, strict=True):
        meant = [one for one in choices if one in wanted]
        kept[at] = bool(meant)
        if meant and choices[meant[0]] == "resolved":
            certainty[at], meaning[at] = _RESOLVED, meant[0]
    return MeantPlaces(places, certainty, meaning, meanings.unread).where(kept)

"""Places of a name that mean certain definitions, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from codequarry.schemas.catalog.symbol_views import IMPORT
from codequarry.serving.catalog.symbols import Places, SymbolRow
from codequarry.serving.tools.naming.meanings import CERTAINTY, Meanings, NamedPlace, same_names
from codequarry.serving.version.open import Bundle

_MOST_FILES = 150
"""Files of places whose text is read: what one look-up may take its time for."""
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


def tell_apart(bundle: Bundle, rows: Sequence[SymbolRow], places: Places) -> MeantPlaces:
    """Leave out the places that mean something else of the same name.

    Args:
        bundle: The version.
        rows: Definitions that are asked for.
        places: Places of what indexers say of them, and of their names; the first ones are read first.

    Returns:
        The places that are left, in their order.
    """
    certainty = np.where(places.precise, _EXACT, _BY_NAME).astype(np.int8)
    meaning = np.full(len(certainty), -1, np.int32)
    kept = np.ones(len(certainty), np.bool_)
    by_name = np.flatnonzero(~places.precise & ~places.defining)
    names = {row.name_id: [row] for row in rows}
    for name, found in same_names(bundle, names if len(by_name) else ()).items():
        names[name] = found
    for row in rows:
        if row not in names[row.name_id]:
            names[row.name_id].append(row)
    wanted = {row.symbol_id for row in rows}
    importing = set(places.file[places.roles & IMPORT != 0].tolist())
    read = set(list(dict.fromkeys(places.file[by_name].tolist()))[:_MOST_FILES])
    judged: list[int] = []
    asked: list[tuple[list[SymbolRow], NamedPlace]] = []
    for at, place in zip(by_name.tolist(), places.where(by_name).rows(), strict=True):
        name, file, _, _, line, column, _, end, enclosing, _ = place
        if file in read:
            judged.append(at)
            asked.append((names[name], NamedPlace(file, line, column, end - column, enclosing)))
    for at, choices in zip(judged, Meanings(bundle).of_places(asked, importing), strict=True):
        meant = [one for one in choices if one in wanted]
        kept[at] = bool(meant)
        if meant and choices[meant[0]] == "resolved":
            certainty[at], meaning[at] = _RESOLVED, meant[0]
    unread = len(by_name) - len(judged)
    return MeantPlaces(places, certainty, meaning, unread).where(kept)

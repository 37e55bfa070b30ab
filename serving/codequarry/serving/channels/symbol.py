"""Channel of definition names: a query that names a function, class or key leads to its definition.

========== ====================================================================================
score      a definition
========== ====================================================================================
1 and .95  whose qualified name ends in one of the query (``Index.open``), in the same case or any
.9 and .8  whose name is an identifier of the query, in the same case or any
.7         whose name is the last part of a qualified name of the query, but of something else
.75        whose name is a query that is an identifier, in another convention: ``open_index`` for ``openIndex``
.65        the same of the last part of a query that is a qualified name
.55        the same of a name among other words
.95 and .9 whose (qualified) name is one typo away from a query that is a name, which nothing is called
.65 and .6 the same of a name among other words, which may mean something else
.2 to .6   whose name holds a query that is an identifier, which nothing is called: .2 + .4 * its share of the name
.1 to .4   whose name has no word that the query lacks: .1 + .3 * its share of the query's words
========== ====================================================================================

Among equals sources come first; headings and keys count a third.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from codequarry.serving.catalog import present
from codequarry.serving.catalog.catalog import Catalog
from codequarry.serving.catalog.chunk_arrays import ChunkRows
from codequarry.serving.channels.base import NOTHING, Candidates, Channel, ChannelQuery, ranked
from codequarry.serving.channels.bm25 import MAX_TERMS, Bm25Channel
from codequarry.serving.text.analyzer import words
from codequarry.serving.text.query_classes import NAMES, Query

NAMED = 0.6
"""Least score of a definition whose whole name the query has: as written, in another convention, or misspelt."""
_BY_WORDS = 200
"""Number of chunks considered because their names share most words with the query."""
_MAX_REASON = 200
_HOLDING = 200
"""Most names that hold a part of a name, the shortest first, unless only some chunks are allowed."""
_SHORTEST_PART = 4
"""Letters of the shortest part of a name that is looked up; nearly every name holds shorter ones."""
_PART = re.compile(r"\w+")
_CLASS_STEP = 0.005
_NO_LETTERS = "".join(character for character in map(chr, range(128)) if not character.isalnum())
_MEANT = 3
"""Most names in a note."""
_CONVENTION = {"identifier": 0.75, "qualified_name": 0.65}
_NO_CODE = frozenset({"section", "key", "table"})
_NO_CODE_SHARE = 1 / 3


class SymbolChannel(Channel):
    """Channel that ranks the chunks in which definitions named by the query start. Its scores are exact."""

    name = "symbol"
    source = "symbol"

    def __init__(self, catalog: Catalog, names: Bm25Channel | None) -> None:
        """Use an open catalog; neither it nor the lexical index is closed here.

        Args:
            catalog: Catalog of the version.
            names: Lexical index, whose field of names finds names by their words. None looks up whole names alone.
        """
        self._catalog = catalog
        self._names = names

    def _rank(self, asked: ChannelQuery) -> Candidates:
        query, index, allowed = asked.query, self._catalog.index, asked.allowed
        if not query.words:
            return NOTHING
        notes: tuple[str, ...] = ()
        near = np.empty(0, np.int64)
        if self._names is None:
            notes = ("symbol looked for whole names only, the lexical index is off",)
        else:
            near = self._names.holding_name_words(sorted(query.words)[:MAX_TERMS], _BY_WORDS, allowed=allowed)
        slips = _slips(query, index)
        meant = {name for names in slips.values() for name in names}
        keys = meant.union(map(str.lower, (*query.plain, *map(_last, query.qualified), *query.words)))
        part, holding = _names_holding(query, index)
        keys |= set(holding if allowed is not None else holding[:_HOLDING])
        named = index.definitions_named(keys)
        found = matched(query, index, np.union1d(named, index.definitions_in(near)), slips, part)
        notes = (*notes, *(_note(name, names) for name, names in slips.items()))
        ids = index.chunks["chunk_id"][index.column("chunk", found.definitions)]
        # Keep the best definition of each chunk, the first by name among equals.
        order = np.lexsort((-found.scores, ids))
        order = order[np.flatnonzero(np.diff(ids[order], prepend=-1))]
        if allowed is not None:
            order = order[np.isin(ids[order], allowed)]
        top = ranked(ids[order], found.scores[order], asked.limit, notes)
        best = dict(zip(ids[order].tolist(), order.tolist(), strict=True))
        reasons = {one: found.reason(index, best[one]) for one in top.chunk_ids.tolist()}
        return Candidates(top.chunk_ids, top.scores, notes, reasons)

    def _release(self) -> None:
        pass  # catalog and lexical index belong to others


class Matches(NamedTuple):
    """Definitions that match, with scores."""

    definitions: np.ndarray
    """(m,) int32, ascending."""
    scores: np.ndarray
    """(m,) float32, positive."""
    how: list[str]
    """Kind of match of each."""

    def reason(self, index: ChunkRows, at: int) -> str:
        """Return the reason of a match as results carry it."""
        name = index.texts[index.column("qualified_name", self.definitions[at])]
        return f"symbol:{self.how[at]}={present.printable(name)[:_MAX_REASON]}"


def matched(
    asked: Query, index: ChunkRows, definitions: np.ndarray, slips: Mapping[str, Sequence[str]], part: str = ""
) -> Matches:
    """Select the definitions whose name matches the query.

    Args:
        asked: Analyzed query.
        index: Index of definitions.
        definitions: (m,) int32, ascending.
        slips: Misspelt names of the query, which no definition has, with the existing names they may mean.
        part: Letters that names hold, in lower case; "" to ask for whole names and words alone.

    Returns:
        The matches.
    """
    tiers = _Tiers(asked, slips, part)
    names, of = np.unique(index.column("name", definitions), return_inverse=True)
    by_name = [tiers.of_name(index.texts[name]) for name in names.tolist()]
    found = [by_name[at] for at in of.tolist()]
    if asked.qualified:
        lasts = [index.texts.find(last) for last in tiers.lasts]
        for at in np.flatnonzero(np.isin(index.column("key", definitions), lasts)).tolist():
            module, name = (index.texts[index.column(part, definitions[at])] for part in ("module", "qualified_name"))
            found[at] = max(found[at], tiers.of_full_name(f".{module}.{name}"))
    kinds, of = np.unique(index.column("kind", definitions), return_inverse=True)
    shares = np.array([_NO_CODE_SHARE if index.texts[kind] in _NO_CODE else 1.0 for kind in kinds.tolist()])
    tier = np.array([score for score, _ in found])
    scores = tier * shares[of] - _CLASS_STEP * (index.column("class_rank", definitions) - 1)
    rows = np.flatnonzero(tier > 0)
    return Matches(definitions[rows], np.round(scores[rows], 4).astype(np.float32), [found[at][1] for at in rows])


class _Tiers:
    """Scoring of names against a query: a score, and the kind of match."""

    def __init__(self, asked: Query, slips: Mapping[str, Sequence[str]], part: str) -> None:
        self._asked, self._part = asked, _squeezed(part)
        self._qualified = [(f".{name}", f".{name.lower()}") for name in asked.qualified]
        self._meant = frozenset(meant for names in slips.values() for meant in names)
        self._meant_full = tuple(
            f".{name.lower().rpartition('.')[0]}.{meant}"
            for name in asked.qualified
            for meant in slips.get(_last(name).lower(), ())
        )
        self._slip = 0.9 if asked.kind in NAMES else 0.6
        self._convention = _CONVENTION.get(asked.kind, 0.55)
        self._words = tuple(asked.words)
        self._lower = frozenset(map(str.lower, asked.plain))
        lasts = [_last(name) for name in asked.qualified]
        self.lasts = frozenset(map(str.lower, lasts)) | self._meant
        self._spelt = {_in_words(name) for name in (*asked.plain, *lasts)}

    def of_full_name(self, full: str) -> tuple[float, str]:
        """Score a qualified name.

        Args:
            full: Module and qualified name, each behind a dot.

        Returns:
            Score and kind of match; 0 and "" without a match.
        """
        if any(full.endswith(name) for name, _ in self._qualified):
            return 1.0, "qualified"
        lower = full.lower()
        if any(lower.endswith(name) for _, name in self._qualified):
            return 0.95, "qualified_any_case"
        return (self._slip + 0.05, "misspelt_qualified") if lower.endswith(self._meant_full) else (0.0, "")

    def of_name(self, name: str) -> tuple[float, str]:
        if name in self._asked.plain:
            return 0.9, "exact"
        lower = name.lower()
        if lower in self._lower:
            return 0.8, "any_case"
        if lower in self._meant:
            return self._slip, "misspelt"
        if lower in self.lasts:
            return 0.7, "name"
        held = self._of_part(lower)
        if not lower.lstrip(_NO_LETTERS).startswith(self._words):
            return held  # no word of the query is its first
        parts = _in_words(name)
        if parts in self._spelt:
            return self._convention, "other_convention"
        if parts and (own := set(parts)) <= self._asked.words:
            return max(held, (0.1 + 0.3 * len(own) / len(self._asked.words), "words"))
        return held

    def _of_part(self, lower: str) -> tuple[float, str]:
        """Score a name in lower case that holds the query."""
        whole = _squeezed(lower)
        return (0.2 + 0.4 * len(self._part) / len(whole), "part") if self._part and self._part in whole else (0.0, "")


def _slips(asked: Query, index: ChunkRows) -> dict[str, list[str]]:
    """Return the query's names that no definition has, in lower case, with existing names one typo away."""
    names = dict.fromkeys(name.lower() for name in (*asked.plain, *map(_last, asked.qualified)))
    unknown = (name for name in names if not len(index.definitions_named([name])))
    return {name: near for name in unknown if (near := index.near_names(name))}


def _note(name: str, meant: Sequence[str]) -> str:
    shown = ", ".join(present.safe_echo(each) for each in meant[:_MEANT])
    more = f" and {len(meant) - _MEANT} more" if len(meant) > _MEANT else ""
    return f"nothing is called {present.safe_echo(name)}; looked for {shown}{more} as well"


def _part_of_name(query: Query) -> str:
    """Return the query in lower case if it may be a part of a name; "" otherwise.

    >>> from codequarry.serving.text.query_classes import analyze_query
    >>> [_part_of_name(analyze_query(text)) for text in ("NameFrom", "abc", "find a name")]
    ['namefrom', '', '']
    """
    text = query.plain[0].lower() if query.kind == "identifier" and query.plain else ""
    return text if len(text) >= _SHORTEST_PART and _PART.fullmatch(text) else ""


def _names_holding(query: Query, index: ChunkRows) -> tuple[str, list[str]]:
    """Return the part of a name that a query is, and the names that hold it, the shortest first.

    Nothing is a part of a name if a definition is called so.
    """
    part = _part_of_name(query)
    if not part or len(index.definitions_named([part])):
        return "", []
    spellings = {part, _squeezed(part), "_".join(_in_words(query.plain[0]))}
    names = {name for each in spellings for name in index.names_holding(each)}
    return part, sorted(names, key=lambda name: (len(name), name))


def _squeezed(name: str) -> str:
    return name.replace("_", "")


def _in_words(name: str) -> tuple[str, ...]:
    return tuple(word.text.lower() for word in words(name))


def _last(name: str) -> str:
    return name.rpartition(".")[2]

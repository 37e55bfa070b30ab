"""The channel of definition names: a query that names a function, class or key leads to where it is defined.

========== ====================================================================================
score      a definition
========== ====================================================================================
1 and .95  whose qualified name ends in one of the query (``Index.open``), in the same case or any
.9 and .8  whose name is an identifier of the query, in the same case or any
.7         whose name is the last part of a qualified name of the query, but of something else
.1 to .4   whose name has no word that the query lacks: .1 + .3 * its share of the query's words
========== ====================================================================================

Among equals sources come first; headings and keys count a third.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from codequarry.schemas.analyzer import words
from codequarry.serving.bm25 import MAX_TERMS, Bm25Channel
from codequarry.serving.catalog import Catalog, SymbolName
from codequarry.serving.channels import Candidates, ranked
from codequarry.serving.deadline import Deadline
from codequarry.serving.present import printable

_DOTTED = re.compile(r"[^\W\d]\w*(?:(?:\.|::|->|#)[^\W\d]\w*)*")
_SEPARATOR = re.compile(r"::|->|#")
_MAX_SYMBOLS = 20_000
"""Definitions looked at for one query; a name may be as common as ``__init__``."""
_BY_WORDS = 200
"""Chunks whose names share most words with the query that are looked at."""
_MAX_REASON = 200
_CLASS_STEP = 0.005
_NO_CODE = frozenset({"section", "key", "table"})
_NO_CODE_SHARE = 1 / 3


class Asked(NamedTuple):
    """What a query says about names."""

    qualified: tuple[str, ...]
    """``Index.open``, joined by dots."""
    plain: tuple[str, ...]
    """Identifiers: the query's only word, or written as no word of a language is."""
    words: frozenset[str]
    """All words, lower case, identifiers by their parts."""

    @classmethod
    def of(cls, query: str) -> Asked:
        """Read a query.

        >>> asked = Asked.of("where does Index.open call parseHeader")
        >>> asked.qualified, asked.plain
        (('Index.open',), ('parseHeader',))
        """
        found = [_SEPARATOR.sub(".", name) for name in dict.fromkeys(_DOTTED.findall(query))]
        plain = [name for name in found if "." not in name]
        alone = len(found) == 1
        return cls(
            tuple(name for name in found if "." in name),
            tuple(name for name in plain if alone or _is_identifier(name)),
            frozenset(word.text.lower() for word in words(query)),
        )

    def keys(self) -> list[str]:
        """Names to look up, lower case."""
        named = (*self.plain, *(name.rsplit(".", 1)[1] for name in self.qualified), *self.words)
        return sorted({name.lower() for name in named})


class _Match(NamedTuple):
    score: float
    reason: str


class SymbolChannel:
    """Chunks in which a definition starts whose name the query holds."""

    name = "symbol"
    source = "symbol"

    def __init__(self, catalog: Catalog, names: Bm25Channel | None) -> None:
        """names: the lexical index, whose field of names finds names by their words; None looks up whole names alone.

        Both belong to others and are not closed here.
        """
        self._catalog = catalog
        self._names = names

    def search(
        self, query: str, limit: int, *, allowed: np.ndarray | None, rerank: bool, deadline: Deadline | None = None
    ) -> Candidates:
        """See `Channel.search`; scores are exact, so ``rerank`` changes nothing."""
        asked = Asked.of(query)
        if not asked.words:
            return Candidates(np.empty(0, np.int64), np.empty(0, np.float32))
        notes: tuple[str, ...] = ()
        near: list[int] = []
        if self._names is None:
            notes = ("symbol looked for whole names only, the lexical index is off",)
        else:
            near = self._names.named(sorted(asked.words)[:MAX_TERMS], _BY_WORDS).tolist()
        symbols = self._catalog.symbols(asked.keys(), near, _MAX_SYMBOLS)
        if len(symbols) == _MAX_SYMBOLS:
            notes = (*notes, f"symbol looked at the first {_MAX_SYMBOLS} definitions of these names")
        best: dict[int, _Match] = {}
        for symbol in symbols:
            match = matched(asked, symbol)
            if match is not None and (symbol.chunk_id not in best or match.score > best[symbol.chunk_id].score):
                best[symbol.chunk_id] = match
        ids = np.array(sorted(best), np.int64)
        if allowed is not None:
            ids = ids[np.isin(ids, allowed)]
        scores = np.array([best[one].score for one in ids.tolist()], np.float32)
        top = ranked(ids, scores, limit, notes)
        reasons = {one: best[one].reason for one in top.chunk_ids.tolist()}
        return Candidates(top.chunk_ids, top.scores, notes, reasons)

    def problem(self) -> str | None:
        """An open catalog stays usable."""
        return None

    def close(self) -> None:
        """Nothing is its own."""


def matched(asked: Asked, symbol: SymbolName) -> _Match | None:
    """How well a definition's name answers, and the reason as results carry it; None when not at all."""
    score, how = _tier(asked, symbol)
    if not score:
        return None
    score *= _NO_CODE_SHARE if symbol.kind in _NO_CODE else 1
    score -= _CLASS_STEP * (symbol.class_rank - 1)
    return _Match(round(score, 4), f"symbol:{how}={printable(symbol.qualified_name)[:_MAX_REASON]}")


def _tier(asked: Asked, symbol: SymbolName) -> tuple[float, str]:
    full = f".{symbol.module}.{symbol.qualified_name}"
    if any(full.endswith(f".{name}") for name in asked.qualified):
        return 1.0, "qualified"
    if any(full.lower().endswith(f".{name.lower()}") for name in asked.qualified):
        return 0.95, "qualified_any_case"
    if symbol.name in asked.plain:
        return 0.9, "exact"
    lower = symbol.name.lower()
    if any(lower == name.lower() for name in asked.plain):
        return 0.8, "any_case"
    if any(lower == name.rsplit(".", 1)[1].lower() for name in asked.qualified):
        return 0.7, "name"
    parts = {word.text.lower() for word in words(symbol.name)}
    if parts and parts <= asked.words:
        return 0.1 + 0.3 * len(parts) / len(asked.words), "words"
    return 0.0, ""


def _is_identifier(name: str) -> bool:
    """Written as no word of a language is: parseHeader, parse_header, utf8; not open, Open or HTTP."""
    return "_" in name or len(list(words(name))) > 1

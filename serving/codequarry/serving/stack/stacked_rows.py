"""Chunks and definitions of a delta version and its base by number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from codequarry.serving.catalog.chunk_arrays import CHUNK, DEFINITION, STRINGS_OF_DEFINITION, TEXTS, ChunkRows, Strings
from codequarry.serving.stack.overlay import StackArrays


class StackedStrings(Strings):
    """Strings of the base by their numbers, and behind them those that only the delta has."""

    def __init__(self, base: Strings, own: Strings, shared: np.ndarray) -> None:
        """Join the strings of two versions.

        Args:
            base: Strings of the base.
            own: Strings of the delta.
            shared: (s,) int32: number in the base of each string of the delta, or -1.
        """
        super().__init__(base.data, base.starts)
        self._base, self._own = base, own
        self._first = super().__len__()
        self.renumbered = np.where(shared >= 0, shared, self._first + np.arange(len(own))).astype(np.int32)
        """(s,) int32: number in the stack of each string of the delta."""

    def __len__(self) -> int:
        return self._first + len(self._own)

    def __getitem__(self, number: Any) -> Any:
        return self._base[number] if number < self._first else self._own[number - self._first]

    def find(self, text: str) -> int:
        """Return the number of a string; -1 when it is unknown."""
        at = self._own.find(text)
        return int(self.renumbered[at]) if at >= 0 else self._base.find(text)


class StackedChunks:
    """Chunks of the base where they are mapped, and behind them those of the delta in numbers of the stack.

    Indexed like an array of records: by field, by row, by a slice of rows, or by ascending rows.
    """

    def __init__(self, base: np.ndarray, own: np.ndarray) -> None:
        """Put chunks behind those of the base.

        Args:
            base: (N,) of the fields of `CHUNK`.
            own: (n,) of these.
        """
        self._base, self._own = base, own
        self.ids = np.concatenate([base["chunk_id"], own["chunk_id"]])
        """(N + n,) int64: ids by row."""

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, wanted: str | int | slice | np.ndarray) -> Any:
        first = len(self._base)
        if isinstance(wanted, str):
            return self.ids if wanted == "chunk_id" else np.concatenate([self._base[wanted], self._own[wanted]])
        if isinstance(wanted, int):
            return self._base[wanted] if wanted < first else self._own[wanted - first]
        if isinstance(wanted, np.ndarray):
            split = int(np.searchsorted(wanted, first))
            return _join([self._base[wanted[:split]], self._own[wanted[split:] - first]])
        start, stop, _ = wanted.indices(len(self))
        if stop <= first:
            return self._base[start:stop]
        own = self._own[max(start - first, 0) : stop - first]
        return own if start >= first else _join([self._base[start:], own])


class StackedRows(ChunkRows):
    """Rows, definitions and strings of a stack, in the numbers that `schemas.bundle.stack` describes."""

    def __init__(self, stack: StackArrays, first_shard: int) -> None:
        """Join the arrays of two versions.

        Args:
            stack: The stack.
            first_shard: Number of the delta's first shard among the texts of both.
        """
        base, own = stack.base.rows, stack.own.rows
        self._stack = stack
        self._strings = StackedStrings(base.texts, own.texts, stack.strings)
        self.chunks = StackedChunks(base.chunks, _renumbered(own.chunks, self._strings.renumbered, first_shard))
        live = base.ids_rows[~stack.hidden_rows[base.ids_rows]]
        ids_rows = np.concatenate([live.astype(np.int32), stack.base.chunks + own.ids_rows.astype(np.int32)])
        self.ids_rows = ids_rows[np.argsort(self.chunks.ids[ids_rows], kind="stable")]

    @property
    def texts(self) -> Strings:
        """Strings that the numbers name."""
        return self._strings

    def symbols_of(self, row: int) -> list[str]:
        """Return names of definitions, see `ChunkRows`."""
        base, own = self._stack.base, self._stack.own
        return base.rows.symbols_of(row) if row < base.chunks else own.rows.symbols_of(row - base.chunks)

    def rows_of_file(self, repo: str, path: str) -> range:
        """Return the rows of a file's chunks, see `ChunkRows`."""
        stack = self._stack
        rows = stack.own.rows.rows_of_file(repo, path)
        if rows:
            return range(stack.base.chunks + rows.start, stack.base.chunks + rows.stop)
        rows = stack.base.rows.rows_of_file(repo, path)
        return range(0) if rows and stack.hidden_rows[rows.start] else rows

    def column(self, name: str, definitions: Any) -> Any:
        """Return a field of definitions, see `ChunkRows`."""
        base, own = self._stack.base, self._stack.own
        if isinstance(definitions, int) and definitions < base.definitions:
            return base.rows.column(name, definitions)  # one at a time, most of the time went into arrays of one
        numbers = np.asarray(definitions)
        in_base = numbers < base.definitions
        found = np.empty(numbers.shape, np.int32)
        found[in_base] = base.rows.column(name, numbers[in_base])
        of_own = own.rows.column(name, numbers[~in_base] - base.definitions)
        if name in STRINGS_OF_DEFINITION:
            of_own = self._strings.renumbered[of_own]
        elif name == "chunk":
            of_own = of_own + base.chunks
        found[~in_base] = of_own
        return found if found.ndim else int(found)

    def rows_of_kinds(self, kinds: Iterable[str]) -> np.ndarray:
        """Return rows of chunks, see `ChunkRows`."""
        wanted, (base, own) = list(kinds), (self._stack.base, self._stack.own)
        held = base.rows.rows_of_kinds(wanted)
        held = held[~self._stack.hidden_rows[held]]
        return np.concatenate([held, base.chunks + own.rows.rows_of_kinds(wanted)])

    def definitions_named(self, keys: Iterable[str], *, members: bool = False) -> np.ndarray:
        """Return definitions by name, see `ChunkRows`."""
        wanted, (base, own) = list(keys), (self._stack.base, self._stack.own)
        held = base.rows.definitions_named(wanted, members=members)
        held = held[~self._hidden_definitions[held]]
        added = own.rows.definitions_named(wanted, members=members)
        return np.concatenate([held, base.definitions + added]).astype(np.int32)

    def near_names(self, key: str) -> list[str]:
        """Return names one typo away, see `ChunkRows`."""
        near = {*self._stack.base.rows.near_names(key), *self._stack.own.rows.near_names(key)}
        return sorted(name for name in near if len(self.definitions_named([name])))

    def names_holding(self, part: str) -> list[str]:
        """Return names that hold some letters, see `ChunkRows`."""
        held = {*self._stack.base.rows.names_holding(part), *self._stack.own.rows.names_holding(part)}
        return sorted(name for name in held if len(self.definitions_named([name])))

    def definitions_of_row(self, row: int) -> np.ndarray:
        """Return definitions, see `ChunkRows`."""
        base, own = self._stack.base, self._stack.own
        if row < base.chunks:
            return base.rows.definitions_of_row(row)
        return base.definitions + own.rows.definitions_of_row(row - base.chunks).astype(np.int32)

    @cached_property
    def _hidden_definitions(self) -> np.ndarray:
        """Mask of the base's definitions that count no longer: (S,) bool."""
        return self._stack.hidden_rows[self._stack.base.rows.definitions[DEFINITION.index("chunk")]]


def _renumbered(own: np.ndarray, strings: np.ndarray, first_shard: int) -> np.ndarray:
    """Return the chunks of a delta, (n,) of the fields of `CHUNK`, with strings and shards numbered as in the stack."""
    wide = [(name, np.dtype(np.int32) if name in (*TEXTS, "shard") else own.dtype[name]) for name in CHUNK]
    found = np.empty(len(own), wide)
    for name in CHUNK:
        found[name] = strings[own[name]] if name in TEXTS else own[name]
    found["shard"] += first_shard
    return found


def _join(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Return chunks of several arrays as one, with numbers as wide as the widest."""
    kinds = [(name, np.result_type(*(part.dtype[name] for part in parts))) for name in CHUNK]
    found = np.empty(sum(map(len, parts)), kinds)
    for name in CHUNK:
        found[name] = np.concatenate([part[name] for part in parts])
    return found

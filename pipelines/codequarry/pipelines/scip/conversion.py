"""Conversion of a SCIP index and its files to rows of ``scip_documents``, ``scip_symbols`` and ``scip_occurrences``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from codequarry.pipelines.scip.index_file import ScipIndex, decode_document, decode_symbol
from codequarry.pipelines.scip.positions import Positions
from codequarry.pipelines.scip.proto import KINDS, POSITION_ENCODINGS
from codequarry.pipelines.scip.symbols import Symbol, parse_symbol
from codequarry.schemas.bundle.tables import SCIP_DOCUMENTS, SCIP_OCCURRENCES, SCIP_SYMBOLS

# Both run on JavaScript strings, and neither states that in its documents.
_UNSTATED_ENCODING = {"scip-python": "utf-16", "scip-typescript": "utf-16"}
_ECMASCRIPT = "scip-typescript"
_ROLE_BITS = {"is_definition": 1, "is_import": 2, "is_write": 4, "is_read": 8, "is_generated": 16, "is_test": 32}
_RELATIONS = ("definition", "implementation", "reference", "type_definition")
# Rows are converted early: the garbage collector would visit hundreds of thousands of them again and again.
_SYMBOLS_AT_ONCE = 2_048
_FENCED = re.compile(r"\s*```[^\n]*\n(.*?)\n?```\s*", re.DOTALL)
_SIGNATURE_KIND = re.compile(r"\(?(class|interface|enum|type|module|namespace|function|property|constant)\b")


@dataclass(frozen=True, slots=True)
class ScipTables:
    """Rows of one index, documents in path order, and counts of what was left out."""

    documents: pa.Table
    symbols: pa.Table
    occurrences: pa.Table
    unknown_documents: int
    """Documents of files that the snapshot does not hold."""
    dropped_occurrences: int
    """Occurrences of known files whose range lies outside the file."""
    damaged: int
    """Parts of the index that could not be read."""
    nameless_symbols: int = 0
    """Descriptions of symbols with an empty name, which are left out."""

    @property
    def left_out(self) -> int:
        """Number of parts of the index that became no rows."""
        return self.unknown_documents + self.dropped_occurrences + self.damaged + self.nameless_symbols


def scip_tables(
    repo: str,
    index: ScipIndex,
    find: Callable[[str], tuple[str, bytes] | None],
    redacted: Callable[[str], str] = str,
) -> ScipTables:
    """Convert an index to rows.

    Args:
        repo: Name of the repository.
        index: The index.
        find: (language, content) of a path of the snapshot, or None; asked in path order.
        redacted: Takes secrets out of texts about symbols, if the index was made from files that still held them.

    Returns:
        Rows and counts.
    """
    rows = _Rows(repo, index, redacted)
    unknown, damaged = 0, index.damaged
    for path, data in index.documents:
        file = find(path)
        if file is None:
            unknown += 1
            continue
        document = decode_document(data)
        if document is None:
            damaged += 1
        else:
            rows.add(path, *file, document)
    external = [decode_symbol(data) for data in index.external_symbols]
    damaged += external.count(None)
    rows.add_symbols("", (information for information in external if information is not None))
    documents, symbols, occurrences = rows.tables()
    return ScipTables(documents, symbols, occurrences, unknown, rows.dropped, damaged, rows.nameless)


class _Rows:
    """Columns under construction."""

    def __init__(self, repo: str, index: ScipIndex, redacted: Callable[[str], str]) -> None:
        self._repo, self._index, self._redacted = repo, index, redacted
        self._documents: list[tuple[Any, ...]] = []
        self._symbols: list[tuple[Any, ...]] = []
        self._symbol_tables: list[pa.Table] = []
        self._occurrences: list[pa.Table] = []
        self.dropped = 0
        self.nameless = 0

    def add(self, path: str, lang: str, content: bytes, document: Any) -> None:
        """Add the rows of one document."""
        tool = self._index.tool
        stated = POSITION_ENCODINGS.get(document.position_encoding, "")
        encoding = stated or _UNSTATED_ENCODING.get(tool, "utf-32")
        positions = Positions(content, encoding, ecmascript=tool == _ECMASCRIPT)
        kept, dropped = self._add_occurrences(path, positions, document.occurrences)
        self.add_symbols(path, document.symbols)
        indexer = f"{tool} {self._index.tool_version}".strip()
        self._documents.append(
            (self._repo, path, lang, indexer, encoding, len(document.symbols), kept, dropped)
        )  # fmt: skip
        self.dropped += dropped

    def add_symbols(self, path: str, described: Iterable[Any]) -> None:
        """Add the symbols of a document; a second description of one adds nothing."""
        once: dict[str, Any] = {}
        for information in described:
            if information.symbol:
                once.setdefault(information.symbol, information)
            else:
                self.nameless += 1
        self._symbols += (self._symbol(path, information) for information in once.values())
        if len(self._symbols) >= _SYMBOLS_AT_ONCE:
            self._close_symbols()

    def _symbol(self, path: str, information: Any) -> tuple[Any, ...]:
        symbol = parse_symbol(information.symbol)
        signature, documentation = map(self._redacted, _documented(information))
        name = symbol.names[-1] if symbol.names and symbol.kinds[-1] != "local" else ""
        return (
            self._repo,
            path,
            information.symbol,
            symbol.scheme,
            symbol.manager,
            symbol.package,
            symbol.version,
            symbol.descriptors,
            ".".join(symbol.namespace),
            ".".join(symbol.names) if name else "",
            information.display_name or name,
            _kind(information.kind, signature, symbol),
            signature,
            documentation,
            _relationships(information.relationships),
            information.enclosing_symbol or symbol.parent,
        )

    def _close_symbols(self) -> None:
        self._symbol_tables.append(_table(self._symbols, SCIP_SYMBOLS))
        self._symbols = []

    def tables(self) -> tuple[pa.Table, pa.Table, pa.Table]:
        """Return documents, symbols and occurrences."""
        occurrences = pa.concat_tables([SCIP_OCCURRENCES.empty_table(), *self._occurrences])
        self._close_symbols()
        return _table(self._documents, SCIP_DOCUMENTS), pa.concat_tables(self._symbol_tables), occurrences

    def _add_occurrences(self, path: str, positions: Positions, occurrences: Any) -> tuple[int, int]:
        """Add the occurrences of a document, and return (rows kept, rows dropped)."""
        found = [
            (each.symbol, each.symbol_roles, tuple(each.range), tuple(each.enclosing_range)) for each in occurrences
        ]
        whole = [each for each in found if each[0] and len(each[2]) in (3, 4)]
        starts, ends = _offsets(positions, [each[2] for each in whole])
        enclosing_starts, enclosing_ends = _offsets(positions, [each[3] for each in whole])
        # An impossible enclosing range counts as none.
        enclosed = (enclosing_starts >= 0) & (enclosing_starts <= starts) & (ends <= enclosing_ends)
        keep = np.flatnonzero((starts >= 0) & (ends >= starts))
        roles = np.array([each[1] for each in whole], dtype=np.int64)
        names = np.array([each[0] for each in whole], dtype=object)
        starts, ends, roles = starts[keep], ends[keep], roles[keep]
        (start_line, start_column), (end_line, end_column) = positions.places(starts), positions.places(ends)
        columns: dict[str, Any] = {
            "repo": pa.repeat(self._repo, len(keep)),
            "path": pa.repeat(path, len(keep)),
            "symbol": names[keep],
            "start_byte": starts,
            "end_byte": ends,
            "start_line": start_line,
            "start_column": start_column,
            "end_line": end_line,
            "end_column": end_column,
            "roles": roles,
            **{name: (roles & bit) != 0 for name, bit in _ROLE_BITS.items()},
            "enclosing_start_byte": np.where(enclosed, enclosing_starts, -1)[keep],
            "enclosing_end_byte": np.where(enclosed, enclosing_ends, -1)[keep],
        }
        arrays = [
            column if isinstance(column := columns[field.name], pa.Array) else pa.array(column, field.type)
            for field in SCIP_OCCURRENCES
        ]
        self._occurrences.append(pa.Table.from_arrays(arrays, schema=SCIP_OCCURRENCES))
        return len(keep), len(found) - len(keep)


def _offsets(positions: Positions, ranges: list[tuple[int, ...]]) -> tuple[np.ndarray, np.ndarray]:
    """Return (starts, ends), (n,) int64 byte offsets; -1 where a range is missing or outside the file."""
    corners = np.full((len(ranges), 4), -1, dtype=np.int64)
    rows = [row for row, span in enumerate(ranges) if span]
    corners[rows] = np.array([_corners(ranges[row]) for row in rows], dtype=np.int64).reshape(-1, 4)
    starts = positions.offsets(corners[:, 0], corners[:, 1])
    return starts, positions.offsets(corners[:, 2], corners[:, 3])


def _corners(span: tuple[int, ...]) -> tuple[int, ...]:
    """Return start line, start column, end line, end column; three numbers stand for a range within one line."""
    if len(span) == 3:
        return span[0], span[1], span[0], span[2]
    return span if len(span) == 4 else (-1, -1, -1, -1)


def _documented(information: Any) -> tuple[str, str]:
    """Return (signature, documentation); older indexers put the signature, fenced, before the documentation."""
    texts = list(information.documentation)
    signature = information.signature_documentation.text if information.HasField("signature_documentation") else ""
    if not signature and texts and (fenced := _FENCED.fullmatch(texts[0])):
        signature = fenced[1]
        texts = texts[1:]
    return signature, "\n\n".join(texts)


def _kind(number: int, signature: str, symbol: Symbol) -> str:
    """Return the kind of a symbol as one word in snake case.

    It is the indexer's kind; without one the signature's first word, or the descriptor's kind.
    """
    if number in KINDS and number:
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", KINDS[number]).lower()
    kinds = symbol.kinds
    if not kinds:
        return ""
    if kinds[-1] == "method":
        return "method" if len(kinds) > 1 and kinds[-2] == "type" else "function"
    if kinds[-1] not in ("local", "parameter") and (word := _SIGNATURE_KIND.match(signature)):
        return word[1]
    return "module" if kinds[-1] == "meta" and symbol.names[-1] == "__init__" else kinds[-1]


def _relationships(relationships: Any) -> list[str]:
    return sorted(
        f"{role} {each.symbol}" for each in relationships for role in _RELATIONS if getattr(each, f"is_{role}")
    )


def _table(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)

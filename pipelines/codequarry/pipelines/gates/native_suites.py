"""Expectations for Great Expectations, by table: what is measured of many rows at once.

Single rows are judged by SQL (``schemas/gates/suites.py``), over every row and before anything is built. Here are
string lengths, shares of nulls, foreign keys, uniqueness, quantiles, means, and distributions against CURRENT: signs of
a fault that no single row shows. They warn and stop nothing.

A foreign key is a share of nulls: the frame's left join leaves NULL where the other table has no row. This module is
data; `great_expectations` reads it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from codequarry.schemas.bundle.layout import embeddings_table
from codequarry.schemas.gates.suites import of_leg

SHORT, LONG = 300, 2_000
"""Most characters of signatures and first paragraphs, and of documentation; docs/CATALOG.md promises them."""
KIND = "[a-z][a-z0-9_ ]*"
ROLES = 127
"""Sum of all bits of SCIP's SymbolRole."""
MAX_DIVERGENCE = 0.1
"""Largest Kullback-Leibler divergence from CURRENT, in nats: a kind with a tenth of the rows goes."""


@dataclass(frozen=True, slots=True)
class NativeExpectation:
    """One expectation, as Great Expectations calls it, and the limits of what it finds."""

    name: str
    """Description of the quantity, for people."""
    type: str
    arguments: Mapping[str, Any]
    low: float | None = None
    high: float | None = None
    """Limits of the quantity; None for none."""

    @property
    def of_many(self) -> bool:
        """True for shares, quantiles, means and the like, which say nothing about few rows."""
        return self.low is not None or bool(self.high)

    @property
    def column(self) -> str:
        """The column that has to hold something, so that there is anything to ask."""
        listed = self.arguments.get("column_list") or (self.arguments.get("column_A"),)
        return self.arguments.get("column", listed[0])

    @property
    def allowed(self) -> str:
        """The limits, for people."""
        if self.low is None or self.low == self.high:
            return "0" if not self.high else f"at most {self.high:g}"
        return f"at least {self.low:g}" if self.high is None else f"{self.low:g} to {self.high:g}"


@dataclass(frozen=True, slots=True)
class NativeSuite:
    """The expectations of one table for Great Expectations."""

    table: str
    frame: str
    """SELECT over the tables that it reads."""
    key: tuple[str, ...]
    """Columns that choose the rows of a sample."""
    expectations: tuple[NativeExpectation, ...]
    distributions: Mapping[str, str] = field(default_factory=dict[str, str])
    """Columns whose shares are compared with those of CURRENT: the name of the expectation by column."""
    reads: tuple[str, ...] = ()
    """Other tables that the frame reads."""

    def digest(self, files: Mapping[str, str]) -> str:
        """Return the sha256 of the suite and of the files that it reads.

        Args:
            files: sha256 by name of the file.

        Returns:
            Hexadecimal digits.
        """
        lines = [repr(self), *(f"{name} {sha256}" for name, sha256 in sorted(files.items()))]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def divergence(name: str, column: str, weights: Mapping[str, float]) -> NativeExpectation:
    """Expect the shares of a column's values to be about those of CURRENT.

    Args:
        name: Name of the expectation.
        column: Column of the frame.
        weights: Share of each value in CURRENT; they sum to 1.

    Returns:
        The expectation.
    """
    arguments: dict[str, Any] = {
        "column": column,
        "partition_object": {"values": list(weights), "weights": list(weights.values())},
        "threshold": MAX_DIVERGENCE,
        "bucketize_data": False,
        # A value that CURRENT does not know would make the divergence infinite.
        "tail_weight_holdout": 0.01,
    }
    return NativeExpectation(name, "expect_column_kl_divergence_to_be_less_than", arguments, high=MAX_DIVERGENCE)


def _range(name: str, column: str, low: float | None, high: float | None) -> NativeExpectation:
    return NativeExpectation(
        name, "expect_column_values_to_be_between", {"column": column, "min_value": low, "max_value": high}, high=0
    )


def _longest(name: str, column: str, most: int) -> NativeExpectation:
    arguments = {"column": column, "min_value": 0, "max_value": most}
    return NativeExpectation(name, "expect_column_value_lengths_to_be_between", arguments, high=0)


def _wording(name: str, column: str, pattern: str) -> NativeExpectation:
    arguments = {"column": column, "regex": f"^{pattern}$"}
    return NativeExpectation(name, "expect_column_values_to_match_regex", arguments, high=0)


def _nulls(name: str, column: str, percent: float) -> NativeExpectation:
    arguments = {"column": column, "mostly": 1 - percent / 100}
    return NativeExpectation(name, "expect_column_values_to_not_be_null", arguments, high=percent)


def _unique(name: str, *columns: str) -> NativeExpectation:
    return NativeExpectation(name, "expect_compound_columns_to_be_unique", {"column_list": list(columns)}, high=0)


def _distinct(name: str, column: str, least: float) -> NativeExpectation:
    arguments = {"column": column, "min_value": least, "max_value": 1}
    return NativeExpectation(name, "expect_column_proportion_of_unique_values_to_be_between", arguments, least, 1)


def _quantile(name: str, column: str, quantile: float, low: float, high: float) -> NativeExpectation:
    ranges = {"quantiles": [quantile], "value_ranges": [[low, high]]}
    arguments = {"column": column, "quantile_ranges": ranges, "allow_relative_error": False}
    return NativeExpectation(name, "expect_column_quantile_values_to_be_between", arguments, low, high)


def _aggregate(name: str, measure: str, column: str, low: float, high: float) -> NativeExpectation:
    """Expect the mean or stdev of a column between two limits."""
    arguments = {"column": column, "min_value": low, "max_value": high}
    return NativeExpectation(name, f"expect_column_{measure}_to_be_between", arguments, low, high)


FILES = NativeSuite(
    "files",
    "SELECT repo, path, skip_reason, CASE WHEN skip_reason = '' THEN size_bytes END AS indexed_bytes, "
    "CASE WHEN skip_reason = '' THEN sha256 END AS indexed_sha256, (skip_reason = '')::INT AS indexed, "
    "replace(skip_reason, '-', '_') AS reason FROM files",
    ("repo", "path"),
    (
        _longest("paths of more than 1,024 characters", "path", 1_024),
        _wording("reasons for skipping that are no words", "reason", f"({KIND})?"),
        _aggregate("share of files that are indexed", "mean", "indexed", 0.05, 1),
        _distinct("share of indexed files with a text of their own", "indexed_sha256", 0.2),
        _quantile("median size of an indexed file in bytes", "indexed_bytes", 0.5, 1, 100_000),
    ),
)

CHUNKS = NativeSuite(
    "chunks",
    "SELECT chunk.repo, chunk.path, chunk_id, lang, kind, doc, signature, hash(text)::VARCHAR AS content, "
    "strlen(text) AS text_bytes, "
    # Great Expectations answers the second of two quantiles of a column with the first.
    "text_bytes AS most_bytes, "
    "end_line - start_line + 1 AS lines, CASE WHEN qualified_name = '' THEN '' ELSE node.named END AS definition "
    "FROM chunks AS chunk LEFT JOIN (SELECT DISTINCT repo, path, qualified_name AS named FROM ast_nodes) AS node "
    "ON (node.repo, node.path, node.named) = (chunk.repo, chunk.path, chunk.qualified_name)",
    ("chunk_id",),
    (
        _longest("documentation of chunks above 300 characters", "doc", SHORT),
        _longest("signatures of chunks above 300 characters", "signature", SHORT),
        _wording("kinds of chunks that are no words", "kind", KIND),
        _nulls("percent of chunks in a definition that no table knows", "definition", 1),
        _distinct("share of chunks with a text of their own", "content", 0.2),
        _quantile("median size of a chunk in bytes", "text_bytes", 0.5, 40, 4_000),
        _quantile("size of a chunk that 1 % exceed, in bytes", "most_bytes", 0.99, 100, 20_000),
        _quantile("median lines of a chunk", "lines", 0.5, 1, 100),
    ),
    {"kind": "divergence of kinds of chunks", "lang": "divergence of languages of chunks"},
    ("ast_nodes",),
)

AST_NODES = NativeSuite(
    "ast_nodes",
    "SELECT node.repo, node.path, qualified_name, start_byte, name_start_byte, kind, doc, signature, "
    "end_line - start_line + 1 AS lines, "
    # Languages with receivers define methods of types of another file.
    "CASE WHEN parent = '' THEN '' ELSE outer_node.named END AS parent "
    "FROM ast_nodes AS node LEFT JOIN (SELECT DISTINCT repo, qualified_name AS named FROM ast_nodes) AS outer_node "
    "ON (outer_node.repo, outer_node.named) = (node.repo, node.parent)",
    ("repo", "path", "start_byte"),
    (
        _unique("definitions listed twice", "repo", "path", "qualified_name", "start_byte", "name_start_byte"),
        _longest("documentation above 2,000 characters", "doc", LONG),
        _longest("signatures above 300 characters", "signature", SHORT),
        _wording("kinds of definitions that are no words", "kind", KIND),
        _nulls("percent of definitions in a parent that no table knows", "parent", 30),
        _quantile("median lines of a definition", "lines", 0.5, 1, 100),
    ),
    {"kind": "divergence of kinds of definitions"},
)

AST_MEMBERS = NativeSuite(
    "ast_members",
    "SELECT repo, path, qualified_name, start_byte, name_start_byte, kind, doc, signature FROM ast_members",
    ("repo", "path", "name_start_byte"),
    (
        _unique("members listed twice", "repo", "path", "qualified_name", "start_byte", "name_start_byte"),
        _longest("documentation of members above 2,000 characters", "doc", LONG),
        _longest("signatures of members above 300 characters", "signature", SHORT),
        _wording("kinds of members that are no words", "kind", KIND),
    ),
    {"kind": "divergence of kinds of members"},
)

CST_NODES = NativeSuite(
    "cst_nodes",
    "SELECT repo, path, chunk_id, kind, count AS leaves, count AS most_leaves FROM cst_nodes",
    ("repo", "path", "chunk_id", "kind"),
    (
        _longest("kinds of leaves of more than 100 characters", "kind", 100),
        _quantile("median leaves of a kind in a chunk", "leaves", 0.5, 1, 50),
        _quantile("leaves of a kind in a chunk that 1 % exceed", "most_leaves", 0.99, 1, 5_000),
    ),
    {"kind": "divergence of kinds of leaves"},
)

MODULES = NativeSuite(
    "modules",
    "SELECT repo, path, nullif(module, '') AS module, doc, fan_out, lines, "
    "len(imports) - len(external) AS internal_imports, "
    "CASE WHEN lines > 0 THEN comment_lines / lines END AS comment_share FROM modules",
    ("repo", "path"),
    (
        _nulls("percent of modules without a name", "module", 1),
        _longest("documentation of modules above 300 characters", "doc", SHORT),
        _range("modules with more external imports than imports", "internal_imports", 0, None),
        _aggregate("mean share of comment lines", "mean", "comment_share", 0, 0.7),
        _quantile("modules imported by a module that 5 % exceed", "fan_out", 0.95, 0, 100),
    ),
)

SCIP_SYMBOLS = NativeSuite(
    "scip_symbols",
    "SELECT one.repo, one.path, one.symbol, kind, scheme, nullif(display_name, '') AS display_name, "
    "CASE WHEN enclosing_symbol = '' THEN '' ELSE outer_symbol.known END AS enclosing "
    "FROM scip_symbols AS one LEFT JOIN (SELECT DISTINCT repo, symbol AS known FROM scip_symbols) AS outer_symbol "
    "ON (outer_symbol.repo, outer_symbol.known) = (one.repo, one.enclosing_symbol)",
    ("repo", "path", "symbol"),
    (
        _nulls("percent of SCIP symbols without a name for people", "display_name", 50),
        _nulls("percent of SCIP symbols in a symbol that no table knows", "enclosing", 50),
        _wording("kinds of SCIP symbols that are no words", "kind", f"({KIND})?"),
    ),
    {"kind": "divergence of kinds of SCIP symbols"},
)

SCIP_OCCURRENCES = NativeSuite(
    "scip_occurrences",
    "SELECT repo, path, symbol, start_byte, roles, is_definition::INT AS is_definition, start_line, end_line, "
    "start_column, enclosing_start_byte FROM scip_occurrences",
    ("repo", "path", "start_byte", "symbol"),
    (
        _range("SCIP occurrences with an unknown role", "roles", 0, ROLES),
        _range("SCIP occurrences at a negative column", "start_column", 0, None),
        _range("SCIP occurrences enclosed from before the file", "enclosing_start_byte", -1, None),
        NativeExpectation(
            "SCIP occurrences that end on a line before they start",
            "expect_column_pair_values_a_to_be_greater_than_b",
            {"column_A": "end_line", "column_B": "start_line", "or_equal": True},
            high=0,
        ),
        _aggregate("share of SCIP occurrences that define", "mean", "is_definition", 0.005, 0.95),
    ),
)


def vectors_suite(leg: str) -> NativeSuite:
    """Return the suite of the vectors of a dense index."""
    table, suffix = embeddings_table(leg), of_leg(leg)
    return NativeSuite(
        table,
        "SELECT chunk_id, hash(vector)::VARCHAR AS digest, vector[1]::DOUBLE AS first_number, "
        f"list_avg(vector::FLOAT[])::DOUBLE AS middle, list_max(vector::FLOAT[])::DOUBLE AS largest FROM {table}",
        ("chunk_id",),
        (
            _distinct(f"share of different vectors{suffix}", "digest", 0.2),
            _aggregate(f"mean number of the vectors{suffix}", "mean", "middle", -0.2, 0.2),
            _aggregate(f"spread of the first number of the vectors{suffix}", "stdev", "first_number", 1e-4, 1),
            _quantile(f"median of the largest number of a vector{suffix}", "largest", 0.5, 0.01, 0.9),
        ),
    )


NATIVE_SUITES: dict[str, NativeSuite] = {
    suite.table: suite
    for suite in (FILES, CHUNKS, AST_NODES, AST_MEMBERS, CST_NODES, MODULES, SCIP_SYMBOLS, SCIP_OCCURRENCES)
}
"""Every suite but those of vectors, by table."""

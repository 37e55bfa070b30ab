"""Expectations about the rows of a table, as data that SQL reads.

The gate of every publish, ``import``, ``doctor`` and the blocking checks of Dagster run them over every row. What is
measured of a whole table, its shares, quantiles and distributions, belongs to Great Expectations
(``pipelines/gates/native_suites.py``).

A suite is the expectations of one table over its *frame*. A frame is a SELECT of the table's columns and of what other
tables say of its rows, so that one row is enough to judge an expectation. No column of a frame is ever NULL or NaN.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# What DuckDB returns is unknown to the checker.

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb

EXAMPLES = 3
"""Most offending rows that are shown."""

BETWEEN, AMONG, UNIQUE = "between", "among", "unique"


@dataclass(frozen=True, slots=True)
class Expectation:
    """One rule."""

    name: str
    """Description of the rows that break it, for people; the name of the check."""
    type: str
    """One of this module's three."""
    columns: tuple[str, ...]
    """The columns it looks at; several only where they are to be unique together."""
    low: float | None = None
    high: float | None = None
    values: tuple[str | bool, ...] = ()
    mostly: float = 1.0
    """Share of the rows that have to follow it, in (0, 1]."""

    @property
    def allowed(self) -> str:
        """The threshold, for people."""
        return "0" if self.mostly == 1 else f"at most {100 * (1 - self.mostly):.0f} %"

    def violation_condition(self) -> str:
        """Return the SQL condition that is true for the rows that break it."""
        column = self.columns[0]
        if self.type == UNIQUE:
            return f"count(*) OVER (PARTITION BY {', '.join(self.columns)}) > 1"
        if self.type == AMONG:
            values = ", ".join(_literal(value) for value in self.values)
            return f"{column} NOT IN ({values})"
        below = [f"{column} < {self.low}"] if self.low is not None else []
        above = [f"{column} > {self.high}"] if self.high is not None else []
        return " OR ".join(below + above)


@dataclass(frozen=True, slots=True)
class Suite:
    """The expectations of one table."""

    table: str
    frame: str
    """SELECT over the tables and over the frames of `needs`."""
    expectations: tuple[Expectation, ...]
    key: tuple[str, ...]
    """Columns that identify a row for people."""
    needs: tuple[str, ...] = field(default=())
    """Suites whose frames this one reads, under the names of their tables."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Count of the rows that broke an expectation."""

    expectation: Expectation
    rows: int
    broken: int
    examples: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Result of the comparison with the share of rows that have to follow it."""
        return not self.rows or (self.rows - self.broken) / self.rows >= self.expectation.mostly

    @property
    def count_text(self) -> str:
        """The count, for people."""
        if self.expectation.mostly == 1:
            return str(self.broken)
        return f"{100 * self.broken / max(1, self.rows):.1f} % ({self.broken} of {self.rows})"


def between(name: str, column: str, low: float | None, high: float | None = None) -> Expectation:
    """Expect values of a column between two limits.

    Args:
        name: Name of the check.
        column: Column of the frame.
        low: Least value; None for no lower limit.
        high: Largest value; None for no upper limit.

    Returns:
        The expectation.
    """
    return Expectation(name, BETWEEN, (column,), low, high)


def among(name: str, column: str, values: Iterable[str]) -> Expectation:
    """Expect one of the values in a column."""
    return Expectation(name, AMONG, (column,), values=tuple(sorted(values)))


def holds(name: str, column: str, mostly: float = 1.0) -> Expectation:
    """Expect a column to be true."""
    return Expectation(name, AMONG, (column,), values=(True,), mostly=mostly)


def unique(name: str, *columns: str) -> Expectation:
    """Expect no two rows to agree in the columns."""
    return Expectation(name, UNIQUE, columns)


def build_frames(connection: duckdb.DuckDBPyConnection, suites: Iterable[Suite]) -> None:
    """Make each suite's frame a table of schema ``frames``, which hides the table of the same name.

    Args:
        connection: Session that has the tables.
        suites: Suites to build; those that others need come before them.
    """
    connection.execute("CREATE SCHEMA IF NOT EXISTS frames")
    connection.execute("SET search_path = 'frames,main'")
    for suite in suites:
        # Unqualified, so that a frame of this name reads the table and not itself.
        connection.execute(f"CREATE TABLE frames.{suite.table} AS {suite.frame}")


def run_suite(connection: duckdb.DuckDBPyConnection, suite: Suite) -> tuple[Outcome, ...]:
    """Run every expectation of a suite over its frame, which `build_frames` made; one scan when none is broken."""
    frame = f"frames.{suite.table}"
    expectations = suite.expectations
    plain = [each for each in expectations if each.type != UNIQUE]
    row_counts = ", ".join(["count(*)", *(f"count(*) FILTER (WHERE {each.violation_condition()})" for each in plain)])
    rows, *found = connection.execute(f"SELECT {row_counts} FROM {frame}").fetchone() or (0,)
    broken = dict(zip((each.name for each in plain), found, strict=True))
    for each in expectations:
        if each.name not in broken:
            doubled = f"SELECT count(*) AS n FROM {frame} GROUP BY {', '.join(each.columns)} HAVING n > 1"
            (broken[each.name],) = connection.execute(f"SELECT coalesce(sum(n), 0) FROM ({doubled})").fetchone() or (0,)
    return tuple(
        Outcome(each, rows, int(broken[each.name]), _examples(connection, suite, each) if broken[each.name] else ())
        for each in expectations
    )


def example_of(row: Mapping[str, Any]) -> str:
    """Return one offending row as text.

    >>> example_of({"path": "a.py", "start_byte": 3})
    'path=a.py start_byte=3'
    """
    return " ".join(f"{name}={value}" for name, value in row.items())


def shown_columns(suite: Suite, expectation: Expectation) -> Sequence[str]:
    """Return the columns of an offending row that people see."""
    return tuple(dict.fromkeys((*suite.key, *expectation.columns)))


def _examples(connection: duckdb.DuckDBPyConnection, suite: Suite, expectation: Expectation) -> tuple[str, ...]:
    columns = shown_columns(suite, expectation)
    listed = ", ".join(columns)
    clause = "QUALIFY" if expectation.type == UNIQUE else "WHERE"
    rows = connection.execute(
        f"SELECT {listed} FROM frames.{suite.table} {clause} {expectation.violation_condition()} "
        f"ORDER BY ALL LIMIT {EXAMPLES}"
    ).fetchall()
    return tuple(example_of(dict(zip(columns, row, strict=True))) for row in rows)


def _literal(value: str | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else "'{}'".format(value.replace("'", "''"))

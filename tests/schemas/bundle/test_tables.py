"""The one writer of tables: bytes follow the rows, not how they came."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codequarry.schemas.bundle import tables
from codequarry.schemas.bundle.tables import CST_NODES, SCHEMAS, TableWriter, write_table


def rows(count: int) -> list[tuple[object, ...]]:
    return [("r", f"{at // 7}.py", at + 1, f"kind{at % 3}", at) for at in range(count)]


def table(of: list[tuple[object, ...]]) -> pa.Table:
    columns = zip(*of, strict=True) if of else ([] for _ in CST_NODES.names)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, CST_NODES, strict=True)], CST_NODES)


@given(st.integers(0, 60), st.lists(st.tuples(st.booleans(), st.integers(1, 20)), max_size=8))
def test_bytes_do_not_depend_on_how_the_rows_arrive(
    tmp_path_factory: pytest.TempPathFactory, count: int, parts: list[tuple[bool, int]]
) -> None:
    folder = tmp_path_factory.mktemp("tables")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "_ROW_GROUP", 16)
        whole = rows(count)
        write_table(folder / "whole.parquet", table(whole), CST_NODES)
        with TableWriter(folder / "parts.parquet", CST_NODES) as writer:
            at = 0
            for as_table, size in [*parts, (False, count)]:
                part = whole[at : at + size]
                at += size
                if as_table:
                    writer.write(table(part))
                else:
                    writer.extend(part)
    assert writer.rows == count
    assert (folder / "parts.parquet").read_bytes() == (folder / "whole.parquet").read_bytes()
    with pq.ParquetFile(folder / "parts.parquet") as file:
        assert file.read().equals(table(whole))
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    assert sizes == [min(16, count - start) for start in range(0, count, 16)]


def test_no_column_of_any_table_is_nullable() -> None:
    """DuckDB 2.0 answers a pushed-down IS NULL wrongly on some nullable columns."""
    assert [(name, field.name) for name, schema in SCHEMAS.items() for field in schema if field.nullable] == []


def test_every_column_says_what_it_holds() -> None:
    undescribed = [
        (name, field.name)
        for name, schema in SCHEMAS.items()
        for field in schema
        if not (field.metadata or {}).get(b"description", b"").decode().endswith((".", "…"))
    ]
    assert undescribed == []

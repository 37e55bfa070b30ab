"""docs/CATALOG.md, made from a catalog and the schemas: `python -m tests.contracts.pages.catalog_page` writes it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from codequarry.schemas.catalog.column_meanings import column_meanings
from codequarry.schemas.catalog.views import GROUPS, views
from codequarry.serving import CatalogSession, open_catalog
from tests.serving.bundles.bundle_factory import write_bundle
from tests.serving.bundles.corpus import PIECES

PAGE = Path(__file__).resolve().parents[3] / "docs" / "CATALOG.md"

INTRODUCTION = """\
# The catalog

Generated from the schemas (`python -m tests.contracts.pages.catalog_page`) and compared by a test.

Every fact about your code and its index is a row. On the command line `codequarry sql` asks one query, and lists the
tables when it gets none:

```console
$ codequarry sql "SELECT lang, count(*), sum(lines) FROM files WHERE skip_reason = '' GROUP BY lang"
```

Rows that are wider than the terminal are printed as lines of `column: value`; `--csv` and `--json` print every row.

In a notebook or a program, from any folder ([notebooks](../notebooks) has examples with pictures; the extra `notebook`
has what they need):

```python
from codequarry.serving import open_catalog

catalog = open_catalog("~/src/app/.codequarry/bundles")  # or open_catalog() below the folder of the settings
catalog.sql("SELECT path, fan_in FROM modules ORDER BY fan_in DESC LIMIT 10").show()
catalog.add_version("20261121T120000Z-0123abcd")  # its tables are before.files, before.chunks, …
catalog.refresh()  # a newer CURRENT, versions and searches that came since
```

A session holds its version, so that retention leaves it alone, reads the version's files and changes none of them; a
read-only folder will do. No statement of a session can write a file: rows leave by `fetchall()`, `df()` and the like.
What you create lies in the session's own database: in memory, or in the one of a `connection` that you bring, whose
queries read and write whatever you may.

## With other tools

Each version is a folder of DuckDB and Parquet files, for any program that reads these. It may be a copy, and
read-only. Such a program has the tables of that version, but not those of the session.

**DuckDB** from 1.4 on, in the version's folder:

```console
$ duckdb -readonly catalog.duckdb
```

From any other folder, `open.sql` beside the catalog tells the views where their files are:

```console
$ duckdb -readonly <folder>/catalog.duckdb -init <folder>/open.sql
```

It is one statement. In a program, run it yourself; `SET file_search_path` and `SET VARIABLE bundle` take a path too:

```python
connection = duckdb.connect(f"{folder}/catalog.duckdb", read_only=True)
connection.execute("SET VARIABLE bundle = (FROM bundle_folder)")
frame = connection.sql("SELECT path, fan_in FROM modules").df()  # or .pl(), .to_arrow_table()
```

Without it, a view that finds no file names the statement. The materialized tables need none.
The meanings below are comments in the catalog: `comment` of `duckdb_views()`, `duckdb_tables()`, `duckdb_columns()`.

**Polars and pandas** read the Parquet files. Above 1 MB of source, some tables have several:

```python
polars.scan_parquet(f"{folder}/tables/chunks.*parquet")
pandas.concat(map(pandas.read_parquet, Path(folder, "tables").glob("chunks.*parquet")))
```

## Values

Byte ranges are half-open offsets into the file, lines are 0-based and inclusive, sha256 values lower-case hex. ""
stands for "none"; no column is ever NULL, but for those that say so.
"""


def page(folder: Path) -> str:
    """The whole page. folder: an empty one to build a catalog in."""
    write_bundle(folder / "bundles", PIECES)
    with open_catalog(folder / "bundles", pools=folder / "none") as catalog:
        catalog.connection.execute(f"CREATE VIEW embeddings2 AS {views(16, 16)['embeddings']}")
        return "\n".join([INTRODUCTION, *_groups(catalog)])


def _groups(catalog: CatalogSession) -> Iterator[str]:
    for group, names in GROUPS.items():
        yield f"## {group}\n"
        for name, meaning in names.items():
            yield f"### {name}\n\n{meaning}\n\n| column | type | meaning |\n|---|---|---|"
            meanings = column_meanings(name)
            for column, kind, *_ in catalog.sql(f"DESCRIBE {name}").fetchall():
                shown = "FLOAT[dimensions]" if kind.startswith("FLOAT[") else kind
                yield f"| `{column}` | {shown} | {meanings.get(column, '')} |"
            yield ""


def undescribed(catalog: CatalogSession) -> set[str]:
    """Tables and views of a catalog that the page leaves out."""
    found = {name for (name,) in catalog.sql("SELECT table_name FROM information_schema.tables").fetchall()}
    return found - {name for names in GROUPS.values() for name in names}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        PAGE.write_text(page(Path(made)), encoding="utf-8")

"""One repository as `codequarry census`, `codequarry index`, Dagster and the catalog tell it: the same counts."""

import json
import os
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from codequarry.assets.project import sync_partitions
from codequarry.schemas.catalog.views import set_bundle
from tests.assets.test_reindex import materializations

FILES = {
    "alpha/broken.py": "def half(:\n    return 1\n",
    "alpha/use.py": "import os\nfrom alpha import alpha, alpha_box\n\nalpha(2)\n",
    "alpha/web/index.ts": "export * from './menu';\n",
    "alpha/web/menu.ts": "export function menu() { return 1; }\n",
    "alpha/tests/test_it.go": "package it\n\nfunc TestIt() {}\n",
    "alpha/poetry.lock": "x",
}
SUMMARY = {
    "files": r"files indexed +([\d,]+)",
    "skipped": r"files skipped +([\d,]+)",
    "chunks": r"chunks +([\d,]+)",
    "parsed": r"([\d,]+) of [\d,]+ files by syntax tree",
    "errors": r"([\d,]+) with errors",
    "definitions": r"([\d,]+) definitions",
    "references": r"([\d,]+) references",
    "modules": r"modules +([\d,]+)",
    "imports": r"of ([\d,]+) imports",
    "resolved": r"([\d,]+) of [\d,]+ imports",
}
SQL = {
    "files": "count(*) FILTER (skip_reason = '') FROM files",
    "skipped": "count(*) FILTER (skip_reason <> '') FROM files",
    "lines": "sum(lines) FROM files",
    "chunks": "count(*) FROM chunks",
    "parsed": "count(*) FILTER (parsed) FROM files",
    "errors": "count(*) FILTER (syntax_errors) FROM files",
    "definitions": "count(*) FROM ast_nodes",
    "references": "count(*) FROM ast_references",
    "leaf_kinds": "count(*) FROM cst_nodes",
    "modules": "count(*) FROM modules",
    "imports": "sum(len(imports)) FROM modules",
    "resolved": "sum(len(imports) - len(external)) FROM modules",
}


def told_by_dagster(made):
    """Counts of the metadata of each asset of the repository."""
    snapshot, chunks, syntax, modules = (
        made[f"repository_{asset}", "alpha"] for asset in ("snapshot", "chunks", "syntax", "modules")
    )
    assert chunks["chunks"] == chunks["dagster/row_count"]
    assert syntax["definitions"] == syntax["dagster/row_count"]
    assert modules["modules"] == modules["dagster/row_count"]
    assert snapshot["indexed_files"] == chunks["files"] == syntax["files"]
    assert modules["imports_external"] == modules["imports"] - modules["imports_resolved"]
    assert "| python | 3 | 3 | 1 |" in syntax["languages"]
    return {
        "files": chunks["files"],
        "skipped": snapshot["dagster/row_count"] - snapshot["indexed_files"],
        "chunks": chunks["chunks"],
        "parsed": syntax["parsed_files"],
        "errors": syntax["files_with_syntax_errors"],
        "definitions": syntax["definitions"],
        "references": syntax["references"],
        "leaf_kinds": syntax["leaf_kinds"],
        "modules": modules["modules"],
        "imports": modules["imports"],
        "resolved": modules["imports_resolved"],
    }


@pytest.mark.slow
def test_census_index_dagster_and_the_catalog_tell_the_same_counts(published, tmp_path):
    for path, text in FILES.items():
        published.write(path, text)
    published.configure("alpha")
    store = published.project.settings().paths.store

    def run(*arguments):
        folder = tmp_path / "elsewhere"
        folder.mkdir(exist_ok=True)
        environment = {**os.environ, "CODEQUARRY__PATHS__STORE": str(store), "COLUMNS": "120"}
        command = [sys.executable, "-m", "codequarry.pipelines.cli", *map(str, arguments)]
        return subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True)

    repository = published.folder / "repositories" / "alpha"
    (census,) = json.loads(run("census", repository, "--json").stdout)["repositories"]
    indexed = run("index", repository, "--verbose")
    summary = {name: re.search(pattern, indexed.stderr) for name, pattern in SUMMARY.items()}
    by_index = {name: int(found[1].replace(",", "")) for name, found in summary.items() if found}
    assert by_index.keys() == SUMMARY.keys()
    assert by_index["resolved"] == 3
    assert by_index["errors"] == 1

    sync_partitions(published.instance, published.project.settings())
    by_dagster = told_by_dagster(materializations(published.reindex()))
    assert {name: by_dagster[name] for name in by_index} == by_index

    folder = Path(indexed.stdout.strip())
    with closing(duckdb.connect(str(folder / "catalog.duckdb"), read_only=True)) as connection:
        connection.execute(set_bundle(str(folder)))
        by_catalog = {name: connection.execute(f"SELECT {sql}").fetchall()[0][0] for name, sql in SQL.items()}
    assert {name: by_catalog[name] for name in by_dagster} == by_dagster
    assert (census["files"], census["lines"]) == (by_catalog["files"], by_catalog["lines"])
    assert sum(each["files"] for each in census["skipped"].values()) == by_catalog["skipped"]

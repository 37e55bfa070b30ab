"""`codequarry sql`: queries and nothing else, over the catalog and nothing else."""

import csv
import io
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from codequarry.pipelines.cli.root import build_app
from codequarry.schemas.errors import InvalidArgumentError
from tests.serving.bundles.bundle_factory import VERSION, write_bundle
from tests.serving.bundles.corpus import PIECES


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundles")
    write_bundle(folder, PIECES)
    return folder


def run(root: Path, *arguments: str) -> str:
    done = CliRunner().invoke(build_app(), ["sql", "--root", str(root), *arguments])
    if done.exception is not None:
        raise done.exception
    return done.stdout


def test_without_a_query_it_lists_the_tables_with_what_they_hold(root):
    found = {row["table"]: row for row in json.loads(run(root, "--json"))}
    assert found["chunks"]["columns"] == 16
    assert found["chunks"]["rows are"].startswith("A row per chunk")
    assert {"manifests", "pools", "faiss_idmap_mat"} <= found.keys()
    assert "embeddings2" not in found


def test_a_query_is_printed_as_a_table_as_json_and_as_csv(root):
    query = "SELECT path, count(*) AS chunks FROM chunks GROUP BY path ORDER BY path"
    rows = json.loads(run(root, query, "--json"))
    assert rows[0].keys() == {"path", "chunks"}
    assert sum(row["chunks"] for row in rows) == len(PIECES)
    by_csv = list(csv.DictReader(io.StringIO(run(root, query, "--csv"))))
    assert [(row["path"], int(row["chunks"])) for row in by_csv] == [(row["path"], row["chunks"]) for row in rows]
    table = run(root, query)
    assert all(row["path"] in table for row in rows if row["path"].isprintable())
    with pytest.raises(InvalidArgumentError, match="leave one out"):
        run(root, query, "--csv", "--json")


def test_a_long_table_is_cut_and_says_so_and_csv_is_not(root):
    assert (
        "the first 100 rows"
        in CliRunner().invoke(build_app(), ["sql", "--root", str(root), "SELECT * FROM range(101)"]).output
    )
    assert len(run(root, "SELECT * FROM range(2500)", "--csv").splitlines()) == 2501


def test_rows_that_are_wider_than_the_terminal_are_printed_cell_by_cell(root, monkeypatch):
    query = "SELECT path, lang, text AS content FROM chunks ORDER BY chunk_id LIMIT 3"
    rows = json.loads(run(root, query, "--json"))
    lines = run(root, query).splitlines()
    assert [line.rstrip("-") for line in lines if line.startswith("row ")] == ["row 1 ", "row 2 ", "row 3 "]
    shown = [line.partition(": ")[::2] for line in lines if not line.startswith("row ")]
    assert [name.strip() for name, _ in shown] == [*rows[0]] * 3
    assert [value for name, value in shown if name.startswith("lang")] == [row["lang"] for row in rows]
    monkeypatch.setenv("COLUMNS", "800")
    assert run(root, query).split()[:3] == [*rows[0]]


def test_a_row_that_just_fits_stays_a_table(root, monkeypatch):
    # A cell has a space on either side.
    monkeypatch.setenv("COLUMNS", "24")
    assert "row 1" not in run(root, "SELECT repeat('a', 10) AS one, repeat('日', 5) AS two")
    monkeypatch.setenv("COLUMNS", "23")
    assert "row 1" in run(root, "SELECT repeat('a', 10) AS one, repeat('日', 5) AS two")


def test_the_list_of_tables_stays_a_table(root):
    assert "row 1" not in run(root)


def test_control_characters_do_not_reach_the_terminal(root):
    assert "\x1b" not in run(root, "SELECT chr(27) || '[2J' AS text")


@pytest.mark.parametrize(
    "query",
    [
        "COPY chunks TO 'out.csv'",
        "CREATE TABLE x (y INTEGER)",
        "SET threads = 9",
        "SELECT 1; SELECT 2",
        "ATTACH 'x.db'",
    ],
)
def test_what_is_no_query_is_refused(root, tmp_path, monkeypatch, query):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidArgumentError, match="expected"):
        run(root, query)
    assert not list(tmp_path.iterdir())


def test_no_file_outside_of_the_catalog_can_be_read(root, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("s3cret")
    for query in (
        f"SELECT * FROM read_text('{secret}')",
        f"SELECT * FROM '{secret}'",
        f"SELECT * FROM glob('{tmp_path}/*')",
    ):
        with pytest.raises(InvalidArgumentError) as caught:
            run(root, query)
        assert "s3cret" not in str(caught.value)


def test_a_mistake_is_explained_with_the_names_that_exist(root):
    with pytest.raises(InvalidArgumentError, match="qualified_name"):
        run(root, "SELECT qualifed_name FROM chunks")


def test_another_version_can_be_asked(root):
    assert json.loads(run(root, "SELECT version FROM manifests", "--version", VERSION, "--json")) == [
        {"version": VERSION}
    ]

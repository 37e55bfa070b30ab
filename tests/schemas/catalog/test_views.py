"""The catalog in the hands of DuckDB and pandas alone: from any folder, on a copy that cannot be written."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.catalog.views import GROUPS, OPEN_SQL, SET_BUNDLE, TABLES, limit_memory, views
from tests.machine import can_mount
from tests.serving.bundles.bundle_factory import write_bundle
from tests.serving.bundles.corpus import PIECES

PLAIN = """
import json, sys
import duckdb
connection = duckdb.connect(sys.argv[1], read_only=True)
print(json.dumps([connection.execute(statement).fetchall() for statement in sys.argv[2:]]))
assert "codequarry" not in {name.partition(".")[0] for name in sys.modules}
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> BundlePaths:
    """A copy of a version, with a quote in its path, that nobody may write."""
    folder = tmp_path_factory.mktemp("bundles")
    paths = write_bundle(folder, PIECES)
    moved = tmp_path_factory.mktemp("a copy") / "it's one"
    shutil.copytree(paths.path, moved)
    shutil.rmtree(folder)
    for each in (*moved.rglob("*"), moved):
        each.chmod(0o500 if each.is_dir() else 0o400)
    return BundlePaths(moved)


def ask(paths: BundlePaths, current_folder: Path, *statements: str) -> list[list[list[object]]]:
    """Answers of a process of its own that knows DuckDB and nothing of this project."""
    done = subprocess.run(
        [sys.executable, "-c", PLAIN, str(paths.catalog), *statements],
        cwd=current_folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def counts(paths: BundlePaths) -> list[str]:
    return [f"SELECT count(*) FROM {name}" for name in (*views(16), *TABLES)]


def test_every_view_and_table_answers_in_the_folder_of_the_version(copy):
    answers = ask(copy, copy.path, *counts(copy))
    assert len(answers) == len(views(16)) + len(TABLES)
    assert answers[list(views(16)).index("chunks")] == [[len(PIECES)]]


def test_and_in_any_other_folder_after_the_one_statement_of_the_file_beside_it(copy, tmp_path):
    expected = ask(copy, copy.path, *counts(copy))
    assert ask(copy, tmp_path, copy.open_sql.read_text(), *counts(copy))[1:] == expected
    assert ask(copy, tmp_path, SET_BUNDLE, "FROM bundle_folder")[1:] == [[[str(copy.path)]]]


def test_the_search_path_of_duckdb_does_as_well(copy, tmp_path):
    quoted = str(copy.path).replace("'", "''")
    expected = ask(copy, copy.path, *counts(copy))
    assert ask(copy, tmp_path, f"SET file_search_path = '{quoted}'", *counts(copy))[1:] == expected


@pytest.mark.parametrize("name", ["chunks", "files", "embeddings", "faiss_idmap", "v_faiss_join", "v_documents"])
def test_elsewhere_a_view_says_what_to_run(copy, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with duckdb.connect(str(copy.catalog), read_only=True) as connection:
        with pytest.raises(duckdb.IOException) as caught:
            connection.execute(f"SELECT * FROM {name}")
        assert SET_BUNDLE in str(caught.value)
        connection.execute(SET_BUNDLE)
        assert connection.execute(f"SELECT count(*) FROM {name}").fetchone() is not None


def test_the_catalog_may_be_attached_under_any_name(copy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with duckdb.connect() as connection:
        quoted = str(copy.catalog).replace("'", "''")
        connection.execute(f"ATTACH '{quoted}' AS other (READ_ONLY)")
        connection.execute("SET VARIABLE bundle = (FROM other.bundle_folder)")
        for name in ("chunks", "v_faiss_join", "v_documents"):
            assert connection.execute(f"SELECT count(*) FROM other.{name}").fetchall() == [(len(PIECES),)]


def test_data_frames_come_from_the_views_and_from_the_files(copy, tmp_path, monkeypatch):
    pandas = pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    with duckdb.connect(str(copy.catalog), read_only=True) as connection:
        connection.execute(SET_BUNDLE)
        viewed = connection.sql("SELECT chunk_id, path, text FROM chunks ORDER BY chunk_id").df()
        arrow = connection.sql("SELECT chunk_id FROM chunks ORDER BY chunk_id").to_arrow_table()
    read = pandas.read_parquet(copy.table("chunks"), columns=["chunk_id", "path", "text"])
    assert viewed["text"].tolist() == read.sort_values("chunk_id")["text"].tolist()
    assert arrow["chunk_id"].to_pylist() == viewed["chunk_id"].tolist()


def test_polars_reads_the_files_too(copy, tmp_path, monkeypatch):
    polars = pytest.importorskip("polars")
    monkeypatch.chdir(tmp_path)
    read = polars.scan_parquet(f"{copy.tables}/chunks.*parquet").select("chunk_id", "path").collect()
    with duckdb.connect(str(copy.catalog), read_only=True) as connection:
        connection.execute(SET_BUNDLE)
        viewed = connection.sql("SELECT chunk_id, path FROM chunks").pl()
    assert viewed.sort("chunk_id").equals(read.sort("chunk_id"))


def test_every_table_view_and_column_has_the_comment_that_the_documentation_shows(copy):
    with duckdb.connect(str(copy.catalog), read_only=True) as connection:
        of_relations = dict(
            connection.execute(
                "SELECT view_name, comment FROM duckdb_views() WHERE NOT internal "
                "UNION ALL SELECT table_name, comment FROM duckdb_tables()"
            ).fetchall()
        )
        silent = connection.execute(
            "SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal AND coalesce(comment, '') = ''"
        ).fetchall()
    meanings = {name: meaning for group in GROUPS.values() for name, meaning in group.items()}
    assert of_relations.keys() == {*views(16), *TABLES}
    assert of_relations == {name: meanings[name] for name in of_relations}
    assert silent == []


def test_an_older_duckdb_can_open_the_file(copy):
    with duckdb.connect(str(copy.catalog), read_only=True) as connection:
        ((tags,),) = connection.execute("SELECT tags FROM duckdb_databases() WHERE NOT internal").fetchall()
    assert tags["storage_version"].startswith("v1.4")


def test_the_file_of_the_statement_names_no_folder(copy):
    assert copy.open_sql.read_text() == OPEN_SQL
    assert OPEN_SQL.rstrip().endswith(f"{SET_BUNDLE};")


def test_a_read_only_mount_will_do(copy, tmp_path):
    view = tmp_path / "view"
    view.mkdir()
    mount = f'mount --bind "{copy.path}" {view} && mount -o remount,bind,ro {view}'
    if not can_mount(mount):
        pytest.skip("no user namespaces here, so that nothing can be mounted")
    asked = "SELECT count(*) FROM v_documents"
    command = f'{mount} && exec "{sys.executable}" -c "$PROGRAM" {view}/catalog.duckdb "$OPEN" "{asked}"'
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PROGRAM": PLAIN, "OPEN": SET_BUNDLE},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[1] == [[len(PIECES)]]


def test_a_session_within_its_limit_keeps_the_rest_in_files(tmp_path: Path) -> None:
    rows = 3_000_000

    def held_bytes(connection: duckdb.DuckDBPyConnection) -> int:
        connection.execute(f"CREATE TABLE texts AS SELECT lpad(range::VARCHAR, 64, '0') AS text FROM range({rows})")
        ((found,),) = connection.execute("SELECT sum(memory_usage_bytes) FROM duckdb_memory()").fetchall()
        return found

    spill = tmp_path / "it's spilled"
    with duckdb.connect() as plain, duckdb.connect() as limited:
        for statement in limit_memory(str(spill), 10_000_000):
            limited.execute(statement)
        assert held_bytes(limited) < held_bytes(plain)
        assert list(spill.iterdir())
        equal = "SELECT count(*), min(text), max(text) FROM texts"
        assert limited.execute(equal).fetchall() == plain.execute(equal).fetchall()
    assert not spill.exists()

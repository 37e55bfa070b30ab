"""SQL has no way to write a file, whatever a statement is called: RW row 28, through the command and in a session."""

import os
import threading
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner

from codequarry.pipelines.cli.root import build_app
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.serving import open_catalog
from codequarry.serving.sql.confinement import PREFIX, ReadOnlyFiles, confined_connection
from tests.serving.bundles.bundle_factory import VERSION, write_bundle
from tests.serving.bundles.corpus import PIECES

# {v}: the version's folder, {b}: the same as the session names it, {h}: the home folder.
WRITES = """
COPY (SELECT 1) TO '{v}/x.csv'
COPY (SELECT 1) TO 'x.csv'
COPY (SELECT 1) TO '{h}/x.csv'
COPY (SELECT 1) TO '{b}/x.csv'
COPY (SELECT 1) TO 'file://{v}/x.csv'
COPY (SELECT 1) TO '/dev/fd/1'
COPY (SELECT 1) TO '{v}/x.parquet' (FORMAT parquet)
COPY (SELECT 1) TO '{v}/x.json' (FORMAT json)
COPY (SELECT 1 AS a, 2 AS b) TO '{v}/parts' (PARTITION_BY (a))
COPY (SELECT 1 AS a) TO '{v}/parts' (FORMAT parquet, PER_THREAD_OUTPUT)
COPY (SELECT 1) TO '{v}/tables/files.parquet' (FORMAT parquet)
COPY (SELECT 1) TO '{v}/catalog.duckdb'
COPY (SELECT 1) TO '{v}/catalog.duckdb.wal'
COPY chunks TO '{v}/manifest.json' (FORMAT json)
COPY chunks FROM '{v}/x.csv'
COPY FROM DATABASE catalog TO memory
EXPLAIN COPY (SELECT 1) TO '{v}/x.csv'
EXPLAIN ANALYZE COPY (SELECT 'evil') TO '{v}/x.csv'
EXPLAIN ANALYZE COPY (SELECT 'evil') TO '{b}/x.csv'
EXPLAIN ANALYZE COPY (SELECT 'evil') TO 'file://{v}/x.csv'
EXPLAIN ANALYZE COPY (SELECT 'evil') TO 'x.csv'
EXPLAIN ANALYZE COPY (SELECT 'evil') TO '{h}/x.csv'
EXPLAIN ANALYZE COPY (SELECT 'evil') TO '{v}/../x.csv'
EXPLAIN ANALYZE COPY (SELECT 'evil') TO '{v}/tables/chunks.parquet' (FORMAT parquet)
EXPLAIN ANALYZE COPY (SELECT 'evil') TO '{b}/tables/chunks.parquet' (FORMAT parquet)
EXPLAIN ANALYZE COPY (SELECT 'evil') TO '{v}/catalog.duckdb'
EXPLAIN ANALYZE COPY (SELECT 'evil') TO '{v}/catalog.duckdb.wal'
EXPLAIN ANALYZE COPY (SELECT 'evil') TO '{b}/catalog.duckdb.wal'
EXPLAIN ANALYZE COPY (SELECT 'evil') TO '{v}/catalog.duckdb.wal.checkpoint'
EXPLAIN ANALYZE COPY (SELECT 'evil') TO '{v}/catalog.duckdb.wal.recovery'
EXPLAIN ANALYZE COPY (SELECT 1 AS a, 2 AS b) TO '{v}/parts' (PARTITION_BY (a))
EXPLAIN ANALYZE COPY (SELECT 1 AS a, 2 AS b) TO '{b}/parts' (PARTITION_BY (a), OVERWRITE)
EXPLAIN (ANALYZE) COPY (SELECT 'evil') TO '{v}/x.csv'
EXPLAIN (ANALYZE, FORMAT json) COPY (SELECT 'evil') TO '{v}/x.csv'
/* a query */ EXPLAIN /* of */ ANALYZE /* it */ COPY (SELECT 'evil') TO '{v}/x.csv'
EXPLAIN ANALYZE EXPORT DATABASE '{v}/e'
EXPLAIN ANALYZE INSERT INTO catalog.files_mat SELECT * FROM catalog.files_mat
EXPLAIN ANALYZE DELETE FROM catalog.files_mat
EXPLAIN ANALYZE UPDATE catalog.files_mat SET path = 'x'
EXPLAIN ANALYZE CREATE TABLE catalog.x AS SELECT 1
EXPLAIN ANALYZE CREATE TABLE x AS SELECT 1
EXPLAIN ANALYZE ATTACH 'x.db'
EXPLAIN ANALYZE SET temp_directory = '{v}'
EXPLAIN ANALYZE CALL enable_logging(storage = 'file', storage_path = '{v}/logs')
EXPLAIN ANALYZE SELECT * FROM enable_logging(storage = 'file', storage_path = '{v}/logs')
EXPLAIN ANALYZE CREATE PERSISTENT SECRET s (TYPE http)
EXPLAIN ANALYZE EXECUTE p
EXPORT DATABASE '{v}/e'
EXPORT DATABASE '{b}/e' (FORMAT parquet)
IMPORT DATABASE '{v}/e'
ATTACH '{v}/x.db'
ATTACH 'x.db' AS x
ATTACH '{b}/x.db' AS x
ATTACH '{v}/catalog.duckdb' AS x
ATTACH '{b}/catalog.duckdb' AS x
ATTACH '{v}/catalog.duckdb' AS x (READ_ONLY false)
DETACH catalog
USE catalog; CREATE TABLE x (y INTEGER)
CREATE TABLE catalog.x (y INTEGER)
CREATE OR REPLACE VIEW catalog.chunks AS SELECT 1
CREATE TABLE x AS SELECT * FROM chunks
CREATE MACRO f() AS TABLE (COPY (SELECT 1) TO '{v}/x.csv')
CREATE TEMP TABLE x AS SELECT range FROM range(1000)
CREATE PERSISTENT SECRET s (TYPE http)
CREATE PERSISTENT SECRET s IN local_file (TYPE http)
CREATE SECRET s (TYPE http)
DROP VIEW chunks
DELETE FROM catalog.files_mat
UPDATE catalog.files_mat SET path = 'x'
INSERT INTO catalog.files_mat SELECT * FROM catalog.files_mat
TRUNCATE catalog.files_mat
MERGE INTO catalog.files_mat USING files ON true WHEN MATCHED THEN DELETE
ALTER TABLE catalog.files_mat ADD COLUMN x INTEGER
WITH x AS (COPY (SELECT 1) TO '{v}/x.csv') SELECT * FROM x
WITH x AS (INSERT INTO catalog.files_mat SELECT * FROM catalog.files_mat RETURNING *) SELECT count(*) FROM x
WITH x AS (DELETE FROM catalog.files_mat RETURNING *) SELECT count(*) FROM x
SELECT * FROM (COPY (SELECT 1) TO '{v}/x.csv')
SELECT * FROM query('COPY (SELECT 1) TO ''{v}/x.csv''')
SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT * FROM read_text(''/etc/hostname'')'))
SELECT 1; COPY (SELECT 1) TO '{v}/x.csv'
COPY (SELECT 1) TO '{v}/x.csv'; SELECT 1
PREPARE p AS COPY (SELECT 1) TO '{v}/x.csv'
PREPARE p AS COPY (SELECT 1) TO '{v}/x.csv'; EXECUTE p
EXECUTE p
INSTALL httpfs
FORCE INSTALL httpfs FROM '{v}'
LOAD httpfs
LOAD '{v}/x.duckdb_extension'
UPDATE EXTENSIONS
SET enable_external_access = true
SET disabled_filesystems = ''
RESET disabled_filesystems
SET allowed_directories = ['/']
SET allowed_paths = ['{v}/x.csv']
SET lock_configuration = false
SET temp_directory = '{v}'
SET GLOBAL temp_directory = '{h}'
SET secret_directory = '{v}'
SET extension_directory = '{v}'
SET home_directory = '{v}'
SET log_query_path = '{v}/log'
SET profiling_output = '{v}/profile.json'
SET enable_profiling = 'json'
PRAGMA profiling_output = '{v}/profile.json'
PRAGMA enable_profiling
PRAGMA temp_directory = '{v}'
PRAGMA add_parquet_key('k', 'aaaaaaaaaaaaaaaa')
PRAGMA import_database('{v}/e')
PRAGMA copy_database(catalog, memory)
CALL enable_logging(storage = 'file', storage_path = '{v}/logs')
CALL enable_profiling(save_location = '{v}/profile.json')
CALL checkpoint(catalog)
CALL force_checkpoint()
CALL truncate_duckdb_logs()
SELECT * FROM enable_logging(storage = 'file', storage_path = '{v}/logs')
SELECT * FROM enable_profiling(save_location = '{v}/profile.json')
SELECT * FROM checkpoint()
SELECT * FROM force_checkpoint()
SELECT * FROM register_external_resource('x')
SELECT * FROM create_external_resource('x')
SELECT write_log('x', level := 'ERROR')
SELECT * FROM pragma_storage_info('chunks_mat') LIMIT 1
CHECKPOINT catalog
FORCE CHECKPOINT
VACUUM ANALYZE
VACUUM catalog.files_mat
ANALYZE
BEGIN TRANSACTION
SET VARIABLE bundle = '/'
PIVOT chunks ON lang USING count(*)
SELECT a FROM range(3000000) t(a) ORDER BY md5(a::VARCHAR) LIMIT 1
""".strip().splitlines()


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Bundle root, home and current folder, each where the other two are not."""
    folders = {name: tmp_path / name for name in ("bundles", "home", "here")}
    for folder in folders.values():
        folder.mkdir()
    write_bundle(folders["bundles"], PIECES)
    monkeypatch.setenv("HOME", str(folders["home"]))
    monkeypatch.chdir(folders["here"])
    return folders


def statement(template: str, places: dict[str, Path]) -> str:
    version = places["bundles"] / "versions" / VERSION
    names = {"{v}": str(version), "{b}": f"{PREFIX}{version}", "{h}": str(places["home"])}
    for name, value in names.items():
        template = template.replace(name, value)
    return template


def tree(places: dict[str, Path]) -> dict[str, str]:
    return {
        str(path): sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for folder in places.values()
        for path in folder.rglob("*")
    }


def test_the_table_is_as_long_as_promised():
    assert len(WRITES) == len(set(WRITES)) >= 75


@pytest.mark.slow
def test_row_28_no_statement_of_the_command_writes_a_file(places):
    """A third of the statements, since each opens the version anew; a session gets all."""
    before, app = tree(places), build_app()
    for template in WRITES[::3]:
        done = CliRunner().invoke(app, ["sql", "--root", str(places["bundles"]), statement(template, places), "--csv"])
        assert isinstance(done.exception, InvalidArgumentError | None), template
        assert "Traceback" not in str(done.exception), template
        assert tree(places) == before, template


@pytest.mark.slow
def test_row_28_no_statement_of_a_session_writes_a_file(places):
    """One session for all, so that what a statement sets does not let a later one out either."""
    before = tree(places)
    with open_catalog(places["bundles"], pools=places["home"] / "none") as catalog:
        for template in (*WRITES, *WRITES):
            with suppress(duckdb.Error):
                catalog.connection.execute(statement(template, places)).fetchall()
            assert tree(places) == before, template
            with suppress(duckdb.Error):
                catalog.connection.execute("ROLLBACK")
    assert tree(places) == before


@pytest.mark.parametrize("path", ["x.csv", "catalog.duckdb.wal", "tables/files.parquet"])
def test_a_refusal_says_what_a_query_may_do(places, path):
    version = places["bundles"] / "versions" / VERSION
    for name in (version / path, f"{PREFIX}{version / path}"):
        done = CliRunner().invoke(
            build_app(),
            ["sql", "--root", str(places["bundles"]), f"EXPLAIN ANALYZE COPY (SELECT 1) TO '{name}' (FORMAT csv)"],
        )
        assert isinstance(done.exception, InvalidArgumentError)
        assert "write no file" in str(done.exception)


def test_a_relation_of_python_writes_nothing_either(places):
    before = tree(places)
    with open_catalog(places["bundles"], pools=places["home"] / "none") as catalog:
        for write in ("write_csv", "write_parquet"):
            with pytest.raises(duckdb.Error):
                getattr(catalog.sql("SELECT 1"), write)(str(places["here"] / "x"))
    assert tree(places) == before


def test_files_of_other_folders_cannot_be_read(places, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("s3cret")
    (places["bundles"] / "link").symlink_to(secret)
    (places["bundles"] / "folder").symlink_to(tmp_path)
    inside = places["bundles"]
    files = ReadOnlyFiles([inside])
    for path in (secret, inside / ".." / "secret.txt", inside / "folder" / "secret.txt", inside / "link"):
        with pytest.raises(OSError):
            files.open(f"{PREFIX}{path}", "rb")
    with confined_connection([inside]) as connection:
        for path in (secret, f"{PREFIX}{secret}", f"{PREFIX}{inside}/../secret.txt", f"{PREFIX}{inside}/folder/*.txt"):
            with pytest.raises(duckdb.Error):
                connection.execute(f"SELECT * FROM read_text('{path}')").fetchall()


def test_the_file_system_knows_no_way_to_change_a_file(places):
    version = places["bundles"] / "versions" / VERSION
    name, before = f"{PREFIX}{version}/manifest.json", tree(places)
    files = ReadOnlyFiles([places["bundles"]])
    for mode in ("wb", "ab", "r+b", "xb", "w", "rb+"):
        with pytest.raises((PermissionError, ValueError)):
            files.open(name, mode)
    for change in ("rm", "rm_file", "touch", "created"):
        with pytest.raises((PermissionError, NotImplementedError)):
            getattr(files, change)(name)
    for change in ("mv", "copy", "cp_file"):
        with pytest.raises((PermissionError, NotImplementedError)):
            getattr(files, change)(name, f"{name}.x")
    files.mkdir(f"{PREFIX}{version}/x")
    assert tree(places) == before


def test_threads_that_share_a_file_have_a_position_each(tmp_path):
    file = tmp_path / "numbers"
    file.write_bytes(b"".join(number.to_bytes(4, "big") for number in range(20_000)))
    wrong: list[int] = []
    with ReadOnlyFiles([tmp_path]).open(f"{PREFIX}{file}", "rb") as shared:

        def read(start: int) -> None:
            for number in range(start, 20_000, 8):
                shared.seek(4 * number)
                if int.from_bytes(shared.read(4), "big") != number:
                    wrong.append(number)

        threads = [threading.Thread(target=read, args=(start,)) for start in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert shared.seek(0, os.SEEK_END) == file.stat().st_size
    assert not wrong

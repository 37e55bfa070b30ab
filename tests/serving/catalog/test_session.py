"""The catalog for people: every view from any folder, read-only, with the registry of versions and the pool log."""

import hashlib
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from codequarry.schemas.bundle.layout import BundleRoot, Current
from codequarry.schemas.catalog.session_tables import PART_PREFIX, POOLS
from codequarry.schemas.errors import CodequarryError, IntegrityError, NoBundleError, NotFoundError, UntrustedError
from codequarry.schemas.trust.trusted_folders import add_trust
from codequarry.serving import open_catalog
from codequarry.serving.files.integrity import file_sha256
from codequarry.serving.files.lease import sole_user
from tests.contracts.pages.catalog_page import undescribed
from tests.machine import can_mount
from tests.serving.bundles.bundle_factory import write_bundle
from tests.serving.bundles.corpus import PIECES

FIRST, SECOND = "20260101T000000Z-0123abcd", "20260102T000000Z-0123abcd"
OF_THE_MISSION = (
    "chunks files modules scip_symbols scip_occurrences ast_nodes cst_nodes faiss_idmap v_faiss_join manifests pools "
    "faiss_idmap_mat faiss_idmap_mat_meta v_documents manifest_indexes"
).split()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A bundle root with one version."""
    write_bundle(tmp_path / "bundles", PIECES, version=FIRST)
    return tmp_path / "bundles"


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that has nothing to do with the bundle, and is the current one."""
    folder = tmp_path / "elsewhere" / "deep"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def count(catalog, name):
    return catalog.sql(f"SELECT count(*) FROM {name}").fetchall()[0][0]


def write_part(folder: Path, *rows: dict[str, object]) -> None:
    folder.mkdir(exist_ok=True)
    known = {field.name: "" if pa.types.is_string(field.type) else [] for field in POOLS}
    full = [known | {"ts": datetime.now(UTC), "rank": 1, "score": 1.0, "cst_matches": True} | row for row in rows]
    pq.write_table(pa.Table.from_pylist(full, POOLS), folder / f"{PART_PREFIX}{len(list(folder.iterdir()))}.parquet")


def test_every_view_opens_from_any_folder(root, elsewhere):
    with open_catalog(root) as catalog:
        assert {name for name in OF_THE_MISSION if count(catalog, name) < 0} == set()
        assert undescribed(catalog) == set()
        assert count(catalog, "chunks") == count(catalog, "faiss_idmap_mat") == len(PIECES)
        assert catalog.sql("SELECT count(*) FROM v_faiss_join WHERE faiss_row IS NULL").fetchall() == [(0,)]
        assert len(catalog.sql("SELECT vector FROM embeddings").fetchall()[0][0]) == catalog.manifest.encoder.dim
    assert not list(elsewhere.iterdir())


def test_the_settings_of_a_folder_above_say_where_the_bundle_is(root, elsewhere):
    settings = elsewhere.parent / "dagster_project.toml"
    settings.write_text(f'[bundle]\nroot = "{root}"\n[telemetry]\nfolder = "logs"\n')
    with pytest.raises(UntrustedError):
        open_catalog()
    add_trust(settings.parent, settings.read_bytes())
    with open_catalog() as catalog:
        assert catalog.manifest.version == FIRST
        assert catalog.pools == elsewhere.parent / "logs" / "pools"
    with open_catalog(settings=settings, version=FIRST) as catalog:
        assert count(catalog, "chunks") == len(PIECES)


def test_without_a_bundle_it_says_what_to_do(elsewhere):
    with pytest.raises(NoBundleError, match="codequarry index"):
        open_catalog()
    with pytest.raises(NoBundleError):
        open_catalog(elsewhere / "nothing")


def test_a_version_that_is_not_there_or_not_whole_is_refused(root):
    with pytest.raises(NotFoundError):
        open_catalog(root, version=SECOND)
    with (root / "versions" / FIRST / "catalog.duckdb").open("ab") as file:
        file.write(b"\0")
    with pytest.raises(IntegrityError):
        open_catalog(root)


def test_the_version_is_held_and_not_one_byte_of_it_changes(root):
    paths = BundleRoot(root).version(FIRST)
    before = {file: (file.stat().st_mtime_ns, file_sha256(file)) for file in root.rglob("*") if file.is_file()}
    with open_catalog(root) as catalog:
        with pytest.raises(duckdb.Error, match="read-only"):
            catalog.sql("DELETE FROM catalog.files_mat")
        catalog.sql("CREATE TABLE mine AS SELECT chunk_id FROM chunks")
        assert count(catalog, "mine") == len(PIECES)
        with sole_user(paths.manifest) as alone:
            assert not alone
    with sole_user(paths.manifest) as alone:
        assert alone
    assert before == {file: (file.stat().st_mtime_ns, file_sha256(file)) for file in root.rglob("*") if file.is_file()}


READ_ONLY = """
import sys
from codequarry.serving import open_catalog
with open_catalog(sys.argv[1]) as catalog:
    print(catalog.sql("SELECT count(*) FROM chunks JOIN faiss_idmap_mat USING (chunk_id)").fetchall())
"""


def test_a_read_only_mount_will_do(root, tmp_path):
    view = tmp_path / "view"
    view.mkdir()
    mount = f"mount --bind {root} {view} && mount -o remount,bind,ro {view}"
    if not can_mount(mount):
        pytest.skip("no user namespaces here, so that nothing can be mounted")
    command = f'{mount} && ! touch {view}/probe 2>/dev/null && exec "{sys.executable}" -c "$PROGRAM" {view}'
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", command], cwd=tmp_path, env={**os.environ, "PROGRAM": READ_ONLY},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.stdout.strip(), done.returncode) == (f"[({len(PIECES)},)]", 0), done.stderr


def test_the_registry_has_every_version_and_says_which_is_damaged(root):
    with open_catalog(root) as catalog:
        write_bundle(root, PIECES[:5], version=SECOND, commits={"quarry": "c" * 40})
        assert count(catalog, "manifests") == 1
        assert catalog.refresh()
        rows = catalog.sql("SELECT version, current, chunks, problem FROM manifests ORDER BY version").fetchall()
        assert rows == [(FIRST, False, len(PIECES), ""), (SECOND, True, 5, "")]
        found = catalog.sql('SELECT repo, "commit", dirty, chunks FROM manifest_sources WHERE version = ?', [SECOND])
        assert ("quarry", "c" * 40, False, 4) in found.fetchall()
        (root / "versions" / FIRST / "manifest.json").write_text("{")
        assert not catalog.refresh()
        rows = catalog.sql("SELECT version, format_version, problem <> '' FROM manifests ORDER BY version").fetchall()
        assert rows[0] == (FIRST, 0, True)


def test_every_index_of_every_version_has_a_row(root):
    with open_catalog(root) as catalog:
        rows = catalog.sql("SELECT channel, documents, encoder, dim, variant FROM manifest_indexes").fetchall()
        encoder = catalog.manifest.encoder
        assert rows == [
            ("bm25", len(PIECES), "", 0, ""),
            ("faiss", len(PIECES), encoder.name, encoder.dim, catalog.manifest.faiss.factory),
        ]


def test_chunks_are_told_under_the_names_of_answers(root):
    with open_catalog(root) as catalog:
        found = catalog.sql("SELECT id, uri, symbol, start_line, preview, content FROM v_documents").fetchall()
    expected = {(one.id, f"{one.repo}/{one.path}", one.qualified_name, one.start_line, one.text) for one in PIECES}
    assert {(*row[:4], row[5]) for row in found} == expected
    assert all(row[4] == row[5][:200] for row in found)


def test_ranks_of_two_versions_are_compared_for_the_same_words(root, tmp_path):
    folder = tmp_path / "pools"
    first, second = (one.id for one in PIECES[:2])

    def asked(run: str, version: str, *ids: int, query: str = "open", hour: int = 1) -> list[dict[str, object]]:
        told = {"query_id": run, "bundle": version, "channel": "bm25", "query": query}
        told["ts"] = datetime(2026, 1, 1, hour, tzinfo=UTC)
        return [{**told, "chunk_id": chunk_id, "rank": rank} for rank, chunk_id in enumerate(ids, start=1)]

    write_part(
        folder,
        *asked("a", FIRST, second, hour=1),  # asked again later, which counts
        *asked("b", FIRST, first, second, hour=2),
        *asked("c", SECOND, second, hour=3),
        *asked("d", SECOND, first, query="other words"),
        *asked("e", FIRST, first, query=""),
        *asked("f", SECOND, first, query=""),
    )
    with open_catalog(root, pools=folder) as catalog:
        rows = catalog.sql(
            "SELECT query, channel, version_before, version_after, chunk_id, rank_before, rank_after, gained "
            "FROM v_pool_rank_changes ORDER BY rank_before"
        ).fetchall()
    same = ("open", "bm25", FIRST, SECOND)
    assert rows == [(*same, first, 1, None, None), (*same, second, 2, 1, 1)]


def test_a_session_follows_current_unless_it_was_opened_on_one_version(root):
    with open_catalog(root) as following, open_catalog(root, version=FIRST) as fixed:
        write_bundle(root, PIECES[:5], version=SECOND)
        assert (following.refresh(), fixed.refresh()) == (True, False)
        assert (count(following, "chunks"), count(fixed, "chunks")) == (5, len(PIECES))
        assert (count(following, "faiss_idmap_mat"), count(fixed, "faiss_idmap_mat")) == (5, len(PIECES))


def test_a_version_that_cannot_be_opened_leaves_the_session_as_it_was(root):
    with open_catalog(root) as catalog:
        write_bundle(root, PIECES[:5], version=SECOND)
        damaged = root / "versions" / SECOND / "catalog.duckdb"
        damaged.write_bytes(bytes(damaged.stat().st_size))  # of the right size, so that only DuckDB sees it
        for _ in range(2):
            with pytest.raises(CodequarryError, match=SECOND):
                catalog.refresh()
            assert catalog.manifest.version == FIRST
            assert count(catalog, "chunks") == len(PIECES)
            (root / "versions" / SECOND / "tables/faiss.idmap.parquet").unlink(missing_ok=True)


def test_two_versions_are_compared_in_one_query(root):
    write_bundle(root, PIECES[:5], version=SECOND)
    with open_catalog(root) as catalog:
        catalog.add_version(FIRST)
        gone = catalog.sql("SELECT count(*) FROM before.chunks ANTI JOIN chunks USING (chunk_id)").fetchall()
        assert gone == [(len(PIECES) - 5,)]
        with pytest.raises(NotFoundError):
            catalog.add_version("20250101T000000Z-0123abcd")


def test_the_id_map_lies_in_the_catalog_with_the_sha256_of_what_it_was_made_from(root):
    version = root / "versions" / FIRST
    sha256 = file_sha256(version / "faiss.idmap.parquet")
    with duckdb.connect(str(version / "catalog.duckdb"), read_only=True) as connection:
        meta = connection.execute("SELECT parquet_path, parquet_sha256, row_count FROM faiss_idmap_mat_meta")
        assert meta.fetchall() == [("faiss.idmap.parquet", sha256, len(PIECES))]
        held = connection.execute("SELECT faiss_row, chunk_id FROM faiss_idmap_mat").fetchall()
    with open_catalog(root) as catalog:
        assert catalog.sql("SELECT * FROM faiss_idmap ORDER BY faiss_row").fetchall() == held


def test_pools_are_empty_until_the_service_writes_some_and_then_joined_with_chunks(root, tmp_path):
    folder = tmp_path / "pools"
    with open_catalog(root, pools=folder) as catalog:
        assert list(catalog.sql("SELECT * FROM pools").columns) == POOLS.names
        assert count(catalog, "v_pool_candidates") == 0
        known = {"query_id": "q", "bundle": FIRST, "channel": "bm25"}
        write_part(folder, {**known, "chunk_id": PIECES[0].id}, {**known, "chunk_id": 1})
        catalog.refresh()
        assert catalog.sql("SELECT path FROM v_pool_candidates ORDER BY path NULLS LAST").fetchall() == [
            (PIECES[0].path,),
            (None,),
        ]
        write_part(folder, {**known, "chunk_id": 2})
        assert count(catalog, "pools") == 3


def test_a_connection_of_ones_own_stays_open_and_lets_the_version_go(root):
    with duckdb.connect() as connection:
        open_catalog(root, connection=connection).close()
        assert connection.execute("SELECT count(*) FROM manifests").fetchall() == [(1,)]
        assert connection.execute(
            "SELECT count(*) FROM duckdb_databases() WHERE database_name = 'catalog'"
        ).fetchall() == [(0,)]
        connection.execute("CREATE OR REPLACE TABLE mine (x INTEGER)")
        connection.execute("DROP VIEW chunks")
        connection.execute("CREATE TABLE chunks (x INTEGER)")
        with pytest.raises(IntegrityError, match="keep the names of its tables apart"):
            open_catalog(root, connection=connection)


def test_current_that_moves_to_a_bad_version_is_named(root):
    BundleRoot(root).current.write_text(Current(SECOND, hashlib.sha256(b"").hexdigest()).line())
    with pytest.raises(IntegrityError, match=SECOND):
        open_catalog(root)

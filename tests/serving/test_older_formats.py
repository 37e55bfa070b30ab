"""A version of the format before: texts in the catalog, chunks of places by id, one file of everything. It answers."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from codequarry.schemas.catalog import set_bundle
from codequarry.schemas.code_search import CodeSearchRequest
from codequarry.schemas.integrity import file_sha256, read_manifest
from codequarry.schemas.layout import BundlePaths, BundleRoot, Current
from codequarry.schemas.manifest import FileEntry, to_json
from codequarry.schemas.settings import ServingSettings
from codequarry.schemas.symbol_tools import DefinitionRequest, ReferencesRequest
from codequarry.schemas.tools import FetchRequest, SearchRequest, SearchResult
from codequarry.serving.engine import Engine
from codequarry.serving.texts import TableTexts

_AS_BEFORE = (
    "ALTER TABLE chunks_mat ADD COLUMN text VARCHAR",
    "UPDATE chunks_mat SET text = chunks.text FROM chunks WHERE chunks.chunk_id = chunks_mat.chunk_id",
    "ALTER TABLE occurrences_mat ADD COLUMN chunk_id BIGINT",
    "UPDATE occurrences_mat SET chunk_id = held.chunk_id FROM chunks_mat AS held WHERE held.rowid = chunk",
    "ALTER TABLE occurrences_mat DROP COLUMN chunk",
    "ALTER TABLE occurrences_mat RENAME COLUMN enclosing TO inner_id",
    "ALTER TABLE occurrences_mat ADD COLUMN enclosing VARCHAR DEFAULT ''",
    "UPDATE occurrences_mat SET enclosing = qualified_name FROM symbols_mat WHERE symbol_id = inner_id",
    "ALTER TABLE occurrences_mat DROP COLUMN inner_id",
    *(f"ALTER TABLE chunks_mat DROP COLUMN {name}" for name in ("file", "shard", "text_start", "text_bytes")),
)


@pytest.fixture(scope="module")
def older(symbol_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The bundle of `symbol_engine` as a program before format 3 would have written it."""
    root = tmp_path_factory.mktemp("older") / "root"
    shutil.copytree(symbol_root, root)
    paths = BundleRoot(root).version(BundleRoot(root).read_current().version)
    with closing(duckdb.connect(str(paths.catalog))) as connection:
        for statement in (set_bundle(str(paths.path)), *_AS_BEFORE):
            connection.execute(statement)
    (paths.path / "texts.bin").unlink()
    for folder in (paths.rows, paths.facts):
        shutil.rmtree(folder)
    _seal_as(paths, 2)
    engine = Engine.open(root, ServingSettings())
    yield engine
    engine.close()


def _seal_as(paths: BundlePaths, format_version: int) -> None:
    manifest = read_manifest(paths)
    files: list[FileEntry] = []
    for entry in manifest.files:
        file = paths.path / entry.path
        if file.exists():
            found = {"sha256": file_sha256(file), "size_bytes": file.stat().st_size}
            files.append(entry.model_copy(update=found))
    data = to_json(manifest.model_copy(update={"format_version": format_version, "files": tuple(files)}))
    assert b"shards" not in data
    paths.manifest.write_bytes(data)
    line = Current(paths.path.name, hashlib.sha256(data).hexdigest()).line()
    BundleRoot(paths.path.parents[1]).current.write_text(line, encoding="ascii")


def test_it_is_really_the_older_format(older: Engine) -> None:
    assert older.bundle.manifest.format_version == 2
    assert isinstance(older.bundle.catalog._texts, TableTexts)


def _without_facts(result: SearchResult) -> SearchResult:
    explain = result.metadata.explain.model_copy(update={"leaves": {}, "said": ""})
    return result.model_copy(update={"metadata": result.metadata.model_copy(update={"explain": explain})})


@pytest.mark.parametrize("channel", ["hybrid", "bm25", "symbol"])
def test_searches_and_fetches_answer_as_today(older: Engine, symbol_engine: Engine, channel: str) -> None:
    request = SearchRequest(query="open the index", channel=channel)
    then, now = older.search(request), symbol_engine.search(request)
    assert now.results
    assert [_without_facts(result) for result in then.results] == [_without_facts(result) for result in now.results]
    assert all(result.metadata.explain.leaves == {} for result in then.results)
    ids = [result.id for result in now.results]
    assert older.fetch(FetchRequest(objectIds=ids)).objects == symbol_engine.fetch(FetchRequest(objectIds=ids)).objects


PATTERNS = [("open(", "exact"), ("Open", "exact"), ("größe", "phrase"), (r"o\w+n\(", "regex"), ("x", "word")]


@pytest.mark.parametrize(("pattern", "mode"), PATTERNS)
def test_text_search_answers_as_today(older: Engine, symbol_engine: Engine, pattern: str, mode: str) -> None:
    for case_sensitive in (True, False):
        request = CodeSearchRequest(pattern=pattern, mode=mode, case_sensitive=case_sensitive)
        assert older.search_code(request).results == symbol_engine.search_code(request).results


@pytest.mark.parametrize("name", ["open", "Index", "Index.open", "Store", "LIMIT", "use"])
def test_look_ups_answer_as_today(older: Engine, symbol_engine: Engine, name: str) -> None:
    definitions = DefinitionRequest(symbol=name)
    assert older.definitions(definitions).results == symbol_engine.definitions(definitions).results
    references = ReferencesRequest(symbol=name)
    assert older.references(references).results == symbol_engine.references(references).results

"""Readers of a delta version: what they share, what they refuse, and SQL over both versions."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from codequarry.pipelines.evaluation.tune_faiss import tune_faiss
from codequarry.pipelines.run import index_repositories
from codequarry.pipelines.stack.build import index_changes
from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot, Current
from codequarry.schemas.bundle.manifest import to_json
from codequarry.schemas.bundle.stack import STACK_ARRAYS
from codequarry.schemas.errors import IntegrityError, InvalidArgumentError
from codequarry.schemas.settings.load import (
    BundleSettings,
    PathsSettings,
    RepositorySettings,
    ServingSettings,
    Settings,
)
from codequarry.schemas.wire.search import SearchRequest
from codequarry.serving.catalog import symbols
from codequarry.serving.engine.engine import Engine
from codequarry.serving.files.integrity import file_sha256, read_manifest
from codequarry.serving.sql.session import open_catalog
from codequarry.serving.version.open import Bundle
from codequarry.serving.version.version_differences import compare_files, read_chunks, read_files
from tests.pipelines.repositories import commit
from tests.pipelines.stack.alike import differing
from tests.pipelines.stack.test_answers import tree
from tests.serving.bundles.versions import until


class Roots(NamedTuple):
    """A root whose CURRENT is a delta version over another, and one with a complete version of the same tree."""

    stacked: BundleRoot
    complete: BundleRoot
    settings: Settings


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory, shared_store: Path) -> Roots:
    """Read-only by agreement."""
    home = tmp_path_factory.mktemp("reading")
    commit(home / "app", tree())

    def settings_of(name: str) -> Settings:
        return Settings.model_validate({"retrieval": {"enabled": False}}).model_copy(
            update={
                "paths": PathsSettings(store=shared_store, work=home / name / "work"),
                "bundle": BundleSettings(root=home / name / "bundles"),
                "sources": Settings().sources.model_copy(
                    update={"repositories": (RepositorySettings(path=home / "app"),)}
                ),
            }
        )

    stacked, complete = settings_of("stacked"), settings_of("complete")
    index_repositories(stacked)
    commit(home / "app", {"pkg1/mod1.py": "def brand_new(value):\n    return special_1(value)\n"})
    (home / "app" / "pkg2" / "mod2.py").unlink()
    index_changes(stacked)
    index_repositories(complete)
    return Roots(BundleRoot(stacked.bundle.root), BundleRoot(complete.bundle.root), stacked)


@pytest.fixture
def copied(roots: Roots, tmp_path: Path) -> BundleRoot:
    """The stacked root, to be damaged."""
    shutil.copytree(roots.stacked.path, tmp_path / "bundles")
    return BundleRoot(tmp_path / "bundles")


@pytest.fixture
def opened(roots: Roots) -> Iterator[Bundle]:
    bundle = Bundle.open_current(roots.stacked.path)
    yield bundle
    bundle.close()


def delta_of(root: BundleRoot) -> BundlePaths:
    return root.version(root.read_current().version)


def base_of(root: BundleRoot) -> BundlePaths:
    stack = read_manifest(delta_of(root)).stack
    assert stack is not None
    return root.version(stack.base)


def test_answers_name_the_base(opened: Bundle, roots: Roots) -> None:
    assert opened.info.base == base_of(roots.stacked).path.name
    assert opened.info.version == delta_of(roots.stacked).path.name
    assert "base" not in Bundle.open_current(roots.complete.path).info.model_dump(exclude_unset=True)


def test_versions_over_a_base_share_it_and_the_last_one_closes_it(opened: Bundle, roots: Roots) -> None:
    second = Bundle.open_current(roots.stacked.path)
    base = second.base
    assert base is not None and base is opened.base
    second.close()
    assert base.catalog.answers()
    third = Bundle.open_current(roots.stacked.path, channels=())
    assert third.base is base, "it has all channels that are wanted"
    third.close()
    fourth = Bundle.open_current(roots.stacked.path, ServingSettings(max_concurrency=2))
    assert fourth.base is not base, "other settings open a base of their own"
    fourth.close()


def test_a_complete_version_that_is_open_is_the_base_of_what_lies_over_it(roots: Roots) -> None:
    paths = base_of(roots.stacked)
    complete = Bundle.open_version(roots.stacked, Current(paths.path.name, file_sha256(paths.manifest)))
    delta = Bundle.open_current(roots.stacked.path)
    assert delta.base is complete
    complete.close()
    assert complete.catalog.answers(), "a version over it still needs it"
    complete.close()
    assert complete.catalog.answers()
    delta.close()
    assert not complete.catalog.answers()


def test_a_complete_version_without_the_wanted_channels_is_not_shared(roots: Roots) -> None:
    paths = base_of(roots.stacked)
    current = Current(paths.path.name, file_sha256(paths.manifest))
    complete = Bundle.open_version(roots.stacked, current, channels=("bm25",))
    delta = Bundle.open_current(roots.stacked.path)
    assert delta.base is not complete
    delta.close()
    assert complete.catalog.answers()
    complete.close()
    assert not complete.catalog.answers()


def test_a_base_that_nobody_uses_is_closed(copied: BundleRoot) -> None:
    bundle = Bundle.open_current(copied.path)
    base = bundle.base
    assert base is not None
    bundle.close()
    assert not base.catalog.answers()


def test_a_delta_without_its_base_is_refused_by_name(copied: BundleRoot) -> None:
    base = base_of(copied)
    shutil.rmtree(base.path)
    with pytest.raises(IntegrityError, match=f"lies over {base.path.name}, which cannot be opened") as refused:
        Bundle.open_current(copied.path)
    assert "roll back" in refused.value.suggestion


def test_a_delta_over_a_changed_base_is_refused(copied: BundleRoot) -> None:
    file = base_of(copied).rows / "chunks.npy"
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(IntegrityError, match=r"lies over .*rows/chunks\.npy"):
        Bundle.open_current(copied.path)


def test_a_base_with_another_manifest_is_refused(copied: BundleRoot) -> None:
    base = base_of(copied)
    manifest = read_manifest(base)
    base.manifest.write_bytes(to_json(manifest.model_copy(update={"sequence": manifest.sequence + 1})))
    with pytest.raises(IntegrityError, match="lies over"):
        Bundle.open_current(copied.path)


def test_versions_over_a_base_have_no_database_and_no_texts_of_it(opened: Bundle, roots: Roots) -> None:
    second = Bundle.open_current(roots.stacked.path)
    base = opened.base
    assert base is not None
    texts = [bundle.catalog.texts(bundle.directory.chunk_ids) for bundle in (opened, second)]
    assert texts[0] == texts[1]
    pages = base.catalog.stored_texts
    before = pages._page.cache_info().misses
    second.catalog.texts(second.directory.chunk_ids)
    assert pages._page.cache_info().misses == before, "the other version has read them"
    assert opened.catalog._connection is second.catalog._connection is base.catalog._connection
    second.close()
    assert opened.catalog.answers()
    assert opened.catalog.texts(opened.directory.chunk_ids) == texts[0]


def test_the_catalog_finds_what_that_of_a_complete_version_finds(
    opened: Bundle, roots: Roots, request: pytest.FixtureRequest
) -> None:
    complete = Bundle.open_current(roots.complete.path)
    request.addfinalizer(complete.close)
    both = [opened, complete]
    names = {name for bundle in both for name in bundle.symbols.near_names("special_1")} | {"brand_new", "mod1"}
    for name in sorted(names):
        ids = [bundle.catalog.defining([name, "Nothing.at_all"]).tolist() for bundle in both]
        assert ids[0] == ids[1], name
    every = [{facts.uri: facts for facts in bundle.catalog.facts_of_files(None).values()} for bundle in both]
    assert every[0] == every[1]
    other = next(uri for uri in every[0] if uri != "app/pkg1/mod1.py")
    some = ["app/pkg1/mod1.py", "app/pkg2/mod2.py", other]
    for bundle in both:
        found = bundle.catalog.facts_of_files(some)
        assert {facts.uri for facts in found.values()} == {some[0], some[2]}
        for file, facts in found.items():
            assert f"{bundle.directory.repos[file]}/{bundle.directory.paths[file]}" == facts.uri
            assert bundle.catalog.skip_reason(file) == ""
    ids = opened.directory.chunk_ids.tolist()
    spans = [bundle.catalog.definitions_in(ids) for bundle in both]
    assert spans[0] == spans[1] and spans[0]


@pytest.mark.parametrize("few", [0, 256])
def test_hidden_files_are_left_out_by_number_and_by_a_parameter(
    roots: Roots, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(symbols, "_FEW_HIDDEN", few)
    folder = roots.settings.sources.repositories[0].path
    assert folder is not None
    files = sorted(path for path in folder.rglob("*.py"))
    engines = [Engine.open(root.path, ServingSettings()) for root in (roots.stacked, roots.complete)]
    try:
        names = [f"{folder.name}/{file.relative_to(folder)}" for file in files]
        assert differing(*engines, [file.read_text() for file in files[:4]], names[:4]) == []
    finally:
        for engine in engines:
            engine.close()


@pytest.mark.parametrize("name", STACK_ARRAYS)
@pytest.mark.parametrize("damage", ["missing", "of another type", "out of range"])
def test_damaged_arrays_are_refused(copied: BundleRoot, name: str, damage: str) -> None:
    delta = delta_of(copied)
    file = delta.stack / f"{name}.npy"
    array = np.load(file)
    if damage == "out of range":
        if not array.size:
            pytest.skip("nothing is in it")
        array.flat[0] = array.dtype.type(1 << 30) if array.dtype.names is None else (1 << 30, *array.flat[0].item()[1:])
        np.save(file, array)
    elif damage == "of another type":
        np.save(file, np.zeros(3, np.float64))
    else:
        file.unlink()
    manifest = read_manifest(delta)
    files = tuple(
        entry.model_copy(update={"sha256": file_sha256(at), "size_bytes": at.stat().st_size})
        for entry in manifest.files
        if (at := delta.path / entry.path).exists()
    )
    delta.manifest.write_bytes(to_json(manifest.model_copy(update={"files": files})))
    copied.current.write_text(f"{delta.path.name} {file_sha256(delta.manifest)}\n")
    with pytest.raises(IntegrityError, match=r"stack/ of .* is damaged"):
        Bundle.open_current(copied.path)


def test_sql_sees_both_versions_as_one(roots: Roots) -> None:
    with open_catalog(roots.stacked.path) as ours, open_catalog(roots.complete.path) as theirs:
        for name in ("chunks", "files", "ast_nodes", "cst_nodes", "modules", "embeddings", "v_documents"):
            counts = [each.sql(f"SELECT count(*) FROM {name}").fetchall() for each in (ours, theirs)]
            assert counts[0] == counts[1], name
        for name in ("files_mat", "chunks_mat", "symbols_mat", "occurrences_mat", "places_mat", "faiss_idmap_mat"):
            counts = [each.sql(f"SELECT count(*) FROM {name}").fetchall() for each in (ours, theirs)]
            assert counts[0] == counts[1], name
        texts = "SELECT repo, path, start_byte, text FROM chunks ORDER BY ALL"
        assert ours.sql(texts).fetchall() == theirs.sql(texts).fetchall()
        assert ours.sql("SELECT path FROM files WHERE path = 'pkg2/mod2.py' AND skip_reason = ''").fetchall() == []
        join = "SELECT count(*) FROM v_faiss_join WHERE idmap_chunk_id IS NULL OR chunk_id IS NULL"
        assert ours.sql(join).fetchall() == [(0,)]


def test_a_delta_is_not_compared_as_if_it_were_complete(roots: Roots) -> None:
    delta, base = delta_of(roots.stacked).path.name, base_of(roots.stacked).path.name
    with open_catalog(roots.stacked.path) as catalog:
        with pytest.raises(InvalidArgumentError, match="is a delta version"):
            catalog.add_version(delta)
        catalog.add_version(base)
        assert catalog.sql("SELECT count(*) FROM before.files WHERE path = 'pkg2/mod2.py'").fetchall() == [(1,)]


def test_diff_compares_what_both_versions_hold(roots: Roots) -> None:
    ours, theirs = delta_of(roots.stacked), delta_of(roots.complete)
    assert read_files(ours) == read_files(theirs)
    assert read_chunks(ours) == read_chunks(theirs)
    changes = compare_files(read_files(base_of(roots.stacked)), read_files(ours))
    assert [file.path for file in changes.changed] == ["pkg1/mod1.py"]
    assert [file.path for file in changes.removed] == ["pkg2/mod2.py"]
    assert not changes.added


def test_a_dense_index_is_tuned_on_complete_versions_alone(roots: Roots) -> None:
    with pytest.raises(InvalidArgumentError, match="is a delta version"):
        tune_faiss(roots.settings, "faiss", [], 0.9)


def test_a_server_goes_from_a_base_to_its_delta_and_back(copied: BundleRoot) -> None:
    """Prevents the regression in which the base is closed while the next version still reads it."""
    delta = copied.read_current()
    base = base_of(copied)
    line = f"{base.path.name} {file_sha256(base.manifest)}\n"
    copied.current.write_text(line)
    engine = Engine.open(copied.path, ServingSettings(follow_interval_s=0.05))
    asked = SearchRequest(query="brand_new", channel="symbol")
    try:
        assert engine.search(asked).results == []
        for current, found in ((delta.line(), 1), (line, 0), (delta.line(), 1)):
            copied.current.write_text(current)
            until(lambda current=current: engine.bundle.current.line() == current, seconds=60)
            assert len(engine.search(asked).results) == found
        assert engine.health(None).status == "ok"  # pyright: ignore[reportArgumentType]
    finally:
        engine.close()


def test_a_delta_version_is_opened_by_several_threads_at_once(roots: Roots) -> None:
    def open_and_close(_: int) -> None:
        Engine.open(roots.stacked.path, ServingSettings()).close()

    with ThreadPoolExecutor(4) as threads:
        assert len(list(threads.map(open_and_close, range(16)))) == 16

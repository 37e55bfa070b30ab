"""The whole road: what a run publishes, what a second run does again, and that the same input gives the same bundle."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from codequarry.pipelines.bundle import manifest as manifest_module
from codequarry.pipelines.cli.repositories import parse_repository
from codequarry.pipelines.run import IndexReport, index_repositories
from codequarry.pipelines.store.library_versions import tool_versions
from codequarry.pipelines.store.workspace import exclusive
from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot
from codequarry.schemas.catalog.views import set_bundle
from codequarry.schemas.errors import BusyError, CodequarryError, InvalidArgumentError, PublishError, SourceError
from codequarry.schemas.settings.load import Settings
from codequarry.serving.files.integrity import verify
from tests.pipelines.conftest import MakeSettings
from tests.pipelines.corpus import SHOP, write_shop, write_tools
from tests.pipelines.repositories import commit


def chunk_ids(report: IndexReport) -> dict[tuple[str, str, str], int]:
    table = pq.read_table(BundlePaths(report.path).table("chunks"))
    keys = zip(table["repo"].to_pylist(), table["path"].to_pylist(), table["text"].to_pylist(), strict=True)
    return dict(zip(keys, table["chunk_id"].to_pylist(), strict=True))


def fingerprints(report: IndexReport) -> set[str]:
    """Per file: its bytes, or where the library cannot repeat them, its content."""
    return {f"{entry.path if not entry.content_sha256 else ''} {entry.content_sha256 or entry.sha256}"
            for entry in report.manifest.files}  # fmt: skip


def test_a_run_publishes_a_complete_version(tmp_path: Path, make_settings: MakeSettings) -> None:
    settings = make_settings(write_shop(tmp_path), write_tools(tmp_path))
    report = index_repositories(settings)
    current = BundleRoot(settings.bundle.root).read_current()
    assert report.path == settings.bundle.root / "versions" / current.version
    verify(BundlePaths(report.path), report.manifest, deep=True)
    counts = report.manifest.counts
    assert (counts.files, counts.skipped_files) == (len(SHOP) - 1 + 2, 1)
    assert [(source.name, source.dirty, source.skipped) for source in report.manifest.sources] == [
        ("shop", False, {"binary": 1}),
        ("tools", False, {}),
    ]
    assert list(report.path.parent.glob(".staging-*")) == []
    assert {file.stat().st_mode & 0o777 for file in report.path.rglob("*") if file.is_file()} == {0o600}


def test_the_catalog_opens_anywhere_and_joins_without_gaps(tmp_path: Path, make_settings: MakeSettings) -> None:
    report = index_repositories(make_settings(write_shop(tmp_path)))
    moved = tmp_path / "moved"
    report.path.rename(moved)
    with closing(duckdb.connect(str(moved / "catalog.duckdb"), read_only=True)) as connection:
        connection.execute(set_bundle(str(moved)))
        rows = connection.execute("SELECT count(*), count(idmap_chunk_id), count(path) FROM v_faiss_join").fetchone()
        names = connection.execute("SELECT DISTINCT unnest(symbols) FROM chunks").fetchall()
        dims = connection.execute("SELECT DISTINCT len(vector) FROM embeddings").fetchall()
        reasons = connection.execute("SELECT path, skip_reason FROM files WHERE skip_reason <> ''").fetchall()
    assert rows == (report.manifest.counts.chunks,) * 3
    assert {("Cart",), ("Cart.total",), ("parse_price",), ("renderCart",), ("add",)} <= set(names)
    assert dims == [(report.manifest.encoder.dim,)]
    assert reasons == [("web/logo.png", "binary")]


def test_definitions_are_asked_for_in_sql(tmp_path: Path, make_settings: MakeSettings) -> None:
    report = index_repositories(make_settings(write_shop(tmp_path), write_tools(tmp_path)))
    with closing(duckdb.connect(str(report.path / "catalog.duckdb"), read_only=True)) as connection:
        connection.execute(set_bundle(str(report.path)))
        found = connection.execute(
            "SELECT node.repo, node.path, node.qualified_name, node.name, node.kind, node.name_start_line, "
            "node.name_start_column, node.signature, node.doc, node.parent FROM ast_nodes AS node "
            "JOIN chunks USING (chunk_id) WHERE list_contains(chunks.symbols, node.qualified_name) "
            "AND node.name IN ('total', 'renderCart', 'Retry', 'pop', 'add', 'Prices') ORDER BY ALL"
        ).fetchall()
        order = connection.execute("SELECT repo, path, start_byte, -end_byte FROM ast_nodes").fetchall()
    assert found == [
        ("shop", "README.md", "Shop.Prices", "Prices", "section", 4, 3, "## Prices", "", "Shop"),
        ("shop", "latin.c", "add", "add", "function", 1, 4, "int add(int a, int b)", "café", ""),
        ("shop", "shop/cart.py", "Cart.add", "add", "method", 11, 8, "def add(self, cents: int) -> None",
         "Add an item by its price in cents.", "Cart"),
        ("shop", "shop/cart.py", "Cart.total", "total", "method", 15, 8, "def total(self) -> int",
         "Sum of all prices with tax.", "Cart"),
        ("shop", "web/app.ts", "renderCart", "renderCart", "function", 0, 16,
         "export function renderCart(items: number[]): string", "", ""),
        ("tools", "queue.rs", "Queue.pop", "pop", "method", 4, 11, "pub fn pop(&mut self) -> Option<u32>",
         "Take the oldest item.", "Queue"),
        ("tools", "retry.go", "Retry", "Retry", "function", 3, 5, "func Retry(n int, f func() error) error",
         "Retry calls f until it succeeds.", ""),
    ]  # fmt: skip
    assert order == sorted(order)
    (entry,) = [file for file in report.manifest.files if file.path == "tables/ast_nodes.parquet"]
    assert entry.rows == len(order) == sum(chunks.definitions for chunks in report.chunks)


def test_references_and_leaf_kinds_are_asked_for_in_sql(tmp_path: Path, make_settings: MakeSettings) -> None:
    report = index_repositories(make_settings(write_shop(tmp_path), write_tools(tmp_path)))
    with closing(duckdb.connect(str(report.path / "catalog.duckdb"), read_only=True)) as connection:
        connection.execute(set_bundle(str(report.path)))
        mentioned = connection.execute(
            "SELECT reference.path, name, role, reference.start_line FROM ast_references AS reference "
            "JOIN chunks USING (chunk_id) WHERE contains(chunks.text, reference.name) ORDER BY ALL"
        ).fetchall()
        undefined = connection.execute(
            "SELECT count(*) FROM ast_references ANTI JOIN "
            "(SELECT repo, name FROM ast_nodes UNION ALL SELECT repo, name FROM ast_members) USING (repo, name)"
        )
        assert undefined.fetchall() == [(0,)]
        kinds = connection.execute(
            "SELECT chunks.path, cst_nodes.kind, sum(cst_nodes.count) FROM cst_nodes JOIN chunks USING (chunk_id) "
            "WHERE chunks.path = 'retry.go' AND cst_nodes.kind = 'package_identifier' GROUP BY ALL"
        ).fetchall()
    assert mentioned == [
        ("queue.rs", "Queue", "type", 2),
        ("queue.rs", "items", "other", 5),
        ("queue.rs", "pop", "call", 5),
        ("shop/cart.py", "TAX", "other", 17),
        ("shop/cart.py", "items", "other", 13),
        ("shop/cart.py", "items", "other", 17),
    ]
    assert kinds == [("retry.go", "package_identifier", 1)]
    assert len(mentioned) == sum(chunks.references for chunks in report.chunks)


def test_an_unchanged_repository_costs_its_census(tmp_path: Path, make_settings: MakeSettings) -> None:
    settings = make_settings(write_shop(tmp_path))
    first = index_repositories(settings)
    second = index_repositories(settings)
    assert second.unchanged
    assert list(second.seconds) == ["census"]
    assert second.manifest == first.manifest
    assert BundleRoot(settings.bundle.root).version_names() == [first.manifest.version]


def test_equal_contents_of_other_tools_are_published_once(
    tmp_path: Path, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = make_settings(write_shop(tmp_path))
    first = index_repositories(settings)
    newer = {**tool_versions(), "tantivy": "a later version"}
    monkeypatch.setattr(manifest_module, "tool_versions", lambda: newer)
    second, third = index_repositories(settings), index_repositories(settings)
    assert (second.unchanged, second.manifest.digest) == (False, first.manifest.digest)
    assert second.manifest.tools["tantivy"] == "a later version"
    assert (third.unchanged, list(third.seconds)) == (True, ["census"])


def test_force_publishes_the_same_contents_as_another_version(tmp_path: Path, make_settings: MakeSettings) -> None:
    settings = make_settings(write_shop(tmp_path))
    first, second = index_repositories(settings), index_repositories(settings, force=True)
    assert not second.unchanged
    assert second.manifest.digest == first.manifest.digest
    assert len(BundleRoot(settings.bundle.root).version_names()) == 2


def test_a_change_embeds_only_itself_and_keeps_other_ids(
    tmp_path: Path, make_settings: MakeSettings, kept_vectors: None
) -> None:
    repo = write_shop(tmp_path)
    settings = make_settings(repo)
    before = index_repositories(settings)
    commit(repo, {"shop/gift.py": "def wrap_as_gift(paper):\n    return f'wrapped in {paper}'\n"})
    after = index_repositories(settings)
    assert [report.embedded for report in after.embeddings] == [1]
    old, new = chunk_ids(before), chunk_ids(after)
    assert old.items() < new.items()
    assert {key[1] for key in new.keys() - old.keys()} == {"shop/gift.py"}
    verify(BundlePaths(before.path), before.manifest, deep=True)


def test_uncommitted_work_is_indexed_and_said(tmp_path: Path, make_settings: MakeSettings) -> None:
    repo = write_shop(tmp_path)
    (repo / "draft.py").write_text("def draft():\n    pass\n")
    report = index_repositories(make_settings(repo))
    assert report.manifest.sources[0].dirty
    assert any(path == "draft.py" for _, path, _ in chunk_ids(report))


def test_the_same_input_gives_the_same_bundle_anywhere_in_any_order(
    tmp_path: Path, make_settings: MakeSettings
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
    first = index_repositories(make_settings(write_shop(one), write_tools(one), home=one / "home"))
    second = index_repositories(make_settings(write_tools(two), write_shop(two), home=two / "home"))
    assert first.manifest.digest == second.manifest.digest
    assert fingerprints(first) == fingerprints(second)
    assert first.manifest.sources == second.manifest.sources


@pytest.mark.parametrize("changed", [{"chunking": {"merge_chars": 50}}, {"sources": {"max_file_bytes": 100}}])
def test_other_settings_make_another_version(
    tmp_path: Path, make_settings: MakeSettings, changed: dict[str, dict[str, object]]
) -> None:
    repo = write_shop(tmp_path)
    first = index_repositories(make_settings(repo))
    second = index_repositories(make_settings(repo, **changed))
    assert not second.unchanged
    assert first.manifest.digest != second.manifest.digest


Case = tuple[Settings, type[CodequarryError], str]


def bad_sources(tmp_path: Path, make: MakeSettings) -> dict[str, Case]:
    shop, empty, binary = tmp_path / "shop", tmp_path / "empty", tmp_path / "binary"
    empty.mkdir()
    commit(binary, {"logo.png": b"\x89PNG"})
    odd = {name: make(shop, indexes={"faiss_factory": name}) for name in ("Nonsense7", "IVF4096,Flat")}
    return {
        "nothing": (make(), InvalidArgumentError, "no repository to index"),
        "missing": (make(tmp_path / "nowhere"), SourceError, "does not exist"),
        "empty": (make(empty), SourceError, "no file .* can be indexed"),
        "only binary": (make(binary), SourceError, "1 binary"),
        "one of two": (make(shop, empty), SourceError, "empty: no file"),
        "few chunks": (make(shop, checks={"min_chunks": 10_000}), PublishError, "at least 10000"),
        "few files": (make(shop, checks={"min_indexed_share": 0.99}), PublishError, "share of files"),
        "odd factory": (odd["Nonsense7"], InvalidArgumentError, "Nonsense7"),
        "untrainable": (odd["IVF4096,Flat"], InvalidArgumentError, "IVF4096"),
    }


CASES = (
    "nothing",
    "missing",
    "empty",
    "only binary",
    "one of two",
    "few chunks",
    "few files",
    "odd factory",
    "untrainable",
)


@pytest.mark.parametrize("case", CASES)
def test_bad_input_says_what_to_do_and_leaves_current_as_it_was(
    tmp_path: Path, make_settings: MakeSettings, case: str
) -> None:
    good = make_settings(write_shop(tmp_path))
    index_repositories(good)
    current = (good.bundle.root / "CURRENT").read_bytes()
    settings, error, message = bad_sources(tmp_path, make_settings)[case]
    with pytest.raises(error, match=message) as caught:
        index_repositories(settings, force=True)
    assert caught.value.suggestion
    assert (good.bundle.root / "CURRENT").read_bytes() == current
    assert len(BundleRoot(good.bundle.root).version_names()) == 1


def test_a_second_run_at_the_same_time_is_told_so(tmp_path: Path, make_settings: MakeSettings) -> None:
    settings = make_settings(write_shop(tmp_path))
    with (
        exclusive(settings.paths.work / ".lock", "indexing"),
        pytest.raises(BusyError, match="another process is indexing"),
    ):
        index_repositories(settings)


def test_a_killed_run_resumes_from_the_vectors_it_finished(
    tmp_path: Path, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch, kept_vectors: None
) -> None:
    monkeypatch.setattr("codequarry.pipelines.embed.stage._SAVE_EVERY", 2)
    repo = tmp_path / "numbers"
    commit(repo, {f"n{n}.py": f"def number_{n}_of_the_resumed_run():\n    return {n}\n" for n in range(8)})
    settings = make_settings(repo)

    def die(what: str, done: int, _total: int) -> None:
        if "embedding" in what and done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index_repositories(settings, die)
    assert [report.embedded for report in index_repositories(settings).embeddings] == [4]


def test_a_damaged_current_version_is_built_again(tmp_path: Path, make_settings: MakeSettings) -> None:
    settings = make_settings(write_shop(tmp_path))
    first = index_repositories(settings)
    (BundlePaths(first.path).path / "tables/embeddings.parquet").unlink()
    second = index_repositories(settings)
    assert not second.unchanged
    verify(BundlePaths(second.path), second.manifest, deep=True)


def test_a_run_never_indexes_what_the_last_one_wrote(tmp_path: Path, make_settings: MakeSettings) -> None:
    repo = write_shop(tmp_path)
    settings = make_settings(repo, home=repo / "out")
    first = index_repositories(settings)
    assert index_repositories(settings).unchanged
    assert (first.manifest.counts.files, first.manifest.sources[0].dirty) == (len(SHOP) - 1, False)


def test_what_a_killed_run_left_behind_is_gone_after_the_next(tmp_path: Path, make_settings: MakeSettings) -> None:
    """Killed in each stage: no clean-up of its own runs."""
    settings = make_settings(write_shop(tmp_path))
    program = (
        "import os, sys, pathlib; from codequarry.schemas.settings.load import Settings\n"
        "from codequarry.pipelines.run import index_repositories\n"
        "settings = Settings.model_validate_json(pathlib.Path(sys.argv[1]).read_text())\n"
        "index_repositories(settings, lambda what, *_: os._exit(9) if what.endswith(sys.argv[2]) else None)\n"
    )
    (tmp_path / "settings.json").write_text(settings.model_dump_json())
    for stage in ("reading", "chunking", "catalog", "verifying"):
        arguments = [sys.executable, "-c", program, str(tmp_path / "settings.json"), stage]
        assert subprocess.run(arguments, check=False, timeout=60).returncode == 9
    report = index_repositories(settings)
    work = settings.paths.work
    assert [file.name for file in work.rglob(".*")] == [".lock"]
    assert [folder.name for folder in report.path.parent.iterdir()] == [report.path.name]


@pytest.mark.parametrize("text", ["", "lib=", "bad name!=.", "~nobody-of-that-name/x"])
def test_a_path_argument_that_cannot_be_one_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        parse_repository(text)
    assert caught.value.suggestion

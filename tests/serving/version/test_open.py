from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from codequarry.schemas.bundle.layout import BundleRoot, Current
from codequarry.schemas.bundle.manifest import FORMAT_VERSION, to_json
from codequarry.schemas.errors import FormatError, IntegrityError, NoBundleError
from codequarry.serving.files.compatibility import compatibility
from codequarry.serving.files.integrity import read_manifest
from codequarry.serving.version.open import Bundle
from tests.serving.bundles.bundle_factory import VERSION, seal, write_bundle
from tests.serving.bundles.corpus import COMMITS, PIECES
from tests.serving.channels.ask_channel import ask_channel


@pytest.fixture
def damaged(lexical_root: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return shutil.copytree(lexical_root, tmp_path / "root")


def files_below(root: Path) -> dict[str, tuple[int, int]]:
    return {
        path.relative_to(root).as_posix(): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in root.rglob("*")
        if path.is_file()
    }


def test_an_open_bundle_knows_its_version_and_commits(engine) -> None:
    info = engine.bundle.info
    assert info.version == VERSION
    assert info.commits == {"quarry": "a" * 40, "gateway": "b" * 40 + "+dirty"}


def test_a_repository_without_git_has_no_commit(tmp_path: Path) -> None:
    write_bundle(tmp_path, PIECES)
    bundle = Bundle.open_current(tmp_path)
    assert bundle.info.commits == {"quarry": "", "gateway": ""}
    bundle.close()


def test_opening_and_reading_writes_nothing_and_works_on_a_read_only_folder(lexical_root: Path, tmp_path: Path) -> None:
    root = shutil.copytree(lexical_root, tmp_path / "root")
    before = files_below(root)
    folders = [path for path in (root, *root.rglob("*")) if path.is_dir()]
    for folder in folders:
        folder.chmod(0o555)
    try:
        bundle = Bundle.open_current(root)
        assert len(ask_channel(bundle.channels["bm25"], "open", 5).chunk_ids)
        assert bundle.catalog.rows([PIECES[0].id])
        bundle.close()
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert files_below(root) == before


def test_a_missing_encoder_turns_only_the_dense_channel_off(lexical_engine) -> None:
    problems = lexical_engine.bundle.problems()
    assert list(problems) == ["faiss"]
    assert problems["faiss"].startswith("encoder/encoder.json: cannot be read")


def test_an_encoder_that_did_not_make_the_vectors_turns_the_dense_channel_off(
    bundle_root: Path, tmp_path: Path
) -> None:
    root = shutil.copytree(bundle_root, tmp_path / "root")
    paths = BundleRoot(root).version(VERSION)
    manifest = read_manifest(paths)
    other = manifest.encoder.model_copy(update={"fingerprint": "f" * 64})
    seal(root, paths, PIECES, other, manifest.faiss, COMMITS)
    bundle = Bundle.open_current(root)
    bundle.channels["faiss"]._encoder.wait()  # for the thread that opens it
    assert "the vectors were made by ffffffffffff" in bundle.problems()["faiss"]
    bundle.close()


@pytest.mark.parametrize(
    ("file", "channel", "reason"),
    [("tables/embeddings.parquet", "faiss", "does not hold 9 vectors"), ("bm25/meta.json", "bm25", "damaged")],
)
def test_an_index_that_cannot_be_read_turns_its_channel_off(
    damaged: Path, file: str, channel: str, reason: str
) -> None:
    paths = BundleRoot(damaged).version(VERSION)
    manifest = read_manifest(paths)
    (paths.path / file).write_bytes(b"not an index")
    seal(damaged, paths, PIECES, manifest.encoder, manifest.faiss, COMMITS)
    bundle = Bundle.open_current(damaged)
    assert reason in bundle.closed[channel]
    assert str(damaged) not in str(bundle.problems())
    bundle.close()


def test_nothing_published(tmp_path: Path) -> None:
    with pytest.raises(NoBundleError, match="no bundle is published"):
        Bundle.open_current(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"garbage",
        b"../../etc/passwd " + b"0" * 64 + b"\n",
        VERSION.encode() + b" zz\n",
        b"\xff\xfe\x00",
        b"a" * 9999,
    ],
)
def test_a_current_that_is_not_one_valid_line_is_refused(damaged: Path, content: bytes) -> None:
    (damaged / "CURRENT").write_bytes(content)
    with pytest.raises(IntegrityError, match="expected '<version> <sha256>'"):
        Bundle.open_current(damaged)


@pytest.mark.parametrize(
    "file", ["catalog.duckdb", "tables/embeddings.parquet", "tables/chunks.parquet", "bm25/meta.json"]
)
@pytest.mark.parametrize("damage", ["grow", "shrink", "remove", "link"])
def test_a_file_of_another_size_or_kind_refuses_the_whole_version(damaged: Path, file: str, damage: str) -> None:
    path = BundleRoot(damaged).version(VERSION).path / file
    if damage == "grow":
        path.write_bytes(path.read_bytes() + b"x")
    elif damage == "shrink":
        os.truncate(path, path.stat().st_size - 1)
    else:
        kept = path.rename(damaged / "kept")
        if damage == "link":
            path.symlink_to(kept)
    with pytest.raises(IntegrityError) as caught:
        Bundle.open_current(damaged)
    assert path.name in caught.value.message
    assert caught.value.suggestion


def test_an_extra_file_refuses_the_version(damaged: Path) -> None:
    (BundleRoot(damaged).version(VERSION).path / "extra").write_text("x")
    with pytest.raises(IntegrityError, match="extra: not in the manifest"):
        Bundle.open_current(damaged)


def test_a_swapped_manifest_refuses_the_version(damaged: Path) -> None:
    manifest = BundleRoot(damaged).version(VERSION).manifest
    manifest.write_bytes(manifest.read_bytes().replace(b'"digest": "0', b'"digest": "1'))
    with pytest.raises(IntegrityError, match="CURRENT promises"):
        Bundle.open_current(damaged)


def test_a_version_renamed_to_another_is_refused(damaged: Path) -> None:
    other = VERSION.replace("2026", "2027")
    root = BundleRoot(damaged)
    (root.versions / VERSION).rename(root.versions / other)
    root.current.write_text(root.current.read_text().replace(VERSION, other))
    with pytest.raises(IntegrityError, match="names another version"):
        Bundle.open_current(damaged)


def test_a_catalog_that_is_no_database_refuses_the_version(damaged: Path) -> None:
    paths = BundleRoot(damaged).version(VERSION)
    manifest = read_manifest(paths)
    paths.catalog.write_bytes(b"not a database")
    seal(damaged, paths, PIECES, manifest.encoder, manifest.faiss, COMMITS)
    with pytest.raises(IntegrityError, match=r"catalog\.duckdb"):
        Bundle.open_current(damaged)


def test_no_links_are_left_behind(lexical_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    bundle = Bundle.open_current(lexical_root)
    assert list(tmp_path.iterdir()) == []
    assert len(ask_channel(bundle.channels["bm25"], "open", 5).chunk_ids)
    bundle.close()


def test_a_version_that_is_a_link_is_refused(damaged: Path) -> None:
    folder = BundleRoot(damaged).version(VERSION).path
    folder.symlink_to(folder.rename(damaged / "elsewhere"))
    with pytest.raises(IntegrityError, match="is a symbolic link"):
        Bundle.open_current(damaged)


def test_a_catalog_damaged_inside_is_a_typed_error(damaged: Path) -> None:
    """DuckDB checks a block only when it reads it, which may be long after it opened the file."""
    paths = BundleRoot(damaged).version(VERSION)
    intact = bytearray(paths.catalog.read_bytes())
    refused = 0
    for place in range(3 * 4096 + 100, len(intact), 65_536):
        damage = bytearray(intact)
        damage[place : place + 512] = bytes(255 - byte for byte in damage[place : place + 512])
        paths.catalog.write_bytes(damage)
        try:
            bundle = Bundle.open_current(damaged, channels=())
            bundle.catalog.rows([piece.id for piece in PIECES])
            bundle.catalog.defining(["open"])
            bundle.close()
        except IntegrityError as error:
            refused += 1
            assert "catalog.duckdb" in error.message
    assert refused


def test_without_a_temporary_folder_only_the_lexical_channel_is_off(
    bundle_root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("codequarry.serving.text.lexical._IN_MEMORY", str(tmp_path / "nowhere"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    bundle = Bundle.open_current(bundle_root)
    assert bundle.closed == {"bm25": "no temporary folder to open it through: No such file or directory"}
    bundle.close()


def rewrite_manifest(root: Path, **changes: object) -> None:
    """Publish the version again with another manifest, as an older or another program would have written it."""
    paths = BundleRoot(root).version(VERSION)
    data = to_json(read_manifest(paths).model_copy(update=changes))
    paths.manifest.write_bytes(data)
    BundleRoot(root).current.write_text(Current(VERSION, hashlib.sha256(data).hexdigest()).line(), encoding="ascii")


def test_a_version_of_another_format_is_refused_and_how_to_rebuild_is_said(damaged: Path) -> None:
    rewrite_manifest(damaged, format_version=FORMAT_VERSION + 1)
    with pytest.raises(FormatError, match="build it again with `codequarry index`"):
        Bundle.open_current(damaged)


def test_an_index_of_another_analyzer_turns_its_channel_off(damaged: Path) -> None:
    other = compatibility("0" * 64).model_copy(update={"analyzer": "f" * 64})
    rewrite_manifest(damaged, compatibility=other)
    bundle = Bundle.open_current(damaged)
    assert "another text analyzer" in bundle.closed["bm25"]
    bundle.close()

"""The archive format: headers of `tarfile` that are the same everywhere, and one archive for one version."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from codequarry.pipelines.publish.archive.format import archive_size, described, header, read_manifest_member
from codequarry.pipelines.publish.archive.read import unpack
from codequarry.schemas.bundle.manifest import to_json
from codequarry.serving.files.integrity import list_files
from tests.pipelines.publish.archives import FILES, archive, honest_members, listed, manifest_of

NAMES = ["faiss.index", "größe", "x" * 100, "x" * 101, "d/" * 300 + "ü", "日" * 60, "tables/a.parquet"]
SIZES = [0, 1, 511, 512, 8**11 - 1, 8**11, 1 << 60]


def test_headers_are_the_same_bytes_in_every_python() -> None:
    """Archives of two machines differ, and are refused, where `tarfile` of one of them writes other headers."""
    headers = b"".join(header(name, size) for name in NAMES for size in SIZES)
    assert hashlib.sha256(headers).hexdigest().startswith("2660dfcb42212670")


@given(st.text("ab.-ü日/", min_size=1, max_size=400), st.integers(0, 1 << 70))
def test_a_header_is_whole_blocks_without_time_and_owner(name: str, size: int) -> None:
    block = header(name, size)
    assert len(block) % tarfile.BLOCKSIZE == 0
    info = tarfile.TarInfo.frombuf(block[-tarfile.BLOCKSIZE :], "utf-8", "strict")
    assert (info.mode, info.mtime, info.uid, info.gid, info.uname, info.gname) == (0o644, 0, 0, 0, "", "")
    assert info.isreg()


def test_any_tar_reads_an_archive_and_its_length_is_known_beforehand() -> None:
    manifest = manifest_of(FILES)
    raw = to_json(manifest)
    data = archive(manifest, honest_members())
    assert listed(data) == {"manifest.json": raw, **FILES}
    assert list(listed(data)) == ["manifest.json", *FILES]
    assert len(data) == archive_size(len(raw), manifest.files)


def test_an_archive_is_unpacked_to_its_files_and_nothing_else(tmp_path: Path) -> None:
    manifest, seen = manifest_of(FILES), list[tuple[int, int]]()
    stream = io.BytesIO(archive(manifest, honest_members()))
    raw, read = read_manifest_member(stream)
    assert read == manifest
    unpack(stream, raw, read, tmp_path, lambda _what, done, total: seen.append((done, total)))
    assert {name: (tmp_path / name).read_bytes() for name in list_files(tmp_path)} == {**FILES, "manifest.json": raw}
    assert seen[-1] == (0, 0)  # in MB


@given(st.binary(max_size=600) | st.binary(min_size=8, max_size=8).map(lambda part: header("x", 5)[:148] + part * 46))
def test_anything_can_be_described(block: bytes) -> None:
    text = described(block)
    assert text.isprintable()
    assert len(text) < 1000

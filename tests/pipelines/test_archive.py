"""The archive format: the bytes `tarfile` would write, and one archive for one version."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codequarry.pipelines.archive import archive_size, described, header, read_manifest_member
from codequarry.pipelines.archive_unpack import unpack
from codequarry.schemas.integrity import list_files
from codequarry.schemas.manifest import to_json
from tests.pipelines.archives import FILES, archive, honest_members, listed, manifest_of

names = st.lists(st.text("ab.-ü日", min_size=1, max_size=80), min_size=1, max_size=6).map("/".join)
sizes = st.integers(0, 1 << 20) | st.integers(8**11 - 2, 8**11 + 2) | st.integers(0, 1 << 70)


@given(names, sizes)
def test_headers_are_those_of_tarfile(name: str, size: int) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o644
    assert header(name, size) == info.tobuf(tarfile.PAX_FORMAT)
    assert len(header(name, size)) % 512 == 0


@pytest.mark.parametrize("length", range(60, 130))
def test_a_record_counts_its_own_length_where_that_gets_a_digit_longer(length: int) -> None:
    name = "n" * 41 + "ü" * (length - 41) if length > 41 else "ü" * length
    assert header(name, 1) == _by_tarfile(name)
    assert header("x" * (900 + length), 1) == _by_tarfile("x" * (900 + length))


def _by_tarfile(name: str) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mode = 1, 0o644
    return info.tobuf(tarfile.PAX_FORMAT)


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

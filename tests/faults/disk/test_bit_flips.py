"""F8: a changed, cut or longer file is found by the deep verification, whichever it is."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.errors import CodequarryError
from codequarry.serving.files.integrity import list_files, read_manifest, verify
from tests.faults.scenes.scene import OLD, OLDEST, Scene


def damages(data: bytes, places: list[int]) -> Iterator[bytes]:
    for place in places:
        yield data[:place] + bytes([data[place] ^ (1 << place % 8)]) + data[place + 1 :]
    if data:
        yield data[:-1]
    yield data + b"\0"
    yield b""


def undetected(paths: BundlePaths, name: str, places: list[int], promised: str | None = None) -> int:
    file = paths.path / name
    data, missed = file.read_bytes(), 0
    for damaged in damages(data, places):
        if damaged == data:
            continue
        file.write_bytes(damaged)
        try:
            verify(paths, read_manifest(paths, expected_sha256=promised), deep=True)
            missed += 1
        except CodequarryError:
            pass
    file.write_bytes(data)
    return missed


@pytest.mark.parametrize("version", [OLD, OLDEST], ids=["current", "not current"])
def test_row_13_damage_anywhere_in_every_file_is_found(scene: Scene, version: str) -> None:
    """In a version CURRENT does not name nothing but the manifest itself vouches for the manifest."""
    paths, dice = scene.root.version(version), random.Random(1)
    names = list_files(paths.path)
    assert "manifest.json" in names and len(names) > 15
    for name in names:
        size = (paths.path / name).stat().st_size
        assert undetected(paths, name, [dice.randrange(size)] if size else []) == 0, name


@pytest.mark.faults_long
def test_every_byte_of_small_files_and_many_of_large_ones(scene: Scene) -> None:
    paths, dice, tried = scene.root.version(OLDEST), random.Random(2), 0
    for name in list_files(paths.path):
        size = (paths.path / name).stat().st_size
        places = list(range(size)) if size < 4096 or name == "manifest.json" else dice.sample(range(size), 200)
        assert undetected(paths, name, places) == 0, name
        tried += len(places)
    assert tried > 10_000


def test_links_in_place_of_files_are_refused(scene: Scene, tmp_path: Path) -> None:
    paths = scene.root.version(OLD)
    copy = tmp_path / "elsewhere"
    copy.write_bytes((paths.path / "tables/embeddings.parquet").read_bytes())
    (paths.path / "tables/embeddings.parquet").unlink()
    (paths.path / "tables/embeddings.parquet").symlink_to(copy)
    with pytest.raises(CodequarryError, match="not a regular file"):
        verify(paths, read_manifest(paths), deep=True)

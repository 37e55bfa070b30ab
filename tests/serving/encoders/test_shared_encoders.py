"""One open encoder for all versions that have the same one, and none for a damaged copy."""

from __future__ import annotations

import gc
import os
import shutil
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from codequarry.pipelines.embed.encoders import SHIPPED
from codequarry.schemas.errors import IntegrityError
from codequarry.serving.encoders import shared_encoders
from codequarry.serving.encoders.shared_encoders import open_shared_encoder
from codequarry.serving.encoders.spec import Encoder, EncoderSpec, open_encoder


def copies(directory: Path, tmp_path: Path, count: int = 2) -> list[Path]:
    """The same encoder in several folders."""
    return [Path(shutil.copytree(directory, tmp_path / f"version{number}")) for number in range(count)]


def test_versions_with_the_same_static_encoder_share_one_that_no_file_can_damage(tmp_path: Path) -> None:
    first, second = copies(SHIPPED, tmp_path)
    encoder = open_shared_encoder(first)
    (first / "rows.npy").write_bytes(bytes((first / "rows.npy").stat().st_size))  # in place, as a bad disk does
    assert open_shared_encoder(second) is encoder
    np.testing.assert_array_equal(encoder.encode_query("close it"), open_encoder(SHIPPED).encode_query("close it"))
    with pytest.raises(IntegrityError, match=r"rows\.npy: sha256"):
        open_shared_encoder(first)


def test_an_encoder_goes_with_the_last_version_that_uses_it(tmp_path: Path) -> None:
    (folder,) = copies(SHIPPED, tmp_path, 1)
    spec = folder / "encoder.json"
    spec.write_text(spec.read_text().replace('"name": "', '"name": "other '))  # no other test has this one open
    gone = weakref.ref(open_shared_encoder(folder))
    gc.collect()
    assert gone() is None


def test_versions_that_open_at_once_open_the_encoder_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = copies(SHIPPED, tmp_path, 4)
    for folder in folders:
        spec = folder / "encoder.json"
        spec.write_text(spec.read_text().replace('"name": "', '"name": "raced '))
    opened: list[Path] = []

    def open_slowly(directory: Path, spec: EncoderSpec) -> Encoder:
        opened.append(directory)
        return open_encoder(directory)

    monkeypatch.setattr(shared_encoders, "open_verified", open_slowly)
    with ThreadPoolExecutor(len(folders)) as pool:
        encoders = list(pool.map(open_shared_encoder, folders))
    assert len({id(encoder) for encoder in encoders}) == len(opened) == 1


def test_a_model_that_maps_its_weights_is_shared_by_links_alone(minilm_directory: Path, tmp_path: Path) -> None:
    copy, link = tmp_path / "copy", tmp_path / "link"
    encoder = open_shared_encoder(Path(shutil.copytree(minilm_directory, copy)))
    assert open_shared_encoder(Path(shutil.copytree(copy, link, copy_function=os.link))) is encoder
    assert open_shared_encoder(minilm_directory) is not encoder

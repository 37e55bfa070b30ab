"""Files of a late-interaction index: packing, and what a reader refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codequarry.schemas.bundle.warp import WarpSpec, cluster_dtype
from codequarry.schemas.errors import IntegrityError
from codequarry.serving.channels.warp.index import map_arrays, pack, unpack
from tests.serving.bundles.warp_corpus import built, random_documents


@given(bits=st.sampled_from([2, 4]), rows=st.integers(0, 5), width=st.integers(1, 16), seed=st.integers(0, 99))
def test_packing_loses_nothing(bits: int, rows: int, width: int, seed: int) -> None:
    levels = np.random.default_rng(seed).integers(0, 1 << bits, (rows, 8 * width // bits)).astype(np.uint8)
    packed = pack(levels, bits)
    assert packed.shape == (rows, width)
    np.testing.assert_array_equal(unpack(packed, bits), levels)


@pytest.fixture(params=["standard", "compact"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    built(tmp_path / "warp", random_documents(5, 30), profile=request.param)
    return tmp_path / "warp"


def test_every_file_starts_its_rows_at_a_multiple_of_64_bytes(folder: Path) -> None:
    spec = WarpSpec.load(folder)
    arrays = map_arrays(folder, spec)
    assert {f"{name}.npy" for name in arrays} | {"index.json"} == {file.name for file in folder.iterdir()}
    for name, array in arrays.items():
        assert ((folder / f"{name}.npy").stat().st_size - array.nbytes) % 64 == 0
        assert not array.flags.writeable


def test_every_truncation_is_refused(folder: Path) -> None:
    spec = WarpSpec.load(folder)
    for file in sorted(folder.glob("*.npy")):
        whole = file.read_bytes()
        for kept in (0, 5, 64, 127, len(whole) - 1):
            file.write_bytes(whole[:kept])
            with pytest.raises(IntegrityError, match=file.name):
                map_arrays(folder, spec)
        file.write_bytes(whole)
    map_arrays(folder, spec)


def test_a_missing_file_is_named(folder: Path) -> None:
    spec = WarpSpec.load(folder)
    (folder / "pids.npy").unlink()
    with pytest.raises(IntegrityError, match=r"pids\.npy: cannot be mapped") as caught:
        map_arrays(folder, spec)
    assert "build the bundle again" in caught.value.suggestion


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("offsets", lambda array: array[::-1].copy(), "not ascending"),
        ("doc_offsets", lambda array: np.where(np.arange(len(array)) == 3, 10**12, array), "not ascending"),
        ("doc_offsets", lambda array: np.where(np.arange(len(array)) == 3, array[2], array), "no token"),
        ("chunk_ids", lambda array: array[::-1].copy(), "ids are not ascending"),
        ("levels", lambda array: array * np.float32("nan"), "not finite"),
        ("centroids", lambda array: array.astype(np.int16), "int16, expected"),
        ("centroids", lambda array: np.asfortranarray(array), "in C order"),
        ("pids", lambda array: array[:-1], "expected"),
        ("pids", lambda array: np.array([object()] * len(array)), "not an array file"),
    ],
)
def test_other_contents_are_refused(folder: Path, name: str, change, message: str) -> None:
    spec = WarpSpec.load(folder)
    file = folder / f"{name}.npy"
    changed = change(np.load(file))
    file.unlink()
    np.save(file, changed, allow_pickle=True)
    with pytest.raises(IntegrityError, match=message):
        map_arrays(folder, spec)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, "format 2, this program reads 1"),
        ({"bits": 3}, "bits"),
        ({"dim": 129}, "dim"),
        ({"dim": 7, "bits": 4}, "do not fill bytes"),
        ({"encoder": "x"}, "encoder"),
        ({"more": 1}, "more"),
        ({"documents": -1}, "documents"),
    ],
)
def test_a_description_that_is_none_is_refused(folder: Path, changes: dict[str, object], message: str) -> None:
    path = folder / "index.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(IntegrityError, match=message):
        WarpSpec.load(folder)


def test_cluster_numbers_take_two_bytes_while_they_fit() -> None:
    assert [cluster_dtype(count).itemsize for count in (0, 1, 1 << 16, (1 << 16) + 1)] == [2, 2, 2, 4]

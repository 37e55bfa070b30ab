"""Arrays are read without `ast`, and a header that NumPy would not have written is damage."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.errors import CodequarryError, IntegrityError
from codequarry.serving.catalog.chunk_arrays import CHUNK, RowIndex
from codequarry.serving.catalog.explanation_facts import ChunkFacts
from codequarry.serving.files.arrays import map_array, read_array
from codequarry.serving.files.file_index import FileIndex
from tests.serving.bundles.bundle_factory import write_bundle
from tests.serving.bundles.corpus import PIECES

READERS = (read_array, map_array)
RECORD = np.dtype([(name, kinds[0]) for name, kinds in CHUNK.items()])
KINDS = [
    *(np.dtype(kind) for kind in ("i1", "u1", "?", "<i2", "<u2", "<i4", "<i8", "<u8", "<f2", "<f4", "<f8")),
    RECORD,
]


def header_file(folder: Path, text: bytes, *, magic: bytes = b"\x93NUMPY\x01\x00", data: bytes = b"") -> Path:
    """A file with this header and nothing else wrong."""
    path = folder / "made.npy"
    path.write_bytes(magic + len(text).to_bytes(2, "little") + text + data)
    return path


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("shape", [(0,), (1,), (5,), (3, 4), (0, 7), (2, 3, 4)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_what_numpy_saves_is_read_as_numpy_reads_it(
    tmp_path: Path, kind: np.dtype, shape: tuple[int, ...], order: str
) -> None:
    path = tmp_path / "a.npy"
    size = int(np.prod(shape)) * kind.itemsize
    array = np.frombuffer(random.Random(1).randbytes(size), kind).reshape(shape)
    np.save(path, np.asarray(array, order=order), allow_pickle=False)
    expected = np.load(path, allow_pickle=False)
    for read in READERS:
        got = read(path)
        assert (got.dtype, got.shape, got.tobytes()) == (expected.dtype, expected.shape, expected.tobytes())
        assert got.flags.c_contiguous == expected.flags.c_contiguous
        assert type(got) is np.ndarray
    assert read_array(path).flags.writeable
    assert not shape[0] or not map_array(path).flags.writeable


GOOD = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        GOOD[:-1],
        GOOD.replace("<f4", "|O"),
        GOOD.replace("<f4", ">f4"),
        GOOD.replace("<f4", "<U9"),
        GOOD.replace("<f4", "<M8[ns]"),
        GOOD.replace("'<f4'", "[('a', '<f4'), ('a', '<f4')]"),
        GOOD.replace("'<f4'", "[]"),
        GOOD.replace("'<f4'", "[('a', [('b', '<f4')])]"),
        GOOD.replace("'<f4'", "[('a', '<f4', (9,))]"),
        GOOD.replace("(2,)", "()"),
        GOOD.replace("(2,)", "2"),
        GOOD.replace("(2,)", "(-2,)"),
        GOOD.replace("(2,)", "(2L,)"),
        GOOD.replace("(2,)", "(02,)"),
        GOOD.replace("(2,)", "(٢,)".encode().decode("latin-1")),
        GOOD.replace("(2,)", "(999999999999999999, 999999999999999999)"),
        GOOD.replace("(2,)", "(" + "9" * 400 + ",)"),
        GOOD.replace("(2,)", "(" + "1, " * 40 + "2)"),
        GOOD.replace("(2,)", "(3,)"),
        GOOD.replace("(2,)", "(1,)"),
        GOOD.replace("False", "0"),
        GOOD.replace("False", "[" * 900),
        GOOD.replace("}", "'x': 1}"),
        GOOD.replace("{", "("),
        "'''" + GOOD,
        GOOD.replace("False", "__import__('os')"),
        " " * 60_000 + GOOD,
    ],
)
@pytest.mark.parametrize("read", READERS)
def test_any_other_header_is_damage(tmp_path: Path, text: str, read: Callable[[Path], np.ndarray]) -> None:
    with pytest.raises(IntegrityError):
        read(header_file(tmp_path, text.encode("latin-1"), data=bytes(8)))


@pytest.mark.parametrize("read", READERS)
def test_what_is_cut_longer_or_of_another_format_is_damage(tmp_path: Path, read: Callable[[Path], np.ndarray]) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.arange(5))
    whole = path.read_bytes()
    for damaged in (*(whole[:size] for size in range(len(whole))), whole + b"\0", b"PK\x03\x04" + whole):
        path.write_bytes(damaged)
        with pytest.raises(IntegrityError):
            read(path)
    for magic in (b"\x93NUMPY\x02\x00", b"\x93NUMPY\x03\x00", b"\x93NUMPZ\x01\x00"):
        with pytest.raises(IntegrityError):
            read(header_file(tmp_path, GOOD.encode(), magic=magic, data=bytes(8)))
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none.npy")


@given(st.lists(st.tuples(st.integers(0, 127), st.integers(0, 255)), min_size=1, max_size=4))
def test_a_changed_header_is_read_as_numpy_reads_it_or_is_damage(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "changed.npy"
    np.save(path, np.arange(6, dtype=np.float32).reshape(2, 3))
    data = bytearray(path.read_bytes())
    for place, value in changes:
        data[place] = value
    path.write_bytes(data)
    try:
        got = read_array(path)
    except IntegrityError:
        return
    expected = np.load(path, allow_pickle=False)
    assert (got.dtype, got.shape, got.tobytes()) == (expected.dtype, expected.shape, expected.tobytes())


@pytest.fixture(scope="module")
def version(tmp_path_factory: pytest.TempPathFactory) -> BundlePaths:
    return write_bundle(tmp_path_factory.mktemp("bundles"), PIECES)


def openers(paths: BundlePaths) -> Iterator[tuple[Path, Callable[[], object]]]:
    """Every array file of a version, and what opens it."""
    facts, dim = np.load(paths.files / "facts.npy")["row"], np.load(paths.files / "cards.npy").shape[1]
    chunks, files = len(np.load(paths.rows / "ids_rows.npy")), len(np.load(paths.facts / "said_starts.npy")) - 1
    folders: dict[Path, Callable[[], object]] = {
        paths.rows: lambda: RowIndex.open(paths.rows),
        paths.facts: lambda: ChunkFacts.open(paths.facts, chunks, files),
        paths.files: lambda: FileIndex.open(paths.files, facts, dim),
    }
    for folder, opened in folders.items():
        yield from ((file, opened) for file in sorted(folder.glob("*.npy")))


def test_damage_to_the_header_of_any_array_of_a_version_is_an_error_of_ours(version: BundlePaths) -> None:
    dice, tried = random.Random(1), 0
    found = list(openers(version))
    for file, opened in found:
        opened()
        whole = file.read_bytes()
        swapped = [other.read_bytes() for other, _ in found if other != file]
        changed = []
        for _ in range(60):
            data = bytearray(whole)
            for _ in range(dice.randint(1, 3)):
                data[dice.randrange(100)] = dice.choice(b"\0\n \"'#([{0123456789<>|fiu,}])\xff")
            changed.append(bytes(data))
        for damaged in (*changed, *swapped, b"", whole[:64]):
            file.write_bytes(damaged)
            tried += 1
            with suppress(CodequarryError):
                opened()
        file.write_bytes(whole)
    assert tried > 1000


@contextmanager
def collecting_often() -> Iterator[None]:
    """The garbage collector runs all the time and gives way to other threads, as with Prometheus' own callback."""

    def give_way(*_: object) -> None:
        time.sleep(0)

    before = gc.get_threshold()
    gc.callbacks.append(give_way)
    gc.set_threshold(20)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(give_way)


def test_a_thousand_openings_in_many_threads(version: BundlePaths) -> None:
    """Prevents CPython's SystemError (gh-106905): `numpy.load` meets it here within some hundred headers."""
    opened = list(dict.fromkeys(one for _, one in openers(version)))
    with collecting_often(), ThreadPoolExecutor(8) as pool:
        done = [pool.submit(one) for _ in range(1000) for one in opened]
        failed = [error for one in done if (error := one.exception()) is not None]
    assert (len(done), failed) == (1000 * len(opened), [])

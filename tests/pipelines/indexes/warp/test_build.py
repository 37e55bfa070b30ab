"""Building a late-interaction index: codec, clusters, files, memory, and what the store keeps."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from codequarry.pipelines.indexes.array_files import ArrayWriter
from codequarry.pipelines.indexes.warp import build as warp_build
from codequarry.pipelines.indexes.warp.build import WarpPlan, build_index, fit_levels, levels_of, residuals_of
from codequarry.pipelines.indexes.warp.clusters import Clusters, train
from codequarry.pipelines.indexes.warp.token_codes import TokenEncoding, encode_missing, open_token_store
from codequarry.pipelines.store.vectors import text_key
from codequarry.schemas.bundle.warp import WarpSpec
from codequarry.schemas.errors import InvalidArgumentError, UnavailableError
from codequarry.serving.channels.warp.index import map_arrays, unpack
from codequarry.serving.encoders.spec import EncoderSpec
from tests.serving.bundles.warp_corpus import DIM, SCALES, built, codes_of, random_documents

PLAN = WarpPlan(SCALES, "0" * 64)


def digests(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


@pytest.mark.parametrize("profile", ["standard", "compact"])
def test_the_same_documents_give_the_same_bytes(tmp_path: Path, profile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = random_documents(3, 400)
    built(tmp_path / "one", documents, profile=profile)  # pyright: ignore[reportArgumentType]
    # Blocks and passes are only as large as the memory; they decide nothing.
    monkeypatch.setattr(warp_build, "_BLOCK", 97)
    passes = warp_build._passes
    monkeypatch.setattr(warp_build, "_passes", lambda held, _most: passes(held, 150))
    built(tmp_path / "two", documents, profile=profile)  # pyright: ignore[reportArgumentType]
    assert digests(tmp_path / "one") == digests(tmp_path / "two")
    build_index(_made(tmp_path / "three"), documents, WarpPlan(SCALES, "0" * 64, profile=profile, seed=8))  # pyright: ignore[reportArgumentType]
    assert digests(tmp_path / "one") != digests(tmp_path / "three")


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.mark.parametrize("bits", [2, 4])
def test_postings_hold_every_token_once_in_the_cluster_it_belongs_to(tmp_path: Path, bits: int) -> None:
    documents = random_documents(6, 200)
    index = built(tmp_path, documents, bits=bits)
    codes = np.concatenate([each for _, each in documents])
    np.testing.assert_array_equal(index.doc_codes, codes)
    assert index.chunk_ids.tolist() == [chunk_id for chunk_id, _ in documents]
    sizes = np.diff(index.doc_offsets)
    assert sizes.tolist() == [len(each) for _, each in documents]
    assert np.bincount(index.pids, minlength=len(documents)).tolist() == sizes.tolist()
    assert index.residuals is not None
    clusters = np.repeat(np.arange(index.spec.centroids), np.diff(index.offsets))
    shown = index.centroids[clusters] + index.levels[0] + index.levels[1] * unpack(np.asarray(index.residuals), bits)
    for number in range(0, len(documents), 17):
        own = shown[index.pids == number]
        # Every token is near one of its document's decompressed postings.
        distances = ((codes_at(index, number)[:, None] - own[None]) * SCALES) ** 2
        assert distances.sum(axis=2).min(axis=1).max() < (0.05 if bits == 4 else 0.6)
    for cluster in range(index.spec.centroids):
        own = index.pids[index.offsets[cluster] : index.offsets[cluster + 1]]
        assert (np.diff(own) >= 0).all()


def codes_at(index, number: int) -> np.ndarray:
    return np.asarray(index.doc_codes[index.doc_offsets[number] : index.doc_offsets[number + 1]], np.float64)


def test_compact_postings_name_each_document_of_a_cluster_once(tmp_path: Path) -> None:
    documents = random_documents(6, 200)
    index = built(tmp_path, documents, profile="compact")
    assert index.doc_centroids is not None
    expected = {
        (int(cluster), number)
        for number in range(len(documents))
        for cluster in index.doc_centroids[index.doc_offsets[number] : index.doc_offsets[number + 1]]
    }
    clusters = np.repeat(np.arange(index.spec.centroids), np.diff(index.offsets))
    found = list(zip(clusters.tolist(), index.pids.tolist(), strict=True))
    assert len(found) == len(set(found)) == index.spec.postings < index.spec.tokens
    assert set(found) == expected


@pytest.mark.parametrize("bits", [2, 4])
def test_the_codec_is_within_half_a_step_inside_its_range(bits: int) -> None:
    random = np.random.default_rng(4)
    residuals = np.rint(random.standard_normal((4000, 8)) * np.array([1, 2, 4, 8, 16, 32, 40, 0])).astype(np.int16)
    levels = fit_levels(residuals, bits)
    assert (levels[1] > 0).all()
    found = levels_of(residuals, levels, bits)
    shown = levels[0] + levels[1] * found
    inside = (residuals >= levels[0]) & (residuals <= levels[0] + levels[1] * ((1 << bits) - 1))
    assert inside.mean() > 0.7
    assert (np.abs(residuals - shown) <= 0.5001 * levels[1])[inside].all()
    assert not (residuals - shown)[:, 7].any()  # a dimension without spread is exact
    # Searching the range beats covering the largest residual.
    whole = np.stack([residuals.min(axis=0), np.maximum(np.ptp(residuals, axis=0) / ((1 << bits) - 1), 1e-3)])
    covering = whole[0] + whole[1] * levels_of(residuals, whole.astype(np.float32), bits)
    assert np.square(residuals - shown).mean() < np.square(residuals - covering).mean()


def test_two_level_assignment_finds_nearly_always_the_nearest_centre() -> None:
    random = np.random.default_rng(9)
    directions = random.standard_normal((600, DIM))
    tokens = codes_of(directions[random.integers(0, 600, 30_000)] + 0.5 * random.standard_normal((30_000, DIM)))
    clusters = train(tokens[:20_000], SCALES, 1024, 1)
    assert len(clusters.cells) == 32
    assert clusters.centroids.shape == (1024, DIM)
    exact = ((tokens * SCALES) @ (clusters.centroids * SCALES).T).argmax(axis=1)
    found = clusters.assign(tokens)
    assert (found == exact).mean() > 0.97
    centres = clusters.centroids * SCALES
    lost = ((tokens * SCALES) * (centres[exact] - centres[found])).sum(axis=1)
    assert lost.mean() < 0.005


def test_assignment_without_cells_is_exact() -> None:
    tokens = codes_of(np.random.default_rng(1).standard_normal((3000, DIM)))
    clusters = train(tokens, SCALES, 128, 1)
    assert isinstance(clusters, Clusters)
    assert len(clusters.cells) == 1
    exact = ((tokens * SCALES) @ (clusters.centroids * SCALES).T).argmax(axis=1)
    assert (clusters.assign(tokens) == exact).mean() > 0.999  # ties of float32 aside


def test_residuals_are_exact_at_the_ends_of_their_range() -> None:
    low, high = np.full((1, 2), -127, np.int8), np.full((1, 2), 127, np.int8)
    assert residuals_of(high, low).tolist() == [[254, 254]]


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([(3, np.zeros((1, DIM), np.int8)), (3, np.zeros((1, DIM), np.int8))], "chunk 3 comes behind 3"),
        ([(3, np.zeros((1, DIM), np.int8)), (2, np.zeros((1, DIM), np.int8))], "chunk 2 comes behind 3"),
        ([(3, np.zeros((0, DIM), np.int8))], "chunk 3 has codes of"),
        ([(3, np.zeros((2, DIM + 2), np.int8))], "chunk 3 has codes of"),
        ([(3, np.zeros((2, DIM), np.float32))], "chunk 3 has codes of"),
    ],
)
def test_documents_that_are_none_are_refused(tmp_path: Path, documents, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        build_index(tmp_path, documents, PLAN)
    assert not (tmp_path / "index.json").exists()
    assert not list(tmp_path.glob("scratch-*"))


def test_memory_bounds_the_sample(tmp_path: Path) -> None:
    spec = build_index(tmp_path, random_documents(2, 900), WarpPlan(SCALES, "0" * 64, memory_mb=0))
    assert spec == WarpSpec.load(tmp_path)
    assert spec.centroids <= 1024
    map_arrays(tmp_path, spec)


def test_an_array_that_grew_loads_as_it_was_written(tmp_path: Path) -> None:
    rows = np.arange(60, dtype=np.int32).reshape(20, 3)
    with ArrayWriter(tmp_path / "rows.npy", np.dtype("<i4"), (3,)) as writer:
        for part in (rows[:7], rows[7:7], rows[7:]):
            writer.write(part)
    np.testing.assert_array_equal(np.load(tmp_path / "rows.npy"), rows)


TEXTS = [f"def f{number}(x):\n    return x + {number}\n" for number in range(5)]


@pytest.fixture
def encoding(token_directory: Path) -> TokenEncoding:
    spec = EncoderSpec.load(token_directory)
    return TokenEncoding(token_directory, spec.fingerprint, spec.dim, punctuation=False, threads=1)


def test_a_text_is_encoded_once(tmp_path: Path, encoding: TokenEncoding) -> None:
    assert encode_missing([*TEXTS[:3], TEXTS[0]], tmp_path, encoding) == 3
    assert encode_missing(TEXTS, tmp_path, encoding) == 2
    assert encode_missing(TEXTS, tmp_path, encoding) == 0
    direct = encoding.open().encode_documents(TEXTS)
    with open_token_store(tmp_path, encoding) as store:
        held = store.get([text_key(text) for text in TEXTS])
    for text, codes in zip(TEXTS, direct, strict=True):
        np.testing.assert_array_equal(held[text_key(text)], codes)


def test_a_killed_run_goes_on_where_it_stopped(
    tmp_path: Path, encoding: TokenEncoding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codequarry.pipelines.indexes.text_indexes._BATCH", 2)

    def stop(_what: str, done: int, _total: int) -> None:
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encode_missing(TEXTS, tmp_path, encoding, stop)
    assert encode_missing(TEXTS, tmp_path, encoding) == 1


def test_a_damaged_entry_is_encoded_again(tmp_path: Path, encoding: TokenEncoding) -> None:
    encode_missing(TEXTS, tmp_path, encoding)
    with open_token_store(tmp_path, encoding) as store:
        store._store._connection.execute("UPDATE entries SET value = zeroblob(900) WHERE key = ?", [text_key(TEXTS[2])])
        store._store._connection.commit()
    assert encode_missing(TEXTS, tmp_path, encoding) == 1


def test_other_tokens_are_other_entries(tmp_path: Path, encoding: TokenEncoding) -> None:
    kinds = [
        TokenEncoding(tmp_path, name, 8, punctuation=punctuation, threads=1, device=device)
        for name in "ab"
        for punctuation in (True, False)
        for device in ("cpu", "cuda")
    ]
    assert len({kind.file(tmp_path) for kind in kinds}) == len(kinds)


def test_a_device_is_a_provider_and_one_that_is_not_there_is_said(
    encoding: TokenEncoding, monkeypatch: pytest.MonkeyPatch
) -> None:
    import onnxruntime

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    with pytest.raises(UnavailableError, match="no CUDAExecutionProvider for device cuda, only CPUExecutionProvider"):
        replace(encoding, device="cuda").open()
    asked: list[list[str]] = []
    opened = onnxruntime.InferenceSession

    def session(path: str, options: object, providers: list[str]) -> object:
        asked.append(providers)
        real = opened(path, options, providers=["CPUExecutionProvider"])
        return SimpleNamespace(
            run=real.run, get_inputs=real.get_inputs, get_outputs=real.get_outputs, get_providers=lambda: started
        )

    started = both = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: both)
    monkeypatch.setattr(onnxruntime, "InferenceSession", session)
    texts = ["def load(path):\n    return path"]
    (there,) = replace(encoding, device="cuda").open().encode_documents(texts)
    (here,) = encoding.open().encode_documents(texts)
    assert asked == [both, ["CPUExecutionProvider"]]
    assert there.tobytes() == here.tobytes()
    started = ["CPUExecutionProvider"]
    with pytest.raises(UnavailableError, match="could not start CUDAExecutionProvider for device cuda, only CPU"):
        replace(encoding, device="cuda").open()

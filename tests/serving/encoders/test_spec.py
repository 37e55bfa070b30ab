"""The runtime encoder: what a vector depends on, and what a damaged directory says."""

from __future__ import annotations

import inspect
import json
import random
import shutil
import textwrap
from pathlib import Path

import numpy as np
import pytest

from codequarry.schemas.errors import IntegrityError, InvalidArgumentError
from codequarry.serving.encoders.spec import Encoder, EncoderSpec, QueryShape, open_encoder

# More texts than one slab, of very different lengths, with the awkward ones included.
TEXTS = [
    "",
    " \n\t",
    "x",
    "\N{SNOWMAN} \N{CJK UNIFIED IDEOGRAPH-4E2D}\N{CJK UNIFIED IDEOGRAPH-6587} \x00",
    inspect.getsource(textwrap),
    *(inspect.getsource(function) for _, function in inspect.getmembers(shutil, inspect.isfunction)),
]


@pytest.fixture(scope="module")
def encoder(minilm_directory: Path) -> Encoder:
    return open_encoder(minilm_directory)


@pytest.fixture(scope="module")
def vectors(encoder: Encoder) -> np.ndarray:
    return encoder.encode_documents(TEXTS)


@pytest.fixture
def copied(minilm_directory: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(minilm_directory, tmp_path / "encoder"))


def change_spec(directory: Path, **changes: object) -> Path:
    path = directory / "encoder.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return directory


def test_vectors_are_unit_float32_rows(encoder: Encoder, vectors: np.ndarray) -> None:
    assert len(TEXTS) > 40
    assert (vectors.shape, vectors.dtype) == ((len(TEXTS), encoder.spec.dim), np.float32)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_a_vector_does_not_depend_on_order_batch_or_threads(
    encoder: Encoder, vectors: np.ndarray, minilm_directory: Path
) -> None:
    order = random.Random(7).sample(range(len(TEXTS)), len(TEXTS))
    threaded = open_encoder(minilm_directory, threads=3)
    np.testing.assert_array_equal(threaded.encode_documents([TEXTS[i] for i in order]), vectors[order])
    for i in (0, 4, 9):
        np.testing.assert_array_equal(encoder.encode_documents([TEXTS[i]])[0], vectors[i])


def test_a_query_without_prefixes_is_a_document(encoder: Encoder, vectors: np.ndarray) -> None:
    query = encoder.encode_query(TEXTS[7])
    assert (query.shape, query.dtype) == ((encoder.spec.dim,), np.float32)
    np.testing.assert_array_equal(query, vectors[7])


def test_a_lone_surrogate_reads_as_a_question_mark(encoder: Encoder) -> None:
    np.testing.assert_array_equal(encoder.encode_query("a \ud800 b"), encoder.encode_query("a ? b"))


def test_no_documents(encoder: Encoder) -> None:
    assert encoder.encode_documents([]).shape == (0, encoder.spec.dim)


def test_progress_counts_up_to_every_text(encoder: Encoder) -> None:
    seen: list[int] = []
    encoder.encode_documents(["a"] * 70, seen.append)
    assert seen == sorted(set(seen))
    assert seen[-1] == 70
    assert len(seen) > 1


def test_a_failing_text_stops_the_run(encoder: Encoder) -> None:
    with pytest.raises(TypeError):
        encoder.encode_documents(["a", None])  # pyright: ignore[reportArgumentType]


def test_prefixes_are_added_once(encoder: Encoder, copied: Path) -> None:
    prefixed = open_encoder(change_spec(copied, query_prefix="query: ", document_prefix="code: "))
    np.testing.assert_array_equal(prefixed.encode_query("sort a list"), encoder.encode_query("query: sort a list"))
    np.testing.assert_array_equal(
        prefixed.encode_documents(["def f(): ..."]), encoder.encode_documents(["code: def f(): ..."])
    )


def test_text_beyond_max_tokens_is_ignored(encoder: Encoder) -> None:
    word = "loop "
    fits = encoder.encode_query(word * (encoder.spec.max_tokens - 2))
    np.testing.assert_array_equal(encoder.encode_query(word * 1000), fits)
    assert not np.array_equal(encoder.encode_query(word * (encoder.spec.max_tokens - 3)), fits)


def test_a_query_is_nearest_to_the_code_it_describes(encoder: Encoder) -> None:
    documents = [
        "def retry(call, attempts):\n    for attempt in range(attempts):\n        time.sleep(2 ** attempt)",
        "def parse_csv(path):\n    with open(path) as file:\n        return list(csv.reader(file))",
        "class Matrix:\n    def transpose(self):\n        return Matrix(zip(*self.rows))",
    ]
    queries = ["wait longer after each failed try", "read rows of a comma separated file", "swap rows and columns"]
    scores = np.stack([encoder.encode_query(query) for query in queries]) @ encoder.encode_documents(documents).T
    np.testing.assert_array_equal(scores.argmax(axis=1), [0, 1, 2])


def test_the_fingerprint_covers_exactly_what_changes_vectors(encoder: Encoder) -> None:
    spec = encoder.spec
    assert encoder.spec.fingerprint == spec.fingerprint
    same: dict[str, object] = {"name": "other", "license": "MIT", "source": "elsewhere", "adapted": None}
    same |= {"model": "m", "revision": "r", "agreement": None}
    assert {spec.model_copy(update={key: value}).fingerprint for key, value in same.items()} == {spec.fingerprint}
    different = {
        "dim": 1,
        "max_tokens": 64,
        "query_prefix": "q",
        "document_prefix": "q",
        "documents": "torch float16",
        "query_shape": QueryShape(length=8),
        "sha256": {**spec.sha256, "tokenizer.json": "0" * 64},
    }
    assert {*same, *different, "kind"} == set(EncoderSpec.model_fields)  # another kind has other files
    fingerprints = {spec.model_copy(update={key: value}).fingerprint for key, value in different.items()}
    assert len(fingerprints | {spec.fingerprint}) == len(different) + 1


def test_a_fingerprint_is_the_same_wherever_it_is_computed() -> None:
    spec = EncoderSpec(
        name="n",
        dim=2,
        max_tokens=8,
        license="MIT",
        source="s",
        sha256={"tokenizer.json": "b" * 64, "model.onnx": "a" * 64, "model.onnx.data": "c" * 64},
    )
    assert spec.fingerprint == "a795568d3f71d46259c89f655377c8b4ee9214b3091fecff3c3b396e6d1d14de"


@pytest.mark.parametrize("file", ["model.onnx", "model.onnx.data", "tokenizer.json", "encoder.json"])
def test_a_missing_file_is_named(copied: Path, file: str) -> None:
    (copied / file).unlink()
    with pytest.raises(IntegrityError, match=rf"{file}: cannot be read") as caught:
        open_encoder(copied)
    assert "export the encoder again" in caught.value.suggestion


@pytest.mark.parametrize("file", ["model.onnx", "model.onnx.data", "tokenizer.json"])
def test_changed_bytes_are_found(copied: Path, file: str) -> None:
    data = bytearray((copied / file).read_bytes())
    data[len(data) // 2] ^= 1
    (copied / file).write_bytes(data)
    with pytest.raises(IntegrityError, match=rf"{file}: sha256 [0-9a-f]{{64}}, expected [0-9a-f]{{64}}"):
        open_encoder(copied)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dim": "wide"}, "dim: "),
        ({"max_tokens": -1}, "max_tokens: "),
        ({"max_tokens": 2}, "max_tokens must be 0 for a static encoder, and 3 or more"),
        ({"sha256": {"model.onnx": "0" * 64}}, "must name exactly model.onnx, model.onnx.data, tokenizer.json"),
        ({"surprise": 1}, "surprise: "),
    ],
)
def test_a_malformed_description_is_explained(copied: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(IntegrityError, match=message):
        open_encoder(change_spec(copied, **changes))


def test_a_description_that_is_not_json(copied: Path) -> None:
    (copied / "encoder.json").write_text("not json")
    with pytest.raises(IntegrityError, match=r"encoder\.json"):
        open_encoder(copied)


@pytest.mark.parametrize(
    ("file", "message"), [("model.onnx", "ONNX Runtime cannot load it"), ("tokenizer.json", "not a tokenizer")]
)
def test_sealed_nonsense_is_refused(copied: Path, file: str, message: str) -> None:
    (copied / file).write_text("{}")
    EncoderSpec.seal(copied, kind="onnx", name="n", dim=384, max_tokens=128, license="MIT", source="s")
    with pytest.raises(IntegrityError, match=message):
        open_encoder(copied)


def test_another_dimension_than_described_is_refused(copied: Path) -> None:
    with pytest.raises(IntegrityError, match=r"expected inputs \['input_ids'\] and one output \(1, 7\)"):
        open_encoder(change_spec(copied, dim=7))


def test_threads_must_be_positive(minilm_directory: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="threads: 0"):
        open_encoder(minilm_directory, threads=0)


def test_encoders_with_the_same_tokenizer_share_it_while_one_is_open(minilm_directory: Path, copied: Path) -> None:
    """Parsing it holds the interpreter: a server that opens the next version would stop answering for that long."""
    first = open_encoder(minilm_directory)
    second = open_encoder(copied)
    assert second._tokenizer is first._tokenizer
    shorter = open_encoder(change_spec(copied, max_tokens=32))
    assert shorter._tokenizer is not first._tokenizer
    text = "one two three four " * 60
    assert (shorter.encode_query(text) != first.encode_query(text)).any()

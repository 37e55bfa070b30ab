"""The shipped static encoder: its sum against a second one, awkward texts, and what a damaged directory says."""

from __future__ import annotations

import inspect
import json
import random
import shutil
import textwrap
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Replace

from codequarry.pipelines.embed.encoders import SHIPPED
from codequarry.schemas.errors import IntegrityError
from codequarry.serving.encoders.spec import Encoder, EncoderSpec, open_encoder
from codequarry.serving.encoders.static import TokenIds
from codequarry.serving.text.analyzer import source_tokens, terms_of

ENCODER = open_encoder(SHIPPED)
TEXTS = [
    "",
    " \n\t",
    "{}();",
    "\N{SNOWMAN}",
    "\N{GRINNING FACE}\N{GRINNING FACE}",
    "日本語 = 変数名 + 1  # 名前",
    "\x00\x01",
    "x" * 1_000_000,
    "a b " * 250_000,
    inspect.getsource(textwrap),
    "def open_file(path): return path.read_text()",
]


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SHIPPED, tmp_path / "encoder"))


def test_vectors_are_unit_float32_rows_whatever_the_text() -> None:
    vectors = ENCODER.encode_documents(TEXTS)
    assert (vectors.shape, vectors.dtype) == ((len(TEXTS), ENCODER.spec.dim), np.float32)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    asked = np.stack([ENCODER.encode_query(text) for text in TEXTS])
    assert asked.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(asked, axis=1), 1, atol=1e-5)


def test_a_vector_does_not_depend_on_order_company_or_what_was_encoded_before() -> None:
    vectors = ENCODER.encode_documents(TEXTS)
    order = random.Random(7).sample(range(len(TEXTS)), len(TEXTS))
    fresh: Encoder = open_encoder(SHIPPED)
    np.testing.assert_array_equal(fresh.encode_documents([TEXTS[i] for i in order]), vectors[order])


@pytest.mark.slow
@given(st.text(max_size=300))
def test_the_vector_is_the_weighted_sum_of_rows_by_the_square_root_of_their_counts(text: str) -> None:
    """The same formula in another way: token by token, in float64, without any memory."""
    tokenizer = Tokenizer.from_file(str(SHIPPED / "tokenizer.json"))
    rows, scales = np.load(SHIPPED / "rows.npy"), np.load(SHIPPED / "scales.npy")
    counts: Counter[int] = Counter()
    for token in source_tokens(text.encode("utf-8", "replace").decode()):
        whole, *parts = terms_of(token)
        ids = tokenizer.encode(whole).ids
        if parts and (len(ids) != 1 or ids == [0]):
            ids = []
        counts.update([*ids, *(one for part in parts for one in tokenizer.encode(part).ids)])
    found = (ENCODER.encode_documents([text])[0], ENCODER.encode_query(text))
    for vector, own in zip(found, scales, strict=True):
        total = sum((own[one] * count**0.5 * rows[one].astype(float) for one, count in counts.items()), np.zeros(256))
        if not np.linalg.norm(total):
            total = rows[0].astype(float)
        np.testing.assert_allclose(vector, total / np.linalg.norm(total), atol=1e-5)


def test_an_encoder_of_an_earlier_release_has_the_same_weights_in_queries(copied: Path) -> None:
    np.save(copied / "scales.npy", np.load(copied / "scales.npy")[0])
    reseal(copied)
    earlier = open_encoder(copied)
    np.testing.assert_array_equal(earlier.encode_documents(TEXTS), ENCODER.encode_documents(TEXTS))
    for text, vector in zip(TEXTS, earlier.encode_documents(TEXTS), strict=True):
        np.testing.assert_array_equal(earlier.encode_query(text), vector)


@pytest.mark.parametrize(("normalizer", "ids"), [(None, {2: 1, 3: 1}), (Replace("_", ""), {1: 1, 2: 1, 3: 1})])
def test_an_identifier_is_a_token_of_its_own_by_what_the_tokenizer_makes_of_it(
    normalizer: Replace | None, ids: dict[int, int]
) -> None:
    """Its parts are looked up once for all identifiers that have them."""
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0, "maxsize": 1, "max": 2, "size": 3}, "[UNK]"))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    known = TokenIds(tokenizer)
    assert known.counts("max_size") == ids
    assert known.counts("size_max") == {3: 1, 2: 1}
    assert known.counts("size") == {3: 1}


@given(st.lists(st.sampled_from("open file readLines HTTPServer max_bytes == -> 42 ünïcode".split()), max_size=30))
def test_the_order_of_words_changes_nothing_but_rounding(words: list[str]) -> None:
    forth, back = ENCODER.encode_query(" ".join(words)), ENCODER.encode_query(" ".join(reversed(words)))
    np.testing.assert_allclose(forth, back, atol=1e-6)


def test_a_lone_surrogate_reads_as_a_question_mark() -> None:
    np.testing.assert_array_equal(ENCODER.encode_query("a \ud800 b"), ENCODER.encode_query("a ? b"))


def test_no_documents() -> None:
    assert ENCODER.encode_documents([]).shape == (0, ENCODER.spec.dim)


def test_progress_counts_up_to_every_text() -> None:
    seen: list[int] = []
    ENCODER.encode_documents(["text"] * 600, seen.append)
    assert seen == [256, 512, 600]


def test_a_question_is_nearest_to_the_code_it_describes() -> None:
    functions = [textwrap.dedent, textwrap.shorten, textwrap.fill, shutil.copytree, shutil.disk_usage, shutil.which]
    code = [inspect.getsource(one).replace(one.__doc__ or "", "") for one in functions]
    questions = ["remove common leading whitespace from lines", "copy a whole directory", "how much free space is left"]
    found = (np.stack([ENCODER.encode_query(one) for one in questions]) @ ENCODER.encode_documents(code).T).argmax(1)
    assert [functions[i].__name__ for i in found] == ["dedent", "copytree", "disk_usage"]


def test_the_shipped_files_are_small_and_described() -> None:
    spec = ENCODER.spec
    assert (spec.kind, spec.license, spec.max_tokens) == ("static", "Apache-2.0", 0)
    assert sum(file.stat().st_size for file in SHIPPED.iterdir()) <= 6_000_000
    card = (SHIPPED / "MODEL_CARD.md").read_text(encoding="utf-8")
    for file, sha256 in spec.sha256.items():
        assert f"`{file}` | `{sha256}`" in card


@pytest.mark.parametrize("file", ["rows.npy", "scales.npy", "tokenizer.json"])
def test_changed_bytes_are_found(copied: Path, file: str) -> None:
    data = bytearray((copied / file).read_bytes())
    data[len(data) // 2] ^= 1
    (copied / file).write_bytes(data)
    with pytest.raises(IntegrityError, match=rf"{file}: sha256 [0-9a-f]{{64}}, expected [0-9a-f]{{64}}"):
        open_encoder(copied)


def reseal(directory: Path) -> None:
    spec = ENCODER.spec
    EncoderSpec.seal(directory, kind="static", name="n", dim=spec.dim, max_tokens=0, license="MIT", source="s")


@pytest.mark.parametrize(
    ("file", "table"),
    [
        ("rows.npy", np.zeros((16_384, 255), np.int8)),
        ("rows.npy", np.zeros((16_384, 256), np.float32)),
        ("rows.npy", np.zeros((100, 256), np.int8)),
        ("scales.npy", np.zeros(100, np.float32)),
        ("scales.npy", np.ones((3, 16_384), np.float32)),
        ("scales.npy", np.full((2, 16_384), np.nan, np.float32)),
        ("scales.npy", np.array([{}] * 16_384, object)),
    ],
)
def test_tables_that_do_not_fit_are_refused(copied: Path, file: str, table: np.ndarray) -> None:
    np.save(copied / file, table)
    reseal(copied)
    with pytest.raises(IntegrityError):
        open_encoder(copied)


def test_the_tokenizer_of_another_encoder_is_refused(copied: Path, minilm_directory: Path) -> None:
    shutil.copyfile(minilm_directory / "tokenizer.json", copied / "tokenizer.json")
    reseal(copied)
    with pytest.raises(IntegrityError, match=r"rows\.npy is \(16384, 256\) int8"):
        open_encoder(copied)


@pytest.mark.parametrize(("max_tokens", "kind"), [(128, "static"), (0, "onnx")])
def test_a_length_that_the_kind_does_not_have_is_refused(copied: Path, max_tokens: int, kind: str) -> None:
    described = json.loads((copied / "encoder.json").read_text()) | {"max_tokens": max_tokens, "kind": kind}
    (copied / "encoder.json").write_text(json.dumps(described))
    with pytest.raises(IntegrityError, match=r"encoder\.json"):
        open_encoder(copied)

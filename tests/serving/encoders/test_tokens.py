"""The token encoder: which tokens have vectors, what a vector depends on, and where each token is."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from codequarry.pipelines.embed.export.minilm_tokens import damped_axes, export_minilm_tokens, scales_of
from codequarry.schemas.errors import IntegrityError, InvalidArgumentError
from codequarry.serving.encoders.spec import EncoderSpec, open_encoder
from codequarry.serving.encoders.tokens import TokenEncoder, token_text

TEXTS = [
    "",
    " \n\t",
    "}",
    "x",
    "def f(x):\n    return x + 1\n",
    "größe = 'ünïcode 日本 \N{GRINNING FACE}' # \N{COMBINING ACUTE ACCENT}e",
    "a \ud800 b",
    "loop " * 700,
]


@pytest.fixture(scope="module")
def encoder(token_directory: Path) -> TokenEncoder:
    return TokenEncoder.open(token_directory)


@pytest.mark.parametrize("text", TEXTS)
def test_every_text_has_unit_vectors_and_as_many_spans(encoder: TokenEncoder, text: str) -> None:
    vectors, spans = encoder.document_vectors(text), encoder.document_spans(text)
    assert len(vectors) == len(spans) >= 2
    assert (vectors.dtype, vectors.shape[1]) == (np.float32, encoder.spec.dim)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert (spans[:, 0] <= spans[:, 1]).all() and spans.max() <= len(text)


def test_codes_are_within_half_a_step_of_the_vectors(encoder: TokenEncoder) -> None:
    text = "def remove_expired(self, now):\n    return [one for one in self.entries if one.until > now]\n"
    codes, vectors = encoder.encode_documents([text])[0], encoder.document_vectors(text)
    assert codes.dtype == np.int8
    reached = np.abs(vectors) <= 127 * encoder.scales
    assert reached.mean() > 0.999
    assert (np.abs(codes * encoder.scales - vectors) <= 0.5001 * encoder.scales)[reached].all()


def test_vectors_depend_on_the_text_alone(encoder: TokenEncoder, token_directory: Path) -> None:
    many = TEXTS * 5
    threaded = TokenEncoder.open(token_directory, threads=3)
    seen: list[int] = []
    for one, other in zip(threaded.encode_documents(many, seen.append), encoder.encode_documents(many), strict=True):
        np.testing.assert_array_equal(one, other)
    assert seen == sorted(seen) and seen[-1] == len(many)
    np.testing.assert_array_equal(encoder.encode_documents([TEXTS[4]])[0], encoder.encode_documents(many)[4])


def test_words_and_marks_have_vectors_punctuation_when_asked_for(encoder: TokenEncoder, token_directory: Path) -> None:
    text = "if (x != y_2) { return; }"
    spans = encoder.document_spans(text)
    assert [text[start:end] for start, end in spans.tolist()] == ["", "if", "x", "y", "2", "return", ""]
    whole = TokenEncoder.open(token_directory, punctuation=True)
    shown = [text[start:end] for start, end in whole.document_spans(text).tolist()]
    assert "".join(shown) == text.replace(" ", "")
    assert len(whole.document_vectors(text)) == len(shown)
    assert [("){};"[start:end]) for start, end in encoder.document_spans("){};").tolist()] == [
        "",
        ")",
        "{",
        "}",
        ";",
        "",
    ]


def test_spans_never_split_a_character(encoder: TokenEncoder) -> None:
    text = "größe 日本語 e\N{COMBINING ACUTE ACCENT}t\N{COMBINING ACUTE ACCENT} \N{GRINNING FACE}x ﬁn Ⅷ"
    shown = [text[start:end] for start, end in encoder.document_spans(text).tolist()]
    assert {"日", "本"} <= set(shown)
    for piece in shown:
        assert piece.encode().decode() == piece
    assert text[:5] in "".join(shown)


def test_a_query_is_cut_at_32_tokens_and_says_so(encoder: TokenEncoder) -> None:
    short = encoder.encode_query("where are expired sessions removed?")
    assert short.texts == ("", "where", "are", "expired", "sessions", "removed", "")
    assert not short.cut
    fits = encoder.encode_query("loop " * 30)
    assert (len(fits.texts), fits.cut) == (32, False)
    for count in (31, 600):
        long = encoder.encode_query("loop " * count)
        assert (len(long.texts), long.cut) == (32, True)
        assert long.texts[-1] == "" and long.texts[1] == "loop"
        assert long.vectors.shape == (32, encoder.spec.dim)


def test_text_beyond_max_tokens_is_ignored(encoder: TokenEncoder) -> None:
    word = "loop "
    room = encoder.spec.max_tokens - 2
    np.testing.assert_array_equal(encoder.document_vectors(word * 1000), encoder.document_vectors(word * room))


def test_a_token_is_nearest_to_its_like(encoder: TokenEncoder) -> None:
    query = encoder.encode_query("outdated sessions")
    code = "def remove_expired(self, session_store):\n    session_store.clear()\n"
    spans = encoder.document_spans(code).tolist()
    nearest = (encoder.document_vectors(code) @ query.vectors.T).argmax(axis=0)
    met = {asked: code[slice(*spans[row])] for asked, row in zip(query.texts, nearest.tolist(), strict=True)}
    assert met["sessions"] == "session"
    assert met["outdated"] == "expired"


def test_two_exports_are_the_same_bytes(token_directory: Path, tmp_path: Path) -> None:
    export_minilm_tokens(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in token_directory.iterdir())
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (token_directory / path.name).read_bytes(), path.name


def test_damped_axes_are_the_principal_ones() -> None:
    random = np.random.default_rng(0)
    spread = np.array([8, 4, 2, 1, 0.5, 0.25])
    turn = np.linalg.qr(random.standard_normal((6, 6)))[0]
    vectors = (random.standard_normal((20_000, 6)) * spread @ turn.T + 3).astype(np.float32)
    middle, projection = damped_axes(vectors, 3)
    np.testing.assert_allclose(middle, vectors.mean(axis=0), atol=1e-3)
    # Scaled by variance^(1/4), what was spread s is spread sqrt(s).
    np.testing.assert_allclose(((vectors - middle) @ projection).std(axis=0), np.sqrt(spread[:3]), rtol=0.03)
    assert np.abs(np.sum(turn[:, :3] * projection / np.linalg.norm(projection, axis=0), axis=0)) == pytest.approx(
        1, abs=0.01
    )


def test_scales_reach_beyond_the_sample_and_are_never_zero() -> None:
    scales = scales_of(np.array([[0.5, 0.0], [-0.9, 0.0]], np.float32))
    assert 127 * scales[0] == pytest.approx(1)
    assert scales[1] > 0


def test_the_line_of_path_and_name_comes_first() -> None:
    assert token_text(path="a.py", qualified_name="", text="x\n") == ("a.py\nx\n", 5)


def test_an_encoder_of_texts_is_none_of_tokens(minilm_directory: Path, token_directory: Path) -> None:
    with pytest.raises(IntegrityError, match="an encoder of kind onnx, expected tokens"):
        TokenEncoder.open(minilm_directory)
    with pytest.raises(IntegrityError, match="gives vectors of tokens, expected of texts"):
        open_encoder(token_directory)


@pytest.mark.parametrize("file", ["model.onnx", "scales.npy", "tokenizer.json"])
def test_changed_bytes_are_found(token_directory: Path, tmp_path: Path, file: str) -> None:
    copied = Path(shutil.copytree(token_directory, tmp_path / "encoder"))
    data = bytearray((copied / file).read_bytes())
    data[-1] ^= 1
    (copied / file).write_bytes(data)
    with pytest.raises(IntegrityError, match=rf"{file}: sha256"):
        TokenEncoder.open(copied)


@pytest.mark.parametrize(
    "scales", [np.ones(3, np.float32), np.ones(128), np.zeros(128, np.float32), np.full(128, np.nan, np.float32)]
)
def test_scales_that_are_none_are_refused(token_directory: Path, tmp_path: Path, scales: np.ndarray) -> None:
    copied = Path(shutil.copytree(token_directory, tmp_path / "encoder"))
    np.save(copied / "scales.npy", scales)
    spec = EncoderSpec.load(copied)
    EncoderSpec.seal(
        copied, kind="tokens", name="n", dim=spec.dim, max_tokens=spec.max_tokens, license="MIT", source="s"
    )
    with pytest.raises(IntegrityError, match=r"scales\.npy: .* expected \(128,\) float32, positive"):
        TokenEncoder.open(copied)


@pytest.mark.parametrize("max_tokens", [2, 513])
def test_max_tokens_out_of_range(tmp_path: Path, max_tokens: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"max_tokens: {max_tokens}, expected 3 to 512"):
        export_minilm_tokens(tmp_path, max_tokens=max_tokens)
    with pytest.raises(InvalidArgumentError, match="threads: 0"):
        TokenEncoder.open(tmp_path, threads=0)

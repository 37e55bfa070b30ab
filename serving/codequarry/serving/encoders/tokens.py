"""Token encoders: an ONNX graph that gives one vector for each token of a text, and the tokens' positions.

The directory holds, besides its description (kind ``tokens``)::

    model.onnx       input ``input_ids`` (1, t) int64 -> one output (1, t, d) float32, rows of unit norm
    model.onnx.data  its large weights
    tokenizer.json
    scales.npy       (d,) float32, positive: a code of dimension i stands for ``code * scales[i]``

A document's vectors are kept as int8 codes, a query's as they are. Texts run alone and unpadded, as in
`codequarry.serving.encoders.onnx`. Tokens without a letter or digit give no vectors unless they are requested. The
tokenizer's special tokens ([CLS], [SEP]) do, as they describe the whole text: .02 MRR for two vectors a text. A text of
nothing else keeps all of its tokens.

Some models mark queries and documents by a token of their own behind [CLS], and fill short queries up with [MASK]
tokens, whose vectors stand for words that the query lacks (ColBERT). The marks are the prefixes of the description;
`QueryShape` says how far a query is filled up. All tokens of such a query have vectors. Tokens behind the last [SEP]
are left alone by all others where the model was trained so; that is part of its graph.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false
# ONNX Runtime ships no type stubs.

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from codequarry.schemas.bundle.warp import MAX_QUERY_TOKENS
from codequarry.schemas.errors import IntegrityError, InvalidArgumentError
from codequarry.serving.encoders.onnx import on_threads, open_session
from codequarry.serving.encoders.spec import FILES, REMEDY, EncoderSpec, open_tokenizer
from codequarry.serving.files.arrays import read_array

if TYPE_CHECKING:
    import onnxruntime
    import tokenizers

MODEL_FILE, WEIGHTS_FILE, _, SCALES_FILE = FILES["tokens"]


class QueryTokens(NamedTuple):
    """Query tokens as late interaction reads them."""

    vectors: NDArray[np.float32]
    """(t, d) float32, unit norm, 1 <= t <= 32; the last is the final special token, also when the query is cut."""
    text: str
    """The query behind its prefix."""
    spans: NDArray[np.int64]
    """(t, 2): first and last character + 1 of each token in the text; empty for special tokens and the prefix."""
    cut: bool
    """True when the query has more tokens, which are not read."""

    @property
    def texts(self) -> tuple[str, ...]:
        """Text that each token covers; "" for a special token."""
        return tuple(self.text[start:end] for start, end in self.spans.tolist())


def token_text(*, path: str, qualified_name: str, text: str) -> tuple[str, int]:
    """Return the text of a chunk for a token encoder: a line of path and qualified name, then the chunk's text.

    The second value is the position at which the chunk's own text begins, in characters.

    >>> token_text(path="a.py", qualified_name="f", text="return x")
    ('a.py f\\nreturn x', 7)
    """
    header = f"{path} {qualified_name}".strip() + "\n"
    return header + text, len(header)


class TokenEncoder:
    """Encoder of token vectors. Safe to share between threads; `open` opens one."""

    def __init__(
        self,
        spec: EncoderSpec,
        session: onnxruntime.InferenceSession,
        tokenizer: tokenizers.Tokenizer,
        scales: NDArray[np.float32],
        *,
        threads: int = 1,
        punctuation: bool = False,
    ) -> None:
        self.spec = spec
        self.scales = scales
        self.punctuation = punctuation
        self._session = session
        self._tokenizer = tokenizer
        self._threads = threads
        self._worded = _worded(tokenizer)

    @classmethod
    def open(cls, directory: Path, *, threads: int = 1, punctuation: bool = False, device: str = "cpu") -> Self:
        """Open an encoder directory, checking its files against their digests.

        Args:
            directory: Folder of the encoder.
            threads: Documents encoded at the same time.
            punctuation: Give vectors to tokens without a letter or digit.
            device: See `open_session`.

        Returns:
            The open encoder.

        Raises:
            IntegrityError: A file is missing, damaged or not what the description says.
            CodequarryError: As `open_session`.
        """
        if threads < 1:
            raise InvalidArgumentError(f"threads: {threads}, expected at least 1", suggestion="leave it out for one")
        spec = EncoderSpec.load(directory)
        if spec.kind != "tokens":
            raise IntegrityError(f"{directory}: an encoder of kind {spec.kind}, expected tokens", suggestion=REMEDY)
        spec.verify(directory)
        scales = _scales(directory / SCALES_FILE, spec.dim)
        session = open_session(directory / MODEL_FILE, (None, spec.dim), device)
        tokenizer = open_tokenizer(directory, spec)
        return cls(spec, session, tokenizer, scales, threads=threads, punctuation=punctuation)

    def encode_documents(
        self, texts: Sequence[str], progress: Callable[[int], None] | None = None
    ) -> list[NDArray[np.int8]]:
        """Return codes of the tokens of each text, in input order.

        Args:
            texts: n strings.
            progress: Called with the number of texts finished so far, from the calling thread.

        Returns:
            (t, d) int8 with t >= 1 for each text.
        """
        codes: list[NDArray[np.int8]] = [np.empty((0, self.spec.dim), np.int8)] * len(texts)
        # Encode texts of similar length one after another: ONNX Runtime reuses its buffers.
        order = sorted(range(len(texts)), key=lambda row: (len(texts[row]), row))

        def encode(row: int) -> None:
            codes[row] = self.codes(self.document_vectors(texts[row]))

        on_threads(encode, order, self._threads, progress)
        return codes

    def document_vectors(self, text: str) -> NDArray[np.float32]:
        """Return the vectors that `encode_documents` converts into codes: (t, d) float32, unit norm."""
        encoding = self._encoding(self.spec.document_prefix + text)
        return self._run(encoding.ids)[self._select_positions(encoding)]

    def read_documents(self, texts: Sequence[str]) -> list[tuple[list[int], NDArray[np.int64]]]:
        """Return the tokens of each text as the graph takes them, and the positions of those that have vectors.

        Args:
            texts: Texts without the prefix of documents.

        Returns:
            Numbers of the tokens, and positions (t,) int64 with t >= 1.
        """
        whole = [_encodable(self.spec.document_prefix + text) for text in texts]
        return [(each.ids, self._select_positions(each)) for each in self._tokenizer.encode_batch(whole)]

    def codes(self, vectors: NDArray[np.float32]) -> NDArray[np.int8]:
        """Return nearest codes of vectors, (t, d) float32; components beyond 127 steps are clipped."""
        return np.clip(np.rint(vectors / self.scales), -127, 127).astype(np.int8)

    def encode_query(self, text: str) -> QueryTokens:
        """Encode a query: its first 31 tokens and the last, or as many as the encoder was trained with."""
        begun = self.spec.query_prefix + text
        encoding = self._encoding(begun)
        spans = np.array(encoding.offsets, np.int64).reshape(-1, 2)
        spans[spans[:, 1] <= len(self.spec.query_prefix)] = 0
        shape = self.spec.query_shape
        most = MAX_QUERY_TOKENS if shape is None else shape.length
        kept = self._select_positions(encoding) if shape is None else np.arange(len(spans))
        cut = len(kept) > most or bool(encoding.overflowing)
        if len(kept) > most:
            kept = np.append(kept[: most - 1], kept[-1])
        if shape is None:
            return QueryTokens(self._run(encoding.ids)[kept], begun, spans[kept], cut)
        ids = np.array(encoding.ids, np.int64)[kept].tolist()
        filling = [] if shape.mask is None else [shape.mask] * (most - len(ids))
        spans = np.concatenate([spans[kept], np.zeros((len(filling), 2), np.int64)])
        return QueryTokens(self._run([*ids, *filling]), begun, spans, cut)

    def document_spans(self, text: str) -> NDArray[np.int64]:
        """Locate the tokens of a document without running the model: (t, 2) int64, first and last character + 1.

        The rows are those of `encode_documents`; the span of a special token or a prefix is empty.
        """
        encoding = self._encoding(self.spec.document_prefix + text)
        spans = np.array(encoding.offsets, np.int64).reshape(-1, 2)[self._select_positions(encoding)]
        return np.maximum(spans - len(self.spec.document_prefix), 0)

    def _encoding(self, text: str) -> tokenizers.Encoding:
        return self._tokenizer.encode(_encodable(text))

    def _select_positions(self, encoding: tokenizers.Encoding) -> NDArray[np.int64]:
        """Return positions of the tokens with vectors: (t,) int64, t >= 1."""
        ids = np.array(encoding.ids, np.int64)
        if self.punctuation:
            return np.arange(len(ids))
        marks = np.array(encoding.special_tokens_mask, np.int64) == 1
        kept = self._worded[ids] & ~marks
        if not kept.any():
            kept = ~marks
        return np.flatnonzero(kept | marks)

    def _run(self, ids: Sequence[int]) -> NDArray[np.float32]:
        tokens = np.array([ids], np.int64)
        output: np.ndarray = self._session.run(None, {"input_ids": tokens})[0]  # pyright: ignore[reportAssignmentType]
        return output[0]


def _encodable(text: str) -> str:
    # A lone surrogate is not UTF-8; the tokenizer would refuse the whole text. One character stays one.
    return text.encode("utf-8", "replace").decode("utf-8")


def _worded(tokenizer: tokenizers.Tokenizer) -> NDArray[np.bool_]:
    """Select tokens that have a letter or digit, or stand for text that no token covers: (v,) bool."""
    vocabulary: dict[str, int] = tokenizer.get_vocab(with_added_tokens=True)
    worded = np.zeros(max(vocabulary.values(), default=0) + 1, np.bool_)
    for token, number in vocabulary.items():
        worded[number] = any(character.isalnum() for character in token)
    return worded


def _scales(path: Path, dim: int) -> NDArray[np.float32]:
    try:
        scales = read_array(path)
    except OSError as error:
        raise IntegrityError(f"{path}: cannot be read ({error})", suggestion=REMEDY) from error
    if scales.shape != (dim,) or scales.dtype != np.float32 or not (np.isfinite(scales) & (scales > 0)).all():
        raise IntegrityError(
            f"{path}: {scales.shape} {scales.dtype}, expected ({dim},) float32, positive", suggestion=REMEDY
        )
    return scales

"""Sparse encoders: a text as weights of terms of a vocabulary, most of them zero (SPLADE, Formal et al. 2021).

A directory of kind ``sparse`` holds, besides its description::

    model.onnx       input ``input_ids`` (1, t) int64 -> one output (1, V) float32, no weight below 0
    model.onnx.data  its large weights
    tokenizer.json
    step.npy         (1,) float32, positive: an impact of 1 stands for this weight in a document

One of kind ``term_weights`` encodes queries alone, without a model ("inference-free"): a query has the weights of its
tokens, each counted once::

    weights.npy      (V,) float32
    tokenizer.json

A model gives weight to words that a text does not have, its *expansions*; those it has are its *written* terms. Texts
run alone and unpadded, as in `codequarry.serving.encoders.onnx`.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false
# ONNX Runtime ships no type stubs.

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from codequarry.schemas.bundle.splade import MAX_IMPACT, MAX_TERMS, QUERY_STEPS
from codequarry.schemas.errors import IntegrityError, InvalidArgumentError
from codequarry.serving.encoders.onnx import open_session
from codequarry.serving.encoders.spec import FILES, REMEDY, EncoderSpec, open_tokenizer
from codequarry.serving.files.arrays import read_array

if TYPE_CHECKING:
    import onnxruntime
    import tokenizers

MODEL_FILE, WEIGHTS_FILE, _, STEP_FILE = FILES["sparse"]
TERM_WEIGHTS_FILE, _ = FILES["term_weights"]
_SLAB = 16


class Impacts(NamedTuple):
    """Terms of a document with their impacts."""

    terms: NDArray[np.int32]
    """(m,) ascending, m <= `MAX_TERMS`."""
    impacts: NDArray[np.uint8]
    """(m,) in steps of the encoder, 1 at least."""

    def heaviest(self, count: int) -> Impacts:
        """Return only the ``count`` heaviest terms, the first ones among equals."""
        if len(self.terms) <= count:
            return self
        kept = np.sort(np.lexsort((self.terms, -self.impacts.astype(np.int16)))[:count])
        return Impacts(self.terms[kept], self.impacts[kept])


@dataclass(frozen=True, slots=True)
class SparseQuery:
    """Weighted terms of a query."""

    terms: NDArray[np.int32]
    """(m,) ascending, m <= `MAX_TERMS`."""
    weights: NDArray[np.int32]
    """(m,) in steps, 1 to `QUERY_STEPS`."""
    step: float
    """Weight that 1 stands for."""
    written: frozenset[int]
    """Terms that are words of the query."""
    cut: bool
    """True when the query has more tokens, which were not read."""


class Vocabulary:
    """Terms of an encoder, as text."""

    def __init__(self, spec: EncoderSpec, tokenizer: tokenizers.Tokenizer, *, marks: bool) -> None:
        """Use a tokenizer.

        Args:
            spec: Description of the encoder.
            tokenizer: Tokenizer of the encoder.
            marks: Add the tokenizer's special tokens, such as [CLS], when texts are encoded.
        """
        self.spec = spec
        self._tokenizer = tokenizer
        self._marks = marks

    def encoding(self, text: str) -> tokenizers.Encoding:
        """Tokenize a text."""
        # A lone surrogate is not UTF-8; the tokenizer would refuse the whole text.
        return self._tokenizer.encode(text.encode("utf-8", "replace").decode("utf-8"), add_special_tokens=self._marks)

    def literal_terms(self, text: str) -> frozenset[int]:
        """Return the terms that are words of a text, up to the length that is read."""
        encoding = self.encoding(text)
        marks = encoding.special_tokens_mask
        return frozenset(token for token, mark in zip(encoding.ids, marks, strict=True) if not mark)

    def text(self, term: int) -> str:
        """Return a term in readable form."""
        return self._tokenizer.decode([term]).strip() or self._tokenizer.id_to_token(term) or f"#{term}"


class SparseEncoder(Vocabulary):
    """Sparse encoder of documents and queries by a model. Safe to share between threads; `open` opens one."""

    def __init__(
        self,
        spec: EncoderSpec,
        session: onnxruntime.InferenceSession,
        tokenizer: tokenizers.Tokenizer,
        step: float,
        *,
        threads: int = 1,
    ) -> None:
        super().__init__(spec, tokenizer, marks=True)
        self.step = step
        self._session = session
        self._threads = threads

    @classmethod
    def open(cls, directory: Path, *, threads: int = 1) -> Self:
        """Open a directory of kind ``sparse``, checking its files against their digests.

        Args:
            directory: Folder of the encoder.
            threads: Documents encoded at the same time.

        Returns:
            The open encoder.

        Raises:
            IntegrityError: A file is missing, damaged or not what the description says.
            MissingExtraError: ONNX Runtime is not installed.
        """
        if threads < 1:
            raise InvalidArgumentError(f"threads: {threads}, expected at least 1", suggestion="leave it out for one")
        spec = _load_spec(directory, "sparse")
        session = open_session(directory / MODEL_FILE, (spec.dim,))
        return cls(spec, session, open_tokenizer(directory, spec), read_step(directory), threads=threads)

    def encode_documents(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> list[Impacts]:
        """Return the `MAX_TERMS` heaviest terms of each text, in input order.

        Args:
            texts: n strings.
            progress: Called with the number of texts finished so far, from the calling thread.

        Returns:
            Terms and impacts of each text.
        """
        found: list[Impacts] = [Impacts(np.empty(0, np.int32), np.empty(0, np.uint8))] * len(texts)
        # Encode texts of similar length one after another: ONNX Runtime reuses its buffers.
        order = sorted(range(len(texts)), key=lambda row: (len(texts[row]), row))

        def encode_slab(start: int) -> int:
            stop = min(start + _SLAB, len(texts))
            for row in order[start:stop]:
                found[row] = impacts_of(self.weights(self.spec.document_prefix + texts[row]), self.step)
            return stop

        pool = ThreadPoolExecutor(self._threads, thread_name_prefix="encode-sparse")
        try:
            for done in pool.map(encode_slab, range(0, len(texts), _SLAB)):
                if progress is not None:
                    progress(done)
        finally:
            pool.shutdown(cancel_futures=True)
        return found

    def encode_query(self, text: str) -> SparseQuery:
        """Encode a query by the model, expansions included."""
        encoding = self.encoding(self.spec.query_prefix + text)
        return query_of(self._run(encoding.ids), self.literal_terms(text), cut=bool(encoding.overflowing))

    def weights(self, text: str) -> NDArray[np.float32]:
        """Return the weights of a text as the model gives them: (V,) float32."""
        return self._run(self.encoding(text).ids)

    def _run(self, ids: list[int]) -> NDArray[np.float32]:
        if not ids:
            return np.zeros(self.spec.dim, np.float32)
        output: np.ndarray = self._session.run(None, {"input_ids": np.array([ids], np.int64)})[0]  # pyright: ignore[reportAssignmentType]
        return output[0]


class TermWeights(Vocabulary):
    """Sparse encoder of queries without a model; `open` opens one."""

    def __init__(self, spec: EncoderSpec, weights: NDArray[np.float32], tokenizer: tokenizers.Tokenizer) -> None:
        super().__init__(spec, tokenizer, marks=False)
        self._weights = weights

    @classmethod
    def open(cls, directory: Path) -> Self:
        """Open a directory of kind ``term_weights``; raises IntegrityError as `SparseEncoder.open`."""
        spec = _load_spec(directory, "term_weights")
        weights = _array(directory / TERM_WEIGHTS_FILE, spec.dim)
        return cls(spec, weights, open_tokenizer(directory, spec))

    def encode_query(self, text: str) -> SparseQuery:
        """Return the weight of each token of a query, counted once."""
        encoding = self.encoding(self.spec.query_prefix + text)
        known = np.unique(np.array(encoding.ids, np.int64))
        known = known[known < self.spec.dim]
        weights = np.zeros(self.spec.dim, np.float32)
        weights[known] = self._weights[known]
        return query_of(weights, self.literal_terms(text), cut=bool(encoding.overflowing))


QueryEncoder = SparseEncoder | TermWeights


def open_query_encoder(directory: Path) -> QueryEncoder:
    """Open the query encoder of an index; raises as `SparseEncoder.open`."""
    kind = EncoderSpec.load(directory).kind
    return TermWeights.open(directory) if kind == "term_weights" else SparseEncoder.open(directory)


def read_step(directory: Path) -> float:
    """Read the weight that an impact of 1 stands for.

    Args:
        directory: Folder of the encoder.

    Returns:
        The weight, positive.

    Raises:
        IntegrityError: The directory has no such file.
    """
    step = float(_array(directory / STEP_FILE, 1)[0])
    if step <= 0:
        raise IntegrityError(f"{directory / STEP_FILE}: {step}, expected a positive number", suggestion=REMEDY)
    return step


def impacts_of(weights: NDArray[np.float32], step: float) -> Impacts:
    """Convert weights, (V,) float32, into a document's impacts; NaN and values below half a step count as 0.

    >>> impacts_of(np.array([0.0, 2.0, 0.1, 0.5, 900.0], np.float32), 0.5)
    Impacts(terms=array([1, 3, 4], dtype=int32), impacts=array([  4,   1, 255], dtype=uint8))
    """
    steps = np.clip(np.nan_to_num(np.rint(weights / np.float32(step)), nan=0.0), 0, MAX_IMPACT).astype(np.uint8)
    terms = np.flatnonzero(steps).astype(np.int32)
    return Impacts(terms, steps[terms]).heaviest(MAX_TERMS)


def query_of(weights: NDArray[np.float32], written: frozenset[int], *, cut: bool) -> SparseQuery:
    """Convert weights, (V,) float32, into a query in steps of its heaviest; NaN and values below a step count as 0.

    >>> query = query_of(np.array([0.0, 2.0, 1.0], np.float32), frozenset({1}), cut=False)
    >>> query.terms.tolist(), query.weights.tolist()
    ([1, 2], [1023, 512])
    """
    weights = np.where(np.isfinite(weights), weights, 0)
    largest = float(weights.max(initial=0.0))
    step = largest / QUERY_STEPS if largest > 0 else 1.0
    steps = np.rint(np.maximum(weights, 0) / step).astype(np.int32)
    terms = np.flatnonzero(steps)
    if len(terms) > MAX_TERMS:
        terms = np.sort(terms[np.lexsort((terms, -steps[terms]))[:MAX_TERMS]])
    return SparseQuery(terms.astype(np.int32), steps[terms], step, written, cut)


def _load_spec(directory: Path, kind: str) -> EncoderSpec:
    spec = EncoderSpec.load(directory)
    if spec.kind != kind:
        raise IntegrityError(f"{directory}: an encoder of kind {spec.kind}, expected {kind}", suggestion=REMEDY)
    spec.verify(directory)
    return spec


def _array(path: Path, length: int) -> NDArray[np.float32]:
    try:
        found = read_array(path)
    except OSError as error:
        raise IntegrityError(f"{path}: cannot be read ({error})", suggestion=REMEDY) from error
    if found.shape != (length,) or found.dtype != np.float32 or not np.isfinite(found).all():
        raise IntegrityError(
            f"{path}: {found.shape} {found.dtype}, expected ({length},) float32, finite", suggestion=REMEDY
        )
    return found

"""Static encoders: a weighted sum over a table of token vectors, in NumPy alone.

The directory holds, besides its description::

    rows.npy        (v, d) int8: the vector of each token
    scales.npy      (2, v) float32: what a row is multiplied with in a document, and in a query, the token's learned
                    weights included; encoders of earlier releases have (v,) for both
    tokenizer.json  splits the tokens of the analyzer into the v tokens

A text is split by the analyzer of the lexical index. Each identifier counts as its parts, and also as a whole if it is
a token of its own. The vector is the sum over tokens of ``scale * sqrt(count) * row``, normalized: repetitions count,
but less each time (the plain mean loses .045 MRR). A word may tell more in a question than in code, or less. A text has
the same vector whatever other texts are encoded with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from codequarry.schemas.errors import IntegrityError
from codequarry.schemas.prefixes import prefixed
from codequarry.serving.encoders.spec import FILES, REMEDY, EncoderSpec, open_tokenizer
from codequarry.serving.files.arrays import read_array
from codequarry.serving.text.analyzer import source_tokens, terms_of

if TYPE_CHECKING:
    import tokenizers

ROWS_FILE, SCALES_FILE, _ = FILES["static"]
UNKNOWN = 0
"""The token of what no other token covers; a text of nothing else has its vector."""

_PROGRESS_EVERY = 256
_REMEMBERED = 50_000
"""Source tokens whose ids are kept; a corpus repeats the same ones over and over."""


class TokenIds:
    """Token ids for source tokens. Safe to share between threads."""

    def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._normalizes = tokenizer.normalizer is not None
        self._known: dict[str, tuple[int, ...]] = {}
        self._parts: dict[str, tuple[int, ...]] = {}

    def counts(self, text: str) -> dict[int, int]:
        """Count the tokens of a text; order and result depend on the text alone."""
        found: dict[int, int] = {}
        for token, count in Counter(source_tokens(text)).items():
            ids = self._known.get(token)
            if ids is None:
                ids = self._learn(token)
            for one in ids:
                found[one] = found.get(one, 0) + count
        return found

    def _learn(self, token: str) -> tuple[int, ...]:
        whole, *parts = terms_of(token)
        if parts:
            ids = self._pieces(whole) if self._may_be_one(whole) else ()
            ids = ids if len(ids) == 1 and ids[0] != UNKNOWN else ()
            ids = ids + tuple(one for part in parts for one in self._part(part))
        else:
            ids = self._pieces(whole)
        if len(self._known) >= _REMEMBERED:
            self._known = {}
        self._known[token] = ids
        return ids

    def _may_be_one(self, whole: str) -> bool:
        """Tell whether an identifier may be a token of its own: where its text is not changed first, a known one."""
        return self._normalizes or self._tokenizer.token_to_id(whole) is not None

    def _part(self, part: str) -> tuple[int, ...]:
        """Return the ids of a part of an identifier, of which a corpus has far fewer than of identifiers."""
        ids = self._parts.get(part)
        if ids is None:
            if len(self._parts) >= _REMEMBERED:
                self._parts = {}
            ids = self._parts[part] = self._pieces(part)
        return ids

    def _pieces(self, term: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(term, add_special_tokens=False).ids)


class StaticEncoder:
    """`Encoder` that adds up rows of a table; `open_encoder` opens it."""

    def __init__(self, spec: EncoderSpec, rows: np.ndarray, scales: np.ndarray, ids: TokenIds) -> None:
        """Use a table of token vectors.

        Args:
            spec: Description of the encoder.
            rows: (v, d) int8.
            scales: (2, v) float32, of documents and of queries, or (v,) for both.
            ids: Tokenizer of source tokens.
        """
        self.spec = spec
        self._rows = rows
        self._of_documents, self._of_queries = np.broadcast_to(scales, (2, len(rows)))
        self._ids = ids

    @classmethod
    def open(cls, directory: Path, spec: EncoderSpec) -> Self:
        """Open an encoder directory whose files were compared with their digests; raises as `open_encoder`."""
        try:
            rows = read_array(directory / ROWS_FILE)
            scales = read_array(directory / SCALES_FILE)
        except (OSError, IntegrityError) as error:
            raise IntegrityError(f"{directory}: not the tables of an encoder: {error}", suggestion=REMEDY) from error
        tokenizer = open_tokenizer(directory, spec)
        expected = (tokenizer.get_vocab_size(), spec.dim)
        fits = (rows.shape, rows.dtype, scales.dtype) == (expected, np.int8, np.float32)
        if not fits or scales.shape not in ((2, len(rows)), (len(rows),)) or not np.isfinite(scales).all():
            raise IntegrityError(
                f"{directory}: {ROWS_FILE} is {rows.shape} {rows.dtype} and {SCALES_FILE} {scales.shape} "
                f"{scales.dtype}, expected {expected} int8 and two finite float32 for each row",
                suggestion=REMEDY,
            )
        return cls(spec, rows, scales, TokenIds(tokenizer))

    def encode_documents(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> np.ndarray:
        """Encode documents, see `Encoder.encode_documents`."""
        vectors = np.empty((len(texts), self.spec.dim), np.float32)
        for row, text in enumerate(texts):
            vectors[row] = self._encode(self.spec.document_prefix + text, self._of_documents)
            if progress is not None and ((row + 1) % _PROGRESS_EVERY == 0 or row + 1 == len(texts)):
                progress(row + 1)
        return vectors

    def encode_query(self, text: str) -> np.ndarray:
        """Encode a query, see `Encoder.encode_query`."""
        return self._encode(prefixed(self.spec.query_prefix, text), self._of_queries)

    def _encode(self, text: str, scales: np.ndarray) -> np.ndarray:
        # A lone surrogate, legal in JSON and in paths, is not UTF-8, which the tokenizer requires.
        counts = self._ids.counts(text.encode("utf-8", "replace").decode("utf-8"))
        vector = self._sum(counts, scales)
        norm = np.sqrt((vector * vector).sum())
        if not norm > 0:
            vector = self._sum({UNKNOWN: 1}, scales)
            norm = np.sqrt((vector * vector).sum())
        return vector / norm

    def _sum(self, counts: dict[int, int], scales: np.ndarray) -> np.ndarray:
        ids = np.fromiter(counts, np.intp, len(counts))
        weights = np.sqrt(np.fromiter(counts.values(), np.float32, len(counts))) * scales[ids]
        # Not a matrix product: the order in which BLAS adds depends on threads and on the alignment of the arrays.
        return (self._rows[ids] * weights[:, None]).sum(axis=0)

"""Late-interaction channel: the token encoder, the kernels and the index of a version."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from codequarry.schemas.bundle.index_spec import ENCODER_FOLDER
from codequarry.schemas.bundle.manifest import WarpEntry
from codequarry.schemas.bundle.warp import WarpSpec
from codequarry.schemas.errors import CodequarryError, IntegrityError, UnavailableError
from codequarry.schemas.install_hints import missing_extra
from codequarry.schemas.wire.search import TokenPair
from codequarry.serving.catalog.catalog import ChunkRow, DefinitionSpan
from codequarry.serving.channels.base import Candidates, Channel, ChannelQuery
from codequarry.serving.channels.warp.explain import token_pairs
from codequarry.serving.channels.warp.index import WarpIndex, map_arrays
from codequarry.serving.channels.warp.query import QueryVectors
from codequarry.serving.channels.warp.search import Searcher
from codequarry.serving.encoders.tokens import QueryTokens, TokenEncoder
from codequarry.serving.text.query_classes import Query

logger = logging.getLogger(__name__)

_REMEMBERED = 32
"""Queries whose vectors are kept: a request asks with the same one for candidates, a rescore and explanations."""


@dataclass(frozen=True, slots=True)
class _OpenTokens:
    """Parts that take long to open."""

    encoder: TokenEncoder
    encode: Callable[[str], QueryTokens]
    """Encodes a query, and remembers the last ones."""
    searcher: Searcher
    asked: Callable[[str], tuple[QueryTokens, QueryVectors]]
    no_kernels: str
    """Reason why kernels are missing; empty when they are there."""


class LateChannel(Channel):
    """Channel of token vectors: `search` is ``wide``, `rescore` scores given chunks."""

    @abstractmethod
    def rescore(self, asked: ChannelQuery, chunk_ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Compute exact MaxSim of given chunks.

        A score is the sum over the query's tokens of the best similarity in the chunk; `query_tokens` bounds it. Works
        without numba as well, but more slowly.

        Args:
            asked: Query and deadline.
            chunk_ids: (m,) int64.

        Returns:
            (m,) float32 in the requested order, NaN for a chunk that is not in the index.

        Raises:
            UnavailableError: The encoder cannot be opened.
            DeadlineError: The deadline has passed.
        """

    @abstractmethod
    def query_tokens(self, query: Query) -> int:
        """Return the number of query tokens that are read, which is also the largest possible score."""

    @abstractmethod
    def explain(
        self, query: Query, row: ChunkRow, definitions: Sequence[DefinitionSpan], *, before: int = 0
    ) -> list[TokenPair]:
        """Explain a chunk, see `explain.token_pairs`; empty for a chunk that is not in the index."""


class WarpChannel(LateChannel):
    """Channel that ranks chunks by late interaction.

    Scores are exact MaxSim, or WARP's own without ``rerank``. The deadline is checked between query tokens and between
    blocks of chunks.
    """

    name = "warp"

    def __init__(self, opened: Future[_OpenTokens], chunk_ids: np.ndarray, *, source: str) -> None:
        """Use an index that is being opened.

        Args:
            opened: Encoder, kernels and index, once they are open.
            chunk_ids: (n,) int64, ascending: chunks of the index's documents.
            source: Short name of the index.
        """
        self.source = source
        self._opening = opened
        self._chunk_ids = chunk_ids

    @classmethod
    def open(
        cls, folder: Path, entry: WarpEntry, chunks: int, *, threads: int = 1, beside: WarpChannel | None = None
    ) -> WarpChannel:
        """Open a version's index, and begin to open its encoder and the kernels on a thread of their own.

        Args:
            folder: Folder of the index.
            entry: Manifest entry of the index.
            chunks: Number of the version's chunks.
            threads: Threads of one request.
            beside: Channel whose open token encoder is used.

        Returns:
            The open channel.

        Raises:
            UnavailableError: The index is incomplete, or is not the one that the manifest describes.
        """
        spec = WarpSpec.load(folder)
        found = (spec.documents, spec.encoder, spec.profile)
        if found != (chunks, entry.encoder.fingerprint, entry.profile):
            raise UnavailableError(
                f"the index holds {spec.documents} chunks by encoder {spec.encoder[:12]}…, "
                f"expected {chunks} by {entry.encoder.fingerprint[:12]}…"
            )
        ids = map_arrays(folder, spec)["chunk_ids"]
        pool = ThreadPoolExecutor(1, thread_name_prefix="open-warp")
        try:
            opened = pool.submit(_open, folder, spec, threads, beside)
        except RuntimeError as error:
            raise UnavailableError("there is no thread left to open the token encoder on") from error
        finally:
            pool.shutdown(wait=False)
        return cls(opened, ids, source=f"warp_{spec.profile}")

    def _rank(self, asked: ChannelQuery) -> Candidates:
        opened = self._ready()
        if opened.no_kernels:
            raise UnavailableError(opened.no_kernels)
        tokens, vectors = opened.asked(asked.query.text)
        mask = None
        if asked.allowed is not None:
            mask = np.zeros(len(self._chunk_ids), np.bool_)
            rows = opened.searcher.index.rows_of(asked.allowed)
            mask[rows[rows >= 0]] = True
        ask = opened.searcher.wide if asked.rerank else opened.searcher.warp
        hits = ask(vectors, asked.limit, allowed=mask, check=asked.deadline.check)
        notes = (f"late interaction read the first {len(tokens.texts)} tokens of the query",) if tokens.cut else ()
        return Candidates(np.asarray(self._chunk_ids[hits.documents]), hits.scores, notes)

    def rescore(self, asked: ChannelQuery, chunk_ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Compute exact MaxSim, see `LateChannel`."""
        opened = self._ready()
        _, vectors = opened.asked(asked.query.text)
        rows = opened.searcher.index.rows_of(np.asarray(chunk_ids, np.int64))
        scores = np.full(len(rows), np.nan, np.float32)
        known = rows >= 0
        scores[known] = opened.searcher.rescore(vectors, rows[known], asked.deadline.check)
        return scores

    def query_tokens(self, query: Query) -> int:
        """Return the number of query tokens, see `LateChannel`."""
        return self._ready().asked(query.text)[1].tokens

    def explain(
        self, query: Query, row: ChunkRow, definitions: Sequence[DefinitionSpan], *, before: int = 0
    ) -> list[TokenPair]:
        """Explain a chunk, see `LateChannel`."""
        opened = self._ready()
        tokens, asked = opened.asked(query.text)
        document = int(opened.searcher.index.rows_of(np.array([row.chunk_id]))[0])
        if document < 0:
            return []
        return token_pairs(opened.searcher, opened.encoder, tokens, asked, document, row, definitions, before=before)

    def problem(self) -> str | None:
        """Return the reason why the channel cannot answer, once that is known."""
        if not self._opening.done():
            return None
        error = self._opening.exception()
        if error is None:
            return self._opening.result().no_kernels or None
        if isinstance(error, CodequarryError):
            return str(error) if isinstance(error, ImportError) else error.message
        return f"the token encoder cannot be opened ({type(error).__name__})"

    def counts(self) -> dict[str, int]:
        """Return the number of documents."""
        return {"documents": len(self._chunk_ids)}

    def _release(self) -> None:
        self._opening.exception()
        del self._opening, self._chunk_ids

    def _ready(self) -> _OpenTokens:
        # The exception of a future is one object: it would collect the frames of every request that raises it.
        error = self._opening.exception()
        if error is not None:
            raise UnavailableError(self.problem() or "the token encoder cannot be opened")
        return self._opening.result()


def _open(folder: Path, spec: WarpSpec, threads: int, beside: WarpChannel | None) -> _OpenTokens:
    if beside is not None:
        held = beside._ready()
        encoder, encode = held.encoder, held.encode
    else:
        encoder = TokenEncoder.open(folder / ENCODER_FOLDER, punctuation=spec.punctuation)
        encode = lru_cache(maxsize=_REMEMBERED)(encoder.encode_query)
    if encoder.spec.fingerprint != spec.encoder:
        raise IntegrityError(
            f"the token encoder is {encoder.spec.fingerprint[:12]}…, the index was made by {spec.encoder[:12]}…",
            suggestion="build the bundle again",
        )
    kernels, no_kernels = _kernels()
    searcher = Searcher(WarpIndex.open(folder, encoder.scales), kernels, threads)

    @lru_cache(maxsize=_REMEMBERED)
    def prepare_query(query: str) -> tuple[QueryTokens, QueryVectors]:
        tokens = encode(query)
        return tokens, searcher.prepare(tokens.vectors)

    # The first run allocates and picks kernels; do that here, not in the first request.
    prepare_query("warm up")
    return _OpenTokens(encoder, encode, searcher, prepare_query, no_kernels)


def _kernels() -> tuple[ModuleType | None, str]:
    """Return the compiled kernels, or None and the reason why they are missing."""
    try:
        from codequarry.serving.channels.warp import kernels as warp_kernels
    except ModuleNotFoundError as error:
        if error.name not in ("numba", "llvmlite"):
            raise
        return None, str(missing_extra("a wide search by late interaction", "warp", missing=error.name))
    except Exception as error:  # numba and LLVM raise of many kinds; without kernels rescoring still works
        logger.exception("the kernels of late interaction cannot be compiled")
        return None, f"the kernels cannot be compiled ({type(error).__name__})"
    return warp_kernels, ""

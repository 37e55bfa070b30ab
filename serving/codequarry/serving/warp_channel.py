"""The late-interaction channel: the token encoder, the kernels and the index of a version."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from codequarry.schemas.errors import CodequarryError, IntegrityError, UnavailableError
from codequarry.schemas.install_hints import missing_extra
from codequarry.schemas.manifest import WarpEntry
from codequarry.schemas.mapped_index import ENCODER_FOLDER
from codequarry.schemas.token_encoder import QueryTokens, TokenEncoder
from codequarry.schemas.tools import TokenPair
from codequarry.schemas.warp_layout import WarpSpec, map_arrays
from codequarry.serving.catalog import ChunkRow, DefinitionSpan
from codequarry.serving.channels import Candidates
from codequarry.serving.deadline import Deadline
from codequarry.serving.warp_explain import token_pairs
from codequarry.serving.warp_index import WarpIndex
from codequarry.serving.warp_query import Query
from codequarry.serving.warp_search import Searcher, unlimited

logger = logging.getLogger(__name__)

_REMEMBERED = 32
"""Queries whose vectors are kept: a request asks with the same one for candidates, a rescore and explanations."""


@dataclass(frozen=True, slots=True)
class _Opened:
    """What takes long to open."""

    encoder: TokenEncoder
    searcher: Searcher
    asked: Callable[[str], tuple[QueryTokens, Query]]
    no_kernels: str
    """Why there are none; empty when there are."""


class WarpChannel:
    """Chunks by late interaction: `search` is ``wide``, `rescore` scores given chunks."""

    name = "warp"

    def __init__(self, opened: Future[_Opened], chunk_ids: np.ndarray, *, source: str) -> None:
        """chunk_ids: (n,) int64, ascending; those of the index's documents."""
        self.source = source
        self._opening = opened
        self._chunk_ids = chunk_ids

    @classmethod
    def open(cls, folder: Path, entry: WarpEntry, chunks: int, *, threads: int = 1) -> WarpChannel:
        """Open a version's index, and begin to open its encoder and the kernels on a thread of their own.

        chunks: of the version. threads: of one request.

        Raises UnavailableError: the index is not whole, or is not the one the manifest describes.
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
            opened = pool.submit(_open, folder, spec, threads)
        except RuntimeError as error:
            raise UnavailableError("there is no thread left to open the token encoder on") from error
        finally:
            pool.shutdown(wait=False)
        return cls(opened, ids, source=f"warp_{spec.profile}")

    def search(
        self,
        query: str,
        limit: int,
        *,
        allowed: np.ndarray | None,
        rerank: bool,
        deadline: Deadline | None = None,
    ) -> Candidates:
        """See `Channel.search`: the best chunks of a wide search, by exact MaxSim; by WARP's own score without rerank.

        deadline: looked at between query tokens and blocks of chunks. Raises DeadlineError: it has passed.
        """
        opened = self._ready()
        if opened.no_kernels:
            raise UnavailableError(opened.no_kernels)
        tokens, asked = opened.asked(query)
        mask = None
        if allowed is not None:
            mask = np.zeros(len(self._chunk_ids), np.bool_)
            rows = opened.searcher.index.rows_of(allowed)
            mask[rows[rows >= 0]] = True
        ask = opened.searcher.wide if rerank else opened.searcher.warp
        hits = ask(asked, limit, allowed=mask, check=deadline.check if deadline else unlimited)
        notes = (f"late interaction read the first {len(tokens.texts)} tokens of the query",) if tokens.cut else ()
        return Candidates(np.asarray(self._chunk_ids[hits.documents]), hits.scores, notes)

    def rescore(
        self, query: str, chunk_ids: NDArray[np.int64], *, deadline: Deadline | None = None
    ) -> NDArray[np.float32]:
        """Exact MaxSim of given chunks: (m,) float32 in the order asked, NaN for a chunk that the index does not hold.

        A score is the sum over the query's tokens of the best similarity in the chunk; `query_tokens` of them bound it.
        Works without numba as well, slower.

        Raises UnavailableError: the encoder cannot be opened. DeadlineError: the deadline passed.
        """
        opened = self._ready()
        _, asked = opened.asked(query)
        rows = opened.searcher.index.rows_of(np.asarray(chunk_ids, np.int64))
        scores = np.full(len(rows), np.nan, np.float32)
        known = rows >= 0
        scores[known] = opened.searcher.rescore(asked, rows[known], deadline.check if deadline else unlimited)
        return scores

    def query_tokens(self, query: str) -> int:
        """How many tokens of a query are read: the largest score there can be."""
        return self._ready().asked(query)[1].tokens

    def explain(
        self, query: str, row: ChunkRow, definitions: Sequence[DefinitionSpan], *, before: int = 0
    ) -> list[TokenPair]:
        """See `warp_explain.token_pairs`; empty for a chunk that the index does not hold."""
        opened = self._ready()
        tokens, asked = opened.asked(query)
        document = int(opened.searcher.index.rows_of(np.array([row.chunk_id]))[0])
        if document < 0:
            return []
        return token_pairs(opened.searcher, opened.encoder, tokens, asked, document, row, definitions, before=before)

    def problem(self) -> str | None:
        """Why the channel cannot answer, once that is known."""
        if not self._opening.done():
            return None
        error = self._opening.exception()
        if error is None:
            return self._opening.result().no_kernels or None
        if isinstance(error, CodequarryError):
            return str(error) if isinstance(error, ImportError) else error.message
        return f"the token encoder cannot be opened ({type(error).__name__})"

    def close(self) -> None:
        """Wait for the opening and drop the maps."""
        self._opening.exception()
        del self._opening, self._chunk_ids

    def _ready(self) -> _Opened:
        # See `FaissChannel._encode`: the one exception of a future would collect the frames of every request.
        error = self._opening.exception()
        if error is not None:
            raise UnavailableError(self.problem() or "the token encoder cannot be opened")
        return self._opening.result()


def _open(folder: Path, spec: WarpSpec, threads: int) -> _Opened:
    encoder = TokenEncoder.open(folder / ENCODER_FOLDER, punctuation=spec.punctuation)
    if encoder.spec.fingerprint != spec.encoder:
        raise IntegrityError(
            f"the token encoder is {encoder.spec.fingerprint[:12]}…, the index was made by {spec.encoder[:12]}…",
            suggestion="build the bundle again",
        )
    kernels, no_kernels = _kernels()
    searcher = Searcher(WarpIndex.open(folder, encoder.scales), kernels, threads)

    @lru_cache(maxsize=_REMEMBERED)
    def asked(query: str) -> tuple[QueryTokens, Query]:
        tokens = encoder.encode_query(query)
        return tokens, searcher.prepare(tokens.vectors)

    # The first run allocates and picks kernels; better here than under the first request.
    asked("warm up")
    return _Opened(encoder, searcher, asked, no_kernels)


def _kernels() -> tuple[ModuleType | None, str]:
    """The compiled kernels, or why there are none."""
    try:
        from codequarry.serving import warp_kernels
    except ModuleNotFoundError as error:
        if error.name not in ("numba", "llvmlite"):
            raise
        return None, str(missing_extra("a wide search by late interaction", "warp", missing=error.name))
    except Exception as error:  # numba and LLVM raise of many kinds; without kernels rescoring still works
        logger.exception("the kernels of late interaction cannot be compiled")
        return None, f"the kernels cannot be compiled ({type(error).__name__})"
    return warp_kernels, ""

"""Encoders behind an OpenAI-compatible endpoint: texts go out, vectors come back.

The directory holds, besides its description::

    probe.npy   (d,) float32, unit norm: the vector of a fixed text, when the encoder was set up

Nothing here can know which weights a server runs. The probe stands for them: its digest is part of the fingerprint, and
before the first vector is used the server encodes the probe's text again. A server that was given another model since
is refused, at build and at query time alike.
"""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Self, cast

import numpy as np

from codequarry.schemas.encoder import FILES, REMEDY, EncoderSpec
from codequarry.schemas.endpoints import Breaker, Endpoint, EndpointOptions, patiently
from codequarry.schemas.errors import EndpointError, IntegrityError, UnavailableError
from codequarry.schemas.prefixes import prefixed

(PROBE_FILE,) = FILES["endpoint"]
PROBE_TEXT = "def close_idle_connections(pool, now):\n    return [one for one in pool if now - one.used > LIMIT]\n"
AGREEMENT = 0.99
"""Cosine of the probe's vectors then and now: precision and batching of a server change less, another model more."""
_PATH = "/embeddings"


class EndpointEncoder:
    """An `Encoder` that asks a server; `open_encoder` opens it."""

    def __init__(self, spec: EncoderSpec, probe: np.ndarray, options: EndpointOptions) -> None:
        """probe: (d,) float32, unit norm."""
        self.spec = spec
        self._probe = probe
        self._options = options
        self._endpoint = Endpoint(options)
        self._known = False
        """Whether the server was seen to run the model that the probe is of."""
        self._lock = threading.Lock()
        self._breaker = Breaker()

    @classmethod
    def open(cls, directory: Path, spec: EncoderSpec, options: EndpointOptions | None) -> Self:
        """Open an encoder directory whose files were compared with their digests; raises as `open_encoder`.

        Asks nobody. Raises UnavailableError: no options, since the settings name no server.
        """
        if options is None:
            raise UnavailableError(
                f"a model server made its vectors, and [serving] query_endpoint names none that runs {spec.model}",
                suggestion="set it to the address of such a server",
            )
        try:
            probe = np.load(directory / PROBE_FILE, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise IntegrityError(f"{directory / PROBE_FILE}: not a vector: {error}", suggestion=REMEDY) from error
        if probe.shape != (spec.dim,) or probe.dtype != np.float32:
            raise IntegrityError(
                f"{directory / PROBE_FILE}: {probe.shape} {probe.dtype}, expected ({spec.dim},) float32",
                suggestion=REMEDY,
            )
        return cls(spec, probe, options)

    def encode_documents(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> np.ndarray:
        """See `Encoder.encode_documents`. Raises EndpointError: the server fails for longer than it is waited for.

        Texts of like length go together, so that a server that pads them does little in vain. A batch that is refused
        for its size is halved.
        """
        vectors = np.empty((len(texts), self.spec.dim), np.float32)
        if not len(texts):
            return vectors
        self._recognize()
        ready = [self.spec.document_prefix + _whole(text) for text in texts]
        order = sorted(range(len(ready)), key=lambda row: (len(ready[row]), row))
        batches = [order[at : at + self._options.batch] for at in range(0, len(order), self._options.batch)]
        done = 0
        with ThreadPoolExecutor(self._options.concurrency, thread_name_prefix="embed") as pool:
            running = {pool.submit(self._batch, [ready[row] for row in rows]): rows for rows in batches}
            try:
                for one in as_completed(running):
                    vectors[running[one]] = one.result()
                    done += len(running[one])
                    if progress is not None:
                        progress(done)
            finally:
                pool.shutdown(wait=True, cancel_futures=True)
        return vectors

    def encode_query(self, text: str) -> np.ndarray:
        """See `Encoder.encode_query`. Raises EndpointError at once while a server that failed is given a rest."""
        self._breaker.check()
        try:
            self._recognize()
            return self._batch([prefixed(self.spec.query_prefix, _whole(text))])[0]
        except EndpointError as error:
            self._known = False  # what comes back may run another model
            self._breaker.failed(error)
            raise

    def _recognize(self) -> None:
        """Raises EndpointError: the server runs another model than the one the probe is of."""
        with self._lock:
            if self._known:
                return
            self._breaker.check()  # whoever had the lock before may have found out
            cosine = float(self._batch([PROBE_TEXT])[0] @ self._probe)
            if cosine < AGREEMENT:
                raise EndpointError(
                    f"the model server gives other vectors for {self.spec.model} than before (cosine {cosine:.3f})",
                    suggestion="run the model of the index there again; or give [embedding] revision a new name, "
                    "which embeds everything anew",
                )
            self._known = True

    def _batch(self, texts: list[str]) -> np.ndarray:
        """(n, d) float32, unit norm, of texts with their prefixes."""
        try:
            return patiently(lambda: self._asked(texts), self._options.retries)
        except EndpointError as error:
            if error.too_large and len(texts) > 1:
                half = len(texts) // 2
                return np.concatenate([self._batch(texts[:half]), self._batch(texts[half:])])
            raise

    def _asked(self, texts: list[str]) -> np.ndarray:
        return request_vectors(self._endpoint, self.spec.model or "", texts, self.spec.dim)


def request_vectors(endpoint: Endpoint, model: str, texts: list[str], dim: int | None) -> np.ndarray:
    """Vectors (n, d) float32, unit norm, of texts as they are; one attempt.

    dim: expected length; None for any. Raises EndpointError: as `Endpoint.post`, or other vectors than were asked for.
    """
    try:
        answer = endpoint.post(_PATH, {"model": model, "input": texts, "encoding_format": "float"})
        return _vectors(answer.get("data"), len(texts), dim)
    except EndpointError as error:
        raise EndpointError(
            f"the model server of {model} gave no vectors: {error.message}",
            suggestion=error.suggestion,
            retryable=error.retryable,
            retry_after_s=error.retry_after_s,
            too_large=error.too_large,
        ) from error


def _vectors(data: object, count: int, dim: int | None) -> np.ndarray:
    listed = cast("list[object]", data) if isinstance(data, list) else []
    numbered = [cast("dict[str, Any]", row) for row in listed if isinstance(row, dict)]
    rows = {row.get("index"): row.get("embedding") for row in numbered if type(row.get("index")) is int}
    if len(listed) != count or rows.keys() != set(range(count)):
        raise EndpointError(f"found {len(listed)} vectors, expected those numbered 0 to {count - 1}", retryable=True)
    try:
        vectors = np.array([rows[at] for at in range(count)], np.float64)
    except (TypeError, ValueError) as error:
        raise EndpointError("vectors that are no lists of as many numbers each") from error
    if vectors.ndim != 2 or vectors.shape[1] != (dim or vectors.shape[1]) or not vectors.shape[1]:
        raise EndpointError(f"vectors of shape {vectors.shape[1:]}, expected ({dim or 'd'},)")
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(norms).all() or norms.min() < 1e-6:
        raise EndpointError("a vector that is zero or not finite")
    return (vectors / norms).astype(np.float32)


def _whole(text: str) -> str:
    """Text that is UTF-8: a lone surrogate, legal in JSON and in paths, is replaced; blank text is a single dot."""
    # Servers refuse blank input, and with it the batch.
    return text.encode("utf-8", "replace").decode("utf-8") if text.strip() else "."

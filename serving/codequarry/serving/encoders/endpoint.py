"""Encoders behind an OpenAI-compatible endpoint: texts go out, vectors come back.

The directory holds, besides its description::

    probe.npy   (d,) float32, unit norm: the vector of a fixed text, when the encoder was set up

The weights that a server runs cannot be known here. The probe identifies them: its digest is part of the fingerprint,
and the server encodes the probe's text again before the first vector is used. A server that runs another model by then
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

from codequarry.schemas.errors import EndpointError, IntegrityError, UnavailableError
from codequarry.schemas.prefixes import prefixed
from codequarry.schemas.settings.model_servers import EndpointOptions
from codequarry.serving.encoders.client import Breaker, Endpoint, patiently
from codequarry.serving.encoders.spec import FILES, REMEDY, EncoderSpec
from codequarry.serving.files.arrays import read_array

(PROBE_FILE,) = FILES["endpoint"]
PROBE_TEXT = "def close_idle_connections(pool, now):\n    return [one for one in pool if now - one.used > LIMIT]\n"
AGREEMENT = 0.99
"""Cosine of the probe's vectors then and now: precision and batching of a server change less, another model more."""
_PATH = "/embeddings"


class EndpointEncoder:
    """`Encoder` that asks a server; `open_encoder` opens it."""

    def __init__(self, spec: EncoderSpec, probe: np.ndarray, options: EndpointOptions) -> None:
        """Use a model server.

        Args:
            spec: Description of the encoder.
            probe: (d,) float32, unit norm.
            options: Address of the server.
        """
        self.spec = spec
        self._probe = probe
        self._options = options
        self._endpoint = Endpoint(options)
        self._known = False
        """True when the server was seen to run the model that the probe is of."""
        self._lock = threading.Lock()
        self._breaker = Breaker()

    @classmethod
    def open(cls, directory: Path, spec: EncoderSpec, options: EndpointOptions | None) -> Self:
        """Open an encoder directory whose files were compared with their digests; sends no request.

        Args:
            directory: Folder of the encoder.
            spec: Its description.
            options: Server of the settings; None when they name none.

        Returns:
            The open encoder.

        Raises:
            UnavailableError: The settings name no server.
            CodequarryError: As `open_encoder`.
        """
        if options is None:
            raise UnavailableError(
                f"a model server made its vectors, and [serving] query_endpoint names none that runs {spec.model}",
                suggestion="set it to the address of such a server",
            )
        try:
            probe = read_array(directory / PROBE_FILE)
        except (OSError, IntegrityError) as error:
            raise IntegrityError(f"{directory / PROBE_FILE}: not a vector: {error}", suggestion=REMEDY) from error
        if probe.shape != (spec.dim,) or probe.dtype != np.float32:
            raise IntegrityError(
                f"{directory / PROBE_FILE}: {probe.shape} {probe.dtype}, expected ({spec.dim},) float32",
                suggestion=REMEDY,
            )
        return cls(spec, probe, options)

    def encode_documents(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> np.ndarray:
        """Encode documents, see `Encoder.encode_documents`.

        Texts of similar length are sent together, so that a server that pads them wastes little work. A batch that is
        refused for its size is halved.

        Args:
            texts: n strings.
            progress: Called with the number of texts finished so far.

        Returns:
            (n, d) float32, unit norm.

        Raises:
            EndpointError: The server keeps failing after all retries.
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
        """Encode a query, see `Encoder.encode_query`.

        Args:
            text: Text of the query.

        Returns:
            (d,) float32, unit norm.

        Raises:
            EndpointError: At once while a server that failed recently is not asked.
        """
        self._breaker.check()
        try:
            self._recognize()
            return self._batch([prefixed(self.spec.query_prefix, _whole(text))])[0]
        except EndpointError as error:
            self._known = False  # what comes back may run another model
            self._breaker.failed(error)
            raise

    def _recognize(self) -> None:
        """Raise EndpointError when the server runs another model than the one of the probe."""
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
        """Encode texts that have their prefixes: (n, d) float32, unit norm."""
        try:
            return patiently(lambda: self._request_vectors(texts), self._options.retries)
        except EndpointError as error:
            if error.too_large and len(texts) > 1:
                half = len(texts) // 2
                return np.concatenate([self._batch(texts[:half]), self._batch(texts[half:])])
            raise

    def _request_vectors(self, texts: list[str]) -> np.ndarray:
        return request_vectors(self._endpoint, self.spec.model or "", texts, self.spec.dim)


def request_vectors(endpoint: Endpoint, model: str, texts: list[str], dim: int | None) -> np.ndarray:
    """Request vectors of texts as they are; one attempt.

    Args:
        endpoint: Server.
        model: Name of the model on the server.
        texts: n strings.
        dim: Expected length; None for any.

    Returns:
        (n, d) float32, unit norm.

    Raises:
        EndpointError: As `Endpoint.post`, or the vectors are not the requested ones.
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
    """Return text that is valid UTF-8 and not blank.

    A lone surrogate, legal in JSON and in paths, is replaced; blank text becomes a single dot.
    """
    # Servers refuse a whole batch because of a blank text.
    return text.encode("utf-8", "replace").decode("utf-8") if text.strip() else "."

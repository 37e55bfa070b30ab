"""Query encoder of a dense index, opened on a thread of its own: it takes longer than everything else together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.util import find_spec
from typing import Protocol

import numpy as np

from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.bundle.manifest import EncoderEntry
from codequarry.schemas.errors import CodequarryError, IntegrityError, UnavailableError
from codequarry.schemas.install_hints import missing_extra
from codequarry.schemas.settings.model_servers import EndpointOptions
from codequarry.serving.encoders.shared_encoders import open_shared_encoder
from codequarry.serving.encoders.spec import EncoderSpec


class QueryEncoder(Protocol):
    """Encoder that turns a query into a vector."""

    def encode_query(self, text: str) -> np.ndarray:
        """Encode a query: (d,) float32, unit norm."""
        ...


class LazyEncoder:
    """Query encoder that is opened when it is first needed, or whose opening has already begun."""

    def __init__(self, start: Callable[[], Future[QueryEncoder]]) -> None:
        """Open the encoder later.

        Args:
            start: Begins to open it.
        """
        self._start = start
        self._opening: Future[QueryEncoder] | None = None
        self._lock = threading.Lock()

    @classmethod
    def started(cls, opening: Future[QueryEncoder]) -> LazyEncoder:
        """Return an encoder whose opening has begun."""
        made = cls(lambda: opening)
        made._opening = opening
        return made

    def encode(self, query: str) -> np.ndarray:
        """Encode a query; waits for the opening.

        Args:
            query: Text of the query.

        Returns:
            (d,) float32.

        Raises:
            UnavailableError: The opening failed; the message has the reason.
        """
        with self._lock:
            self._opening = opening = self._opening or self._start()
        # Do not catch what `result` raises: that one exception object would collect the frames of every request, and
        # keep the version that they searched alive.
        opening.exception()
        if (problem := self.problem()) is not None:
            raise UnavailableError(problem)
        return np.ascontiguousarray(opening.result().encode_query(query), np.float32)

    def problem(self) -> str | None:
        """Return the reason why it could not be opened, once that is known."""
        opening = self._opening
        error = opening.exception() if opening is not None and opening.done() else None
        if error is None or isinstance(error, CodequarryError):
            return error and error.message
        return f"the query encoder cannot be opened ({type(error).__name__})"

    def wait(self) -> None:
        """Wait until an opening that has begun succeeds or fails."""
        if self._opening is not None:
            self._opening.exception()


def begin_opening(
    paths: BundlePaths, expected: EncoderEntry, endpoint: EndpointOptions | None = None
) -> Future[QueryEncoder]:
    """Open the encoder of an index's vectors on a thread.

    Args:
        paths: Paths of the version.
        expected: Encoder that the manifest describes.
        endpoint: Server that the settings name for encoders of that kind.

    Returns:
        The encoder, once it is open.

    Raises:
        UnavailableError: No thread is left.
    """

    def load() -> QueryEncoder:
        try:
            encoder = open_shared_encoder(paths.encoder, endpoint=endpoint)
        except IntegrityError as error:
            raise IntegrityError(error.message.replace(f"{paths.path}/", ""), suggestion=error.suggestion) from error
        found = encoder.spec
        if (found.fingerprint, found.dim) != (expected.fingerprint, expected.dim):
            raise IntegrityError(
                f"the encoder is {found.fingerprint[:12]}… of dimension {found.dim}, "
                f"the vectors were made by {expected.fingerprint[:12]}… of dimension {expected.dim}",
                suggestion="build the bundle again",
            )
        # The first run allocates and picks kernels; do that here, not in the first request. A server that is
        # unreachable now may be back by then.
        if found.kind != "endpoint":
            encoder.encode_query("warm up")
        return encoder

    pool = ThreadPoolExecutor(1, thread_name_prefix="open-encoder")
    try:
        return pool.submit(load)
    except RuntimeError as error:
        raise UnavailableError("there is no thread left to open the query encoder on") from error
    finally:
        pool.shutdown(wait=False)


def open_later(paths: BundlePaths, expected: EncoderEntry, endpoint: EndpointOptions | None = None) -> LazyEncoder:
    """Return the encoder of an index that may never be queried.

    Args:
        paths: Paths of the version.
        expected: Encoder that the manifest describes.
        endpoint: Server that the settings name for encoders of that kind.

    Returns:
        An encoder that is opened when it is first needed.

    Raises:
        UnavailableError: It cannot be opened, because its description or a dependency is missing.
    """
    try:
        kind = EncoderSpec.load(paths.encoder).kind
    except IntegrityError as error:
        raise UnavailableError(error.message.replace(f"{paths.path}/", "")) from error
    if kind == "onnx" and find_spec("onnxruntime") is None:
        error = missing_extra(f"the encoder {expected.name}", "models", missing="onnxruntime")
        raise UnavailableError(f"{error.message}; {error.suggestion}")
    return LazyEncoder(lambda: begin_opening(paths, expected, endpoint))

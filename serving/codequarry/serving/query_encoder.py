"""The query encoder of a dense leg, opened on a thread of its own: it takes longer than everything else together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.util import find_spec
from typing import Protocol

import numpy as np

from codequarry.schemas.encoder import EncoderSpec, open_encoder
from codequarry.schemas.endpoints import EndpointOptions
from codequarry.schemas.errors import CodequarryError, IntegrityError, UnavailableError
from codequarry.schemas.install_hints import missing_extra
from codequarry.schemas.layout import BundlePaths
from codequarry.schemas.manifest import EncoderEntry


class QueryEncoder(Protocol):
    """Turns a query into a vector."""

    def encode_query(self, text: str) -> np.ndarray:
        """(d,) float32, unit norm."""
        ...


class LazyEncoder:
    """A query encoder that is opened when it is first needed, or has been by whoever made it."""

    def __init__(self, start: Callable[[], Future[QueryEncoder]]) -> None:
        """start: begins to open it."""
        self._start = start
        self._opening: Future[QueryEncoder] | None = None
        self._lock = threading.Lock()

    @classmethod
    def started(cls, opening: Future[QueryEncoder]) -> LazyEncoder:
        """One whose opening has begun."""
        made = cls(lambda: opening)
        made._opening = opening
        return made

    def encode(self, query: str) -> np.ndarray:
        """The query's vector, (d,) float32; waits for the opening. Raises UnavailableError: it failed, and why."""
        with self._lock:
            self._opening = opening = self._opening or self._start()
        # Not by catching what `result` raises: that one exception would collect the frames of every request, and with
        # them the version they searched.
        opening.exception()
        if (problem := self.problem()) is not None:
            raise UnavailableError(problem)
        return np.ascontiguousarray(opening.result().encode_query(query), np.float32)

    def problem(self) -> str | None:
        """Why it could not be opened, once that is known."""
        opening = self._opening
        error = opening.exception() if opening is not None and opening.done() else None
        if error is None or isinstance(error, CodequarryError):
            return error and error.message
        return f"the query encoder cannot be opened ({type(error).__name__})"

    def wait(self) -> None:
        """Until an opening that has begun ends, one way or the other."""
        if self._opening is not None:
            self._opening.exception()


def begin_opening(
    paths: BundlePaths, expected: EncoderEntry, endpoint: EndpointOptions | None = None
) -> Future[QueryEncoder]:
    """Open the encoder of a leg's vectors on a thread.

    endpoint: the server that the settings name for encoders of that kind.

    Raises UnavailableError: there is no thread left.
    """

    def load() -> QueryEncoder:
        try:
            encoder = open_encoder(paths.encoder, endpoint=endpoint)
        except IntegrityError as error:
            raise IntegrityError(error.message.replace(f"{paths.path}/", ""), suggestion=error.suggestion) from error
        found = encoder.spec
        if (found.fingerprint, found.dim) != (expected.fingerprint, expected.dim):
            raise IntegrityError(
                f"the encoder is {found.fingerprint[:12]}… of dimension {found.dim}, "
                f"the vectors were made by {expected.fingerprint[:12]}… of dimension {expected.dim}",
                suggestion="build the bundle again",
            )
        # The first run allocates and picks kernels; better here than under the first request. A server that is away
        # now may be back then.
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
    """The encoder of a leg that may never be asked. endpoint: as of `begin_opening`.

    Raises UnavailableError: it is known already that it cannot be opened, because its description or what it needs is
    missing.
    """
    try:
        kind = EncoderSpec.load(paths.encoder).kind
    except IntegrityError as error:
        raise UnavailableError(error.message.replace(f"{paths.path}/", "")) from error
    if kind == "onnx" and find_spec("onnxruntime") is None:
        error = missing_extra(f"the encoder {expected.name}", "models", missing="onnxruntime")
        raise UnavailableError(f"{error.message}; {error.suggestion}")
    return LazyEncoder(lambda: begin_opening(paths, expected, endpoint))

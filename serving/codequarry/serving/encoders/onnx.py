"""Encoders as ONNX graphs: ONNX Runtime plus a tokenizer, no torch.

The directory holds, besides its description::

    model.onnx       input ``input_ids`` (1, t) int64 -> one output (1, d) float32, unit norm (pooled inside the graph)
    model.onnx.data  its large weights, which ONNX Runtime maps instead of loading
    tokenizer.json

**One text per run.** Dynamic int8 quantization takes the range of an activation over the whole tensor, so in a batch a
text's vector would depend on its neighbours, and padding would shift it further. Each text is therefore run alone and
unpadded: its vector depends on nothing but the text and the encoder, which is what lets vectors be cached by content
and fingerprint.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false
# ONNX Runtime ships no type stubs: what it returns is unknown to the checker, the rest stays strict.

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from codequarry.schemas.errors import IntegrityError, InvalidArgumentError, UnavailableError
from codequarry.schemas.install_hints import missing_extra
from codequarry.schemas.prefixes import prefixed
from codequarry.serving.encoders.spec import FILES, REMEDY, EncoderSpec, open_tokenizer

if TYPE_CHECKING:
    import onnxruntime
    import tokenizers

MODEL_FILE, WEIGHTS_FILE, _ = FILES["onnx"]
_SLAB = 16
_CPU, _CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"


class OnnxEncoder:
    """`Encoder` that runs an ONNX graph; `open_encoder` opens it."""

    def __init__(
        self, spec: EncoderSpec, session: onnxruntime.InferenceSession, tokenizer: tokenizers.Tokenizer, threads: int
    ) -> None:
        self.spec = spec
        self._session = session
        self._tokenizer = tokenizer
        self._threads = threads

    @classmethod
    def open(cls, directory: Path, spec: EncoderSpec, *, threads: int = 1) -> Self:
        """Open an encoder directory whose files were compared with their digests; raises as `open_encoder`."""
        if threads < 1:
            raise InvalidArgumentError(
                f"threads: {threads}, expected at least 1", suggestion="leave it out for one thread"
            )
        session = open_session(directory / MODEL_FILE, (spec.dim,))
        return cls(spec, session, open_tokenizer(directory, spec), threads)

    def encode_documents(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> np.ndarray:
        """Encode documents, see `Encoder.encode_documents`."""
        vectors = np.empty((len(texts), self.spec.dim), np.float32)

        def encode(row: int) -> None:
            vectors[row] = self._encode(self.spec.document_prefix + texts[row])

        on_threads(encode, range(len(texts)), self._threads, progress)
        return vectors

    def encode_query(self, text: str) -> np.ndarray:
        """Encode a query, see `Encoder.encode_query`."""
        return self._encode(prefixed(self.spec.query_prefix, text))

    def _encode(self, text: str) -> np.ndarray:
        # A lone surrogate, legal in JSON and in paths, is not UTF-8; the tokenizer would refuse the whole text.
        text = text.encode("utf-8", "replace").decode("utf-8")
        ids = np.array([self._tokenizer.encode(text).ids], np.int64)
        output: np.ndarray = self._session.run(None, {"input_ids": ids})[0]  # pyright: ignore[reportAssignmentType]
        return output[0]


def on_threads(
    work: Callable[[int], None], rows: Sequence[int], threads: int, progress: Callable[[int], None] | None
) -> None:
    """Do the work for every row, in slabs.

    Args:
        work: Does the work for one row.
        rows: Rows, in the order in which they are started.
        threads: Number of threads.
        progress: Called with the number of rows that are done, from the calling thread.
    """

    def do_slab(start: int) -> int:
        slab = rows[start : start + _SLAB]
        for row in slab:
            work(row)
        return start + len(slab)

    # Threads instead of ONNX Runtime's own parallelism: whole texts scale better than the small matrices inside one.
    # A single-threaded run also adds up in the same order for any number of threads.
    pool = ThreadPoolExecutor(threads, thread_name_prefix="encode")
    try:
        for done in pool.map(do_slab, range(0, len(rows), _SLAB)):
            if progress is not None:
                progress(done)
    finally:
        pool.shutdown(cancel_futures=True)


def open_session(
    path: Path, shape: tuple[int | None, ...], device: str = "cpu", *, texts: int | None = 1
) -> onnxruntime.InferenceSession:
    """Open an ONNX Runtime session of one thread.

    Args:
        path: File of the graph.
        shape: Shape of the one output, without its first axis, of texts; None for any length.
        device: Preferred device, "cpu", "cuda" or "cuda:1"; operators that a GPU does not support run on the CPU.
        texts: Number of texts in a run; None for a graph that takes any number.

    Returns:
        The session.

    Raises:
        IntegrityError: The graph has other inputs or outputs.
        MissingExtraError: ONNX Runtime is not installed.
        UnavailableError: ONNX Runtime does not support the device, or could not start it.
    """
    # ONNX Runtime otherwise keeps a device id in the home folder and sends telemetry; read when it is imported.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    try:
        import onnxruntime
    except ModuleNotFoundError as error:
        raise missing_extra("an encoder that is an ONNX graph", "models", missing=error.name) from None

    kind, _, number = device.partition(":")
    gpu: Any = (_CUDA, {"device_id": int(number)}) if number else _CUDA
    wanted = _CUDA if kind == "cuda" else _CPU
    if wanted not in (offered := onnxruntime.get_available_providers()):
        raise UnavailableError(
            f"ONNX Runtime has no {wanted} for device {device}, only {', '.join(offered)}",
            suggestion="install onnxruntime-gpu in its place, or choose the device cpu",
        )
    if kind == "cuda":
        # CUDA and cuDNN from packages are found by this alone. What it cannot find it prints.
        with contextlib.redirect_stdout(sys.stderr):
            onnxruntime.preload_dlls()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # It plans memory per input shape and keeps every plan; here each token count is a shape of its own.
    options.enable_mem_pattern = False
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=[gpu, _CPU] if kind == "cuda" else [_CPU])
    except Exception as error:  # ONNX Runtime's exceptions share no base class of their own
        raise IntegrityError(f"{path}: ONNX Runtime cannot load it: {error}", suggestion=REMEDY) from error
    # Without driver or CUDA libraries it writes a line to the log and takes the CPU. Vectors are kept by device.
    if wanted not in (started := session.get_providers()):
        raise UnavailableError(
            f"ONNX Runtime could not start {wanted} for device {device}, only {', '.join(started)}",
            suggestion="check `nvidia-smi` and install onnxruntime-gpu[cuda,cudnn], or choose the device cpu",
        )
    inputs = [node.name for node in session.get_inputs()]
    shapes = [node.shape for node in session.get_outputs()]
    if inputs != ["input_ids"] or len(shapes) != 1 or not _fits(shapes[0], (texts, *shape)):
        expected = ", ".join("t" if length is None else str(length) for length in (texts, *shape))
        raise IntegrityError(
            f"{path}: inputs {inputs} and output shapes {shapes}, "
            f"expected inputs ['input_ids'] and one output ({expected})",
            suggestion=REMEDY,
        )
    return session


def _fits(found: list[object], expected: tuple[int | None, ...]) -> bool:
    return len(found) == len(expected) and all(
        length is None or own == length for own, length in zip(found, expected, strict=True)
    )

"""Documents by float16 graphs on GPUs, while queries are encoded by the int8 graph of the same model on a CPU.

The folder of such an encoder holds what a version carries: the int8 graph with its description, which any reader runs.
Below it, in ``documents``, is the float16 graph with a description of its own. The outer description names that graph
by its fingerprint, so that vectors of documents are never taken for those of the int8 graph.

A run of the graph takes texts of similar length, filled up with `PADDING`, which no token attends to. Two threads feed
each device: one converts texts to tokens while the graph runs for the other.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false
# ONNX Runtime ships no type stubs.

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from codequarry.pipelines.embed.devices import device_names, share_batches
from codequarry.schemas.errors import IntegrityError, UnavailableError
from codequarry.serving.encoders.onnx import MODEL_FILE, open_session
from codequarry.serving.encoders.spec import REMEDY, EncoderSpec, open_tokenizer
from codequarry.serving.encoders.tokens import TokenEncoder

if TYPE_CHECKING:
    import onnxruntime
    import tokenizers

DOCUMENTS = "documents"
"""Folder of the float16 graph below that of the encoder."""
PADDING = -1
"""Number of the tokens that fill up a text; [PAD] itself may be written in one."""
BATCH_TOKENS = 32_768
"""Most tokens of a run: its largest tensors take some hundred megabytes."""
_FEEDERS = 2
"""Threads for each device."""
_GRAPH = "float16 graph"
_Made = TypeVar("_Made")


def name_documents(spec: EncoderSpec) -> str:
    """Return the name of a float16 graph in the description of its encoder, by which fingerprints differ."""
    return f"{_GRAPH} {spec.fingerprint} on cuda"


def has_half(spec: EncoderSpec) -> bool:
    """Return whether documents are encoded by a float16 graph."""
    return (spec.documents or "").startswith(_GRAPH)


def check_half(folder: Path, spec: EncoderSpec) -> None:
    """Check the float16 graph of an encoder, if it has one, against its description and its name.

    Args:
        folder: Folder of the encoder.
        spec: Description of the encoder.

    Raises:
        IntegrityError: A file is missing or damaged, or the graph is not the one that the encoder names.
    """
    if not has_half(spec):
        return
    half = EncoderSpec.load(folder / DOCUMENTS)
    half.verify(folder / DOCUMENTS)
    if name_documents(half) != spec.documents:
        raise IntegrityError(
            f"{folder / DOCUMENTS}: {name_documents(half)}, expected {spec.documents}", suggestion=REMEDY
        )


class HalfDocuments:
    """Encoder of documents by a float16 graph, on one device or more; `open` opens one."""

    def __init__(
        self,
        spec: EncoderSpec,
        sessions: Sequence[onnxruntime.InferenceSession],
        tokenizer: tokenizers.Tokenizer,
        device: str,
    ) -> None:
        self._spec = spec
        self._sessions = sessions
        self._tokenizer = tokenizer
        self.device = device
        """Names of the devices."""

    @classmethod
    def open(cls, folder: Path, spec: EncoderSpec, device: str) -> Self:
        """Open the float16 graph of an encoder.

        Args:
            folder: Folder of the encoder.
            spec: Its description.
            device: Devices as the settings name them; "cpu" serves tests.

        Returns:
            The encoder.

        Raises:
            IntegrityError: As `check_half` does.
            UnavailableError: As `open_session` does.
        """
        check_half(folder, spec)
        names = device_names(device)
        sessions = _open_sessions(folder, (spec.dim,), names)
        return cls(spec, sessions, open_tokenizer(folder, spec), ", ".join(names))

    def encode_documents(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> np.ndarray:
        """Encode documents; see `DocumentEncoder.encode_documents`. The last digits depend on the texts of a run."""
        vectors = np.empty((len(texts), self._spec.dim), np.float32)

        def run(session: onnxruntime.InferenceSession, rows: list[int]) -> list[NDArray[np.float32]]:
            whole = [_encodable(self._spec.document_prefix + texts[row]) for row in rows]
            return run_padded(session, [each.ids for each in self._tokenizer.encode_batch(whole)])

        done = 0
        for rows, found in _share_rows(self._sessions, run, texts, self._spec.max_tokens):
            vectors[rows] = found
            done += len(rows)
            if progress is not None:
                progress(done)
        return vectors


class HalfTokens:
    """Encoder of the tokens of documents by a float16 graph, on one device or more; `open` opens one."""

    def __init__(self, reader: TokenEncoder, sessions: Sequence[onnxruntime.InferenceSession], device: str) -> None:
        self._reader = reader
        self._sessions = sessions
        self.device = device
        """Names of the devices."""

    @classmethod
    def open(cls, folder: Path, device: str, *, punctuation: bool = False) -> Self:
        """Open the float16 graph of a token encoder.

        Args:
            folder: Folder of the encoder.
            device: Devices as the settings name them; "cpu" serves tests.
            punctuation: Give vectors to tokens without a letter or digit.

        Returns:
            The encoder.

        Raises:
            IntegrityError: As `check_half` and `TokenEncoder.open` do.
            UnavailableError: As `open_session` does.
        """
        reader = TokenEncoder.open(folder, punctuation=punctuation)
        check_half(folder, reader.spec)
        names = device_names(device)
        return cls(reader, _open_sessions(folder, (None, reader.spec.dim), names), ", ".join(names))

    def encode_documents(self, texts: Sequence[str]) -> list[NDArray[np.int8]]:
        """Return codes of the tokens of each text, (t, d) int8 with t >= 1, in input order."""
        codes: list[NDArray[np.int8]] = [np.empty((0, self._reader.spec.dim), np.int8)] * len(texts)

        def run(session: onnxruntime.InferenceSession, rows: list[int]) -> list[NDArray[np.int8]]:
            read = self._reader.read_documents([texts[row] for row in rows])
            found = run_padded(session, [ids for ids, _ in read])
            return [self._reader.codes(own[kept]) for own, (_, kept) in zip(found, read, strict=True)]

        for rows, found in _share_rows(self._sessions, run, texts, self._reader.spec.max_tokens):
            for row, own in zip(rows, found, strict=True):
                codes[row] = own
        return codes


def run_padded(session: onnxruntime.InferenceSession, tokens: Sequence[Sequence[int]]) -> list[NDArray[np.float32]]:
    """Run a float16 graph on texts, in halves where they do not fit into the memory of the device.

    Args:
        session: Session of the graph.
        tokens: Tokens of each text, at least one.

    Returns:
        What the graph gives for each text, float32: (d,), or (t, d) with t of the longest of the texts.

    Raises:
        UnavailableError: A single text does not fit into the memory of the device.
    """
    padded = np.full((len(tokens), max(map(len, tokens))), PADDING, np.int64)
    for row, own in enumerate(tokens):
        padded[row, : len(own)] = own
    try:
        return list(np.asarray(session.run(None, {"input_ids": padded})[0]))
    except Exception as error:  # ONNX Runtime's exceptions share no base class of their own
        if "memory" not in str(error).lower():
            raise
        if len(tokens) == 1:
            raise UnavailableError(
                "a single text does not fit into the memory of the device",
                suggestion="lower max_tokens of the encoder, or choose another device",
            ) from error
    middle = len(tokens) // 2
    return run_padded(session, tokens[:middle]) + run_padded(session, tokens[middle:])


def _open_sessions(
    folder: Path, shape: tuple[int | None, ...], names: Sequence[str]
) -> list[onnxruntime.InferenceSession]:
    return [open_session(folder / DOCUMENTS / MODEL_FILE, shape, name, texts=None) for name in names]


def _share_rows(
    sessions: Sequence[onnxruntime.InferenceSession],
    run: Callable[[onnxruntime.InferenceSession, list[int]], _Made],
    texts: Sequence[str],
    max_tokens: int,
) -> Iterator[tuple[list[int], _Made]]:
    """Yield rows of texts with their results: the longest texts first, texts of similar length in one run."""
    order = sorted(range(len(texts)), key=lambda row: (-len(texts[row]), row))
    size = max(1, BATCH_TOKENS // max_tokens)
    batches = [order[start : start + size] for start in range(0, len(order), size)]
    yield from share_batches([partial(run, session) for _ in range(_FEEDERS) for session in sessions], batches)


def _encodable(text: str) -> str:
    """Return a text without lone surrogates, which the tokenizer refuses."""
    return text.encode("utf-8", "replace").decode("utf-8")

"""The text encoder that the pipeline and the service share: ONNX Runtime plus a tokenizer, no torch.

An encoder directory holds four files::

    model.onnx       input ``input_ids`` (1, t) int64 -> one output (1, d) float32, unit norm (pooled inside the graph)
    model.onnx.data  its large weights, which ONNX Runtime maps instead of loading
    tokenizer.json   Hugging Face ``tokenizers`` format; its own truncation and padding settings are overridden
    encoder.json     an `EncoderSpec`: what the vectors are, how texts are prepared, the sha256 of the other files

**One text per run.** Dynamic int8 quantization takes the range of an activation over the whole tensor, so in a batch a
text's vector would depend on its neighbours, and padding would shift it further. Each text is therefore run alone and
unpadded: its vector depends on nothing but the text and the encoder, which is what lets vectors be cached by content
and fingerprint.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false
# ONNX Runtime ships no type stubs: what it returns is unknown to the checker, the rest stays strict.

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self
from weakref import WeakValueDictionary

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator

from codequarry.schemas.errors import IntegrityError, InvalidArgumentError
from codequarry.schemas.integrity import file_sha256

if TYPE_CHECKING:
    import onnxruntime
    import tokenizers

MODEL_FILE = "model.onnx"
WEIGHTS_FILE = "model.onnx.data"
TOKENIZER_FILE = "tokenizer.json"
SPEC_FILE = "encoder.json"

_HASHED_FILES = (MODEL_FILE, WEIGHTS_FILE, TOKENIZER_FILE)
_SLAB = 32
_REMEDY = "export the encoder again, or take the directory from an undamaged bundle"

# Changes whenever this module prepares texts differently, since that changes vectors while every file stays the same.
_PROCEDURE = "one unpadded text per run, v1"

# Those in use, by the sha256 of their file and their length: parsing one holds every other thread up for 20 ms, which a
# server that opens the next version of a bundle, most likely with the same encoder, would notice in its answers.
_TOKENIZERS: WeakValueDictionary[tuple[str, int], tokenizers.Tokenizer] = WeakValueDictionary()


class EncoderSpec(BaseModel):
    """``encoder.json``: what an encoder's vectors are and how a text becomes one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    dim: int = Field(gt=0)
    """Length of a vector."""
    max_tokens: int = Field(ge=3)
    """Longer texts are cut; special tokens count."""
    query_prefix: str = ""
    document_prefix: str = ""
    license: str
    """SPDX identifier of the weights' license."""
    source: str
    """Where the weights come from."""
    sha256: dict[str, Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]]
    """File name -> lower-case hex digest, for every file but ``encoder.json``."""

    @field_validator("sha256")
    @classmethod
    def _names_every_file(cls, digests: dict[str, str]) -> dict[str, str]:
        if set(digests) != set(_HASHED_FILES):
            raise ValueError(f"must name exactly {', '.join(_HASHED_FILES)}")
        return digests

    @property
    def fingerprint(self) -> str:
        """Hex digest of everything that changes vectors; equal fingerprints mean interchangeable vectors.

        Name, license and source are left out: renaming an encoder must not re-encode a corpus.
        """
        parts = [_PROCEDURE, self.dim, self.max_tokens, self.query_prefix, self.document_prefix]
        parts += [self.sha256[name] for name in _HASHED_FILES]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Read ``encoder.json``; raises `IntegrityError` when it is missing or malformed."""
        path = directory / SPEC_FILE
        try:
            return cls.model_validate_json(path.read_bytes())
        except OSError as error:
            raise IntegrityError(
                f"{path}: cannot be read ({error.strerror}); expected an encoder", suggestion=_REMEDY
            ) from error
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "the document"
            raise IntegrityError(f"{path}: {where}: {first['msg']}", suggestion=_REMEDY) from error

    def verify(self, directory: Path) -> None:
        """Raises `IntegrityError`: a file of the directory is missing, or is not the described one."""
        for file, expected in self.sha256.items():
            try:
                found = file_sha256(directory / file)
            except OSError as error:
                raise IntegrityError(
                    f"{directory / file}: cannot be read ({error.strerror}); {SPEC_FILE} promises it",
                    suggestion=_REMEDY,
                ) from error
            if found != expected:
                raise IntegrityError(f"{directory / file}: sha256 {found}, expected {expected}", suggestion=_REMEDY)

    @classmethod
    def seal(
        cls,
        directory: Path,
        *,
        name: str,
        dim: int,
        max_tokens: int,
        license: str,
        source: str,
        query_prefix: str = "",
        document_prefix: str = "",
    ) -> Self:
        """Hash the model, its weights and the tokenizer in ``directory`` and write ``encoder.json`` beside them.

        The last step of an export, so that a directory with a description is a complete one.
        """
        spec = cls(
            name=name,
            dim=dim,
            max_tokens=max_tokens,
            query_prefix=query_prefix,
            document_prefix=document_prefix,
            license=license,
            source=source,
            sha256={file: file_sha256(directory / file) for file in _HASHED_FILES},
        )
        (directory / SPEC_FILE).write_text(spec.model_dump_json(indent=2) + "\n", encoding="utf-8")
        return spec


class OnnxEncoder:
    """Turns texts into unit vectors. Safe to share between threads; open it with `OnnxEncoder.open`."""

    def __init__(
        self, spec: EncoderSpec, session: onnxruntime.InferenceSession, tokenizer: tokenizers.Tokenizer, threads: int
    ) -> None:
        self.spec = spec
        self._session = session
        self._tokenizer = tokenizer
        self._threads = threads

    @classmethod
    def open(cls, directory: Path, *, threads: int = 1) -> Self:
        """Open an encoder directory, checking its files against their digests.

        directory: holds the four files named above.
        threads: documents encoded at the same time; a query always takes one thread.

        Raises `IntegrityError` when a file is missing, damaged or not what the description says.
        """
        if threads < 1:
            raise InvalidArgumentError(
                f"threads: {threads}, expected at least 1", suggestion="leave it out for one thread"
            )
        spec = EncoderSpec.load(directory)
        spec.verify(directory)
        tokenizer = _open_tokenizer(directory, spec.sha256[TOKENIZER_FILE], spec.max_tokens)
        return cls(spec, _open_session(directory / MODEL_FILE, spec.dim), tokenizer, threads)

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self.spec.dim

    @property
    def fingerprint(self) -> str:
        """Hex digest of everything that changes vectors, see `EncoderSpec.fingerprint`."""
        return self.spec.fingerprint

    def encode_documents(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> np.ndarray:
        """Encode documents, each prefixed with ``document_prefix``.

        texts: n strings, cut at ``max_tokens`` tokens; the empty string is allowed.
        progress: called from the calling thread with the number of texts finished so far.

        Returns (n, d) float32, unit norm, in input order; independent of threads, order and the other texts.
        """
        vectors = np.empty((len(texts), self.dim), np.float32)

        def encode_slab(start: int) -> int:
            stop = min(start + _SLAB, len(texts))
            for row in range(start, stop):
                vectors[row] = self._encode(self.spec.document_prefix + texts[row])
            return stop

        # Threads and not ONNX Runtime's own parallelism: whole texts scale better than the small matrices inside one,
        # and a single-threaded run adds up in the same order however many threads there are.
        pool = ThreadPoolExecutor(self._threads, thread_name_prefix="encode")
        try:
            for done in pool.map(encode_slab, range(0, len(texts), _SLAB)):
                if progress is not None:
                    progress(done)
        finally:
            pool.shutdown(cancel_futures=True)
        return vectors

    def encode_query(self, text: str) -> np.ndarray:
        """Encode one query, prefixed with ``query_prefix``: (d,) float32, unit norm."""
        return self._encode(self.spec.query_prefix + text)

    def _encode(self, text: str) -> np.ndarray:
        # A lone surrogate, legal in JSON and in paths, is no UTF-8; the tokenizer would refuse the whole text for it.
        text = text.encode("utf-8", "replace").decode("utf-8")
        ids = np.array([self._tokenizer.encode(text).ids], np.int64)
        output: np.ndarray = self._session.run(None, {"input_ids": ids})[0]  # pyright: ignore[reportAssignmentType]
        return output[0]


def _open_session(path: Path, dim: int) -> onnxruntime.InferenceSession:
    # ONNX Runtime otherwise keeps a device id in the home folder and reports to its makers; read when it is imported.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # Plans memory per input shape and keeps every plan; here each token count is a shape of its own.
    options.enable_mem_pattern = False
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's exceptions share no base class of their own
        raise IntegrityError(f"{path}: ONNX Runtime cannot load it: {error}", suggestion=_REMEDY) from error
    inputs = [node.name for node in session.get_inputs()]
    shapes = [node.shape for node in session.get_outputs()]
    if inputs != ["input_ids"] or len(shapes) != 1 or shapes[0][-1] != dim:
        raise IntegrityError(
            f"{path}: inputs {inputs} and output shapes {shapes}, "
            f"expected inputs ['input_ids'] and one output (1, {dim})",
            suggestion=_REMEDY,
        )
    return session


def _open_tokenizer(directory: Path, sha256: str, max_tokens: int) -> tokenizers.Tokenizer:
    from tokenizers import Tokenizer

    if (known := _TOKENIZERS.get((sha256, max_tokens))) is not None:
        return known
    path = directory / TOKENIZER_FILE
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises bare Exception
        raise IntegrityError(f"{path}: not a tokenizer: {error}", suggestion=_REMEDY) from error
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    _TOKENIZERS[sha256, max_tokens] = tokenizer
    return tokenizer

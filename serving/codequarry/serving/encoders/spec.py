"""Interface of every text encoder for pipeline and service: a directory, its description, and how to open it.

An encoder directory holds ``encoder.json``, an `EncoderSpec`, and the files that the kind of encoder names: see
`codequarry.serving.encoders.onnx`, `codequarry.serving.encoders.static`, `codequarry.serving.encoders.endpoint`,
`codequarry.serving.encoders.tokens` and `codequarry.serving.encoders.sparse`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Protocol, Self
from weakref import WeakValueDictionary

import numpy as np
from pydantic import Field, StringConstraints, ValidationError, model_validator

from codequarry.schemas.bundle.warp import MAX_QUERY_TOKENS
from codequarry.schemas.errors import IntegrityError
from codequarry.schemas.strict_model import StrictModel
from codequarry.serving.files.integrity import file_sha256
from codequarry.serving.text.analyzer import analyze

if TYPE_CHECKING:
    import tokenizers

    from codequarry.schemas.settings.model_servers import EndpointOptions

SPEC_FILE = "encoder.json"
TOKENIZER_FILE = "tokenizer.json"
"""Hugging Face ``tokenizers`` format; its own truncation and padding settings are overridden."""
REMEDY = "export the encoder again, or take the directory from an undamaged bundle"

Kind = Literal["onnx", "static", "endpoint", "tokens", "sparse", "term_weights"]
FILES: dict[Kind, tuple[str, ...]] = {
    "onnx": ("model.onnx", "model.onnx.data", TOKENIZER_FILE),
    "static": ("rows.npy", "scales.npy", TOKENIZER_FILE),
    "endpoint": ("probe.npy",),
    "tokens": ("model.onnx", "model.onnx.data", TOKENIZER_FILE, "scales.npy"),
    "sparse": ("model.onnx", "model.onnx.data", TOKENIZER_FILE, "step.npy"),
    "term_weights": ("weights.npy", TOKENIZER_FILE),
}
"""Files of a directory besides ``encoder.json``, by kind."""

_WHOLE: tuple[Kind, ...] = ("static", "endpoint")
"""Kinds that cut no text."""
_PROBE = "Größe.getHTTPResponse2(max_file_bytes, 0x1f) -> 3.14 != __init__ :: 日本語"
# Change this whenever texts are prepared differently, since that changes vectors while every file stays the same.
_PROCEDURES: dict[Kind, list[object]] = {
    "onnx": ["one unpadded text per run, v1"],
    "static": ["square roots of counts, v1", *(term.text for term in analyze(_PROBE))],
    "endpoint": ["vectors as the server gives them, normalized, v1"],
    "tokens": ["one unpadded text per run, int8 codes of tokens, v1"],
    "sparse": ["one unpadded text per run, impacts in steps, v1"],
    "term_weights": ["the weight of each token once, v1"],
}

# Tokenizers in use, by the sha256 of their file and their length. Parsing one blocks every other thread for 20 ms,
# which would delay answers when a server opens the next version of a bundle, most likely with the same encoder.
_TOKENIZERS: WeakValueDictionary[tuple[str, int], tokenizers.Tokenizer] = WeakValueDictionary()


class Adaptation(StrictModel):
    """Evaluation of an encoder that was trained further on a corpus, with questions about held-out files."""

    base: str
    """Fingerprint of the encoder it was made from."""
    pairs: int
    commit_pairs: int = 0
    """Number of queries made from a commit's message and the files it changed."""
    queries: int
    before: float
    """MRR@10 of the base over these queries."""
    after: float
    interval: tuple[float, float]
    """Paired 95 % confidence interval of after - before."""
    outside_queries: int
    """Questions about other code."""
    outside_before: float
    outside_after: float
    outside_interval: tuple[float, float]

    @property
    def better(self) -> bool:
        """True when significantly better on the corpus, and not significantly worse outside of it."""
        return self.interval[0] > 0 and self.outside_interval[1] >= 0

    def __str__(self) -> str:
        (low, high), (outside_low, outside_high) = self.interval, self.outside_interval
        return (
            f"{'kept' if self.better else 'not kept'}: own code {self.before:.3f} -> {self.after:.3f} MRR@10 over "
            f"{self.queries:,} questions ({low:+.3f} to {high:+.3f}), outside {self.outside_before:.3f} -> "
            f"{self.outside_after:.3f} ({outside_low:+.3f} to {outside_high:+.3f})"
        )


class Agreement(StrictModel):
    """Agreement of an export's vectors with those of the model that was exported."""

    weights: Literal["int8", "float32"]
    texts: int
    """Number of code snippets that both encoded."""
    mean: float
    """Cosine."""
    least: float


class QueryShape(StrictModel):
    """Number of a query's tokens, for token encoders that were trained with it (ColBERT)."""

    length: int = Field(ge=3, le=MAX_QUERY_TOKENS)
    """Longer queries are cut, their last token stays; special tokens count."""
    mask: int | None = Field(default=None, ge=0)
    """Token that shorter queries are filled up with; None leaves them short."""


class EncoderSpec(StrictModel):
    """Content of ``encoder.json``: what an encoder's vectors are and how a text becomes one."""

    kind: Kind = "onnx"
    name: str = Field(min_length=1)
    dim: int = Field(gt=0)
    """Length of a vector; of a sparse one, terms of the vocabulary."""
    max_tokens: int = Field(ge=0)
    """Longer texts are cut; special tokens count. 0: texts are read whole, by static encoders, or cut by a server."""
    query_prefix: str = ""
    document_prefix: str = ""
    license: str
    """SPDX identifier of the weights' license."""
    source: str
    """Source of the weights."""
    sha256: dict[str, Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]]
    """File name -> lower-case hex digest, for every file but ``encoder.json``."""
    model: str | None = None
    """Name of the model at the source of the weights, or on the server that runs it."""
    revision: str | None = None
    """Revision of the weights, as pinned by the settings."""
    documents: str | None = None
    """Encoder of the documents, when it differs from that of the queries."""
    agreement: Agreement | None = None
    """Agreement of an exported encoder with its model: the reason why these weights were kept."""
    query_shape: QueryShape | None = None
    """Number of a query's tokens; None when a query is read like a document."""
    adapted: Adaptation | None = None
    """Evaluation of an encoder by ``codequarry tune encoder``: the reason why it was kept."""

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        if set(self.sha256) != set(FILES[self.kind]):
            raise ValueError(f"sha256 must name exactly {', '.join(FILES[self.kind])}")
        if (self.max_tokens == 0) != (self.kind in _WHOLE) or self.max_tokens in (1, 2):
            raise ValueError("max_tokens must be 0 for a static encoder, and 3 or more for any other but a server's")
        if self.kind == "endpoint" and not self.model:
            raise ValueError("model must name what the server is asked for")
        if self.query_shape is not None and self.kind != "tokens":
            raise ValueError("query_shape is for token encoders only")
        return self

    @property
    def fingerprint(self) -> str:
        """Hex digest of everything that changes vectors; equal fingerprints mean interchangeable vectors.

        Name, license, source and evaluation are left out: renaming an encoder must not re-encode a corpus.
        """
        parts = [*_PROCEDURES[self.kind], self.dim, self.max_tokens, self.query_prefix, self.document_prefix]
        parts += [self.sha256[name] for name in FILES[self.kind]]
        if self.kind == "endpoint":  # of all others the files tell
            parts += [self.model, self.revision]
        if self.documents is not None:
            parts.append(self.documents)
        if self.query_shape is not None:
            parts.append(self.query_shape.model_dump())
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Read ``encoder.json``; raises `IntegrityError` when it is missing or malformed."""
        path = directory / SPEC_FILE
        try:
            return cls.model_validate_json(path.read_bytes())
        except OSError as error:
            raise IntegrityError(
                f"{path}: cannot be read ({error.strerror}); expected an encoder", suggestion=REMEDY
            ) from error
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "the document"
            raise IntegrityError(f"{path}: {where}: {first['msg']}", suggestion=REMEDY) from error

    def verify(self, directory: Path) -> None:
        """Check the files of a directory against their digests.

        Args:
            directory: Folder of the encoder.

        Raises:
            IntegrityError: A file of the directory is missing, or is not the described one.
        """
        for file, expected in self.sha256.items():
            try:
                found = file_sha256(directory / file)
            except OSError as error:
                raise IntegrityError(
                    f"{directory / file}: cannot be read ({error.strerror}); {SPEC_FILE} promises it",
                    suggestion=REMEDY,
                ) from error
            if found != expected:
                raise IntegrityError(f"{directory / file}: sha256 {found}, expected {expected}", suggestion=REMEDY)

    @classmethod
    def seal(
        cls,
        directory: Path,
        *,
        kind: Kind,
        name: str,
        dim: int,
        max_tokens: int,
        license: str,
        source: str,
        query_prefix: str = "",
        document_prefix: str = "",
        model: str | None = None,
        revision: str | None = None,
        documents: str | None = None,
        agreement: Agreement | None = None,
        query_shape: QueryShape | None = None,
        adapted: Adaptation | None = None,
    ) -> Self:
        """Hash the files of an encoder in ``directory`` and write ``encoder.json`` beside them.

        This is the last step of an export, so a directory with a description is complete.
        """
        spec = cls(
            kind=kind,
            name=name,
            dim=dim,
            max_tokens=max_tokens,
            query_prefix=query_prefix,
            document_prefix=document_prefix,
            license=license,
            source=source,
            sha256={file: file_sha256(directory / file) for file in FILES[kind]},
            model=model,
            revision=revision,
            documents=documents,
            agreement=agreement,
            query_shape=query_shape,
            adapted=adapted,
        )
        (directory / SPEC_FILE).write_text(spec.model_dump_json(indent=2, exclude_none=True) + "\n", encoding="utf-8")
        return spec


class DocumentEncoder(Protocol):
    """Encoder that turns documents into unit vectors."""

    def encode_documents(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> np.ndarray:
        """Encode documents, each prefixed with ``document_prefix``.

        Args:
            texts: n strings, cut at ``max_tokens`` tokens; the empty string is allowed.
            progress: Called from the calling thread with the number of texts finished so far.

        Returns:
            (n, d) float32, unit norm, in input order; independent of threads, order and the other texts.
        """
        ...


class Encoder(DocumentEncoder, Protocol):
    """Encoder that turns texts into unit vectors. Safe to share between threads."""

    spec: EncoderSpec

    def encode_query(self, text: str) -> np.ndarray:
        """Encode one query, prefixed with ``query_prefix`` unless it is already: (d,) float32, unit norm."""
        ...


def open_encoder(directory: Path, *, threads: int = 1, endpoint: EndpointOptions | None = None) -> Encoder:
    """Open an encoder directory, checking its files against their digests.

    Args:
        directory: Folder of the encoder.
        threads: Documents encoded at the same time, if the kind of encoder supports it; a query always takes one
            thread.
        endpoint: Server that an encoder of that kind asks; an encoder directory names no address itself.

    Returns:
        The open encoder.

    Raises:
        IntegrityError: A file is missing, damaged or not what the description says.
        UnavailableError: The encoder needs an endpoint, and there is none.
    """
    spec = EncoderSpec.load(directory)
    spec.verify(directory)
    return open_verified(directory, spec, threads=threads, endpoint=endpoint)


def open_verified(
    directory: Path, spec: EncoderSpec, *, threads: int = 1, endpoint: EndpointOptions | None = None
) -> Encoder:
    """Open an encoder directory whose files were compared with their digests.

    Args:
        directory: Folder of the encoder.
        spec: Its description.
        threads: See `open_encoder`.
        endpoint: See `open_encoder`.

    Returns:
        The open encoder.

    Raises:
        IntegrityError: A file is not what the description says.
        UnavailableError: The encoder needs an endpoint, and there is none.
    """
    if spec.kind not in ("onnx", "static", "endpoint"):
        found = "vectors of tokens, expected of texts" if spec.kind == "tokens" else "terms, expected vectors of texts"
        raise IntegrityError(f"{directory}: gives {found}", suggestion=REMEDY)
    # Each with its own runtime, which the other does not need.
    if spec.kind == "static":
        from codequarry.serving.encoders.static import StaticEncoder

        return StaticEncoder.open(directory, spec)
    if spec.kind == "endpoint":
        from codequarry.serving.encoders.endpoint import EndpointEncoder

        return EndpointEncoder.open(directory, spec, endpoint)
    from codequarry.serving.encoders.onnx import OnnxEncoder

    return OnnxEncoder.open(directory, spec, threads=threads)


def open_tokenizer(directory: Path, spec: EncoderSpec) -> tokenizers.Tokenizer:
    """Open the tokenizer of an encoder directory.

    Args:
        directory: Folder of the encoder.
        spec: Its description.

    Returns:
        The tokenizer.

    Raises:
        IntegrityError: The file is not a tokenizer.
    """
    from tokenizers import Tokenizer

    key = (spec.sha256[TOKENIZER_FILE], spec.max_tokens)
    if (known := _TOKENIZERS.get(key)) is not None:
        return known
    path = directory / TOKENIZER_FILE
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises bare Exception
        raise IntegrityError(f"{path}: not a tokenizer: {error}", suggestion=REMEDY) from error
    tokenizer.no_padding()
    if spec.max_tokens:
        tokenizer.enable_truncation(spec.max_tokens)  # pyright: ignore[reportUnknownMemberType]
    else:
        tokenizer.no_truncation()
    _TOKENIZERS[key] = tokenizer
    return tokenizer

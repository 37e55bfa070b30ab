"""Models of sentence-transformers, run by torch: any id of a hub, or a local folder.

The same code runs on every device. On a GPU models run in half precision, on a CPU in bfloat16 where it has
instructions for that and in float32 otherwise. Texts are batched by length; a batch that does not fit into memory is
halved, and later ones start at that size.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from codequarry.schemas.errors import InvalidArgumentError, UnavailableError
from codequarry.schemas.install_hints import missing_extra
from codequarry.schemas.settings.embedding import EncoderSettings
from codequarry.serving.encoders.spec import EncoderSpec

FIRST_BATCH, LARGEST_BATCH = 32, 512
_BYTES_PER_TOKEN = 400_000
"""Free GPU memory that a token of a batch may take; twice the measured need of a model of 137 million parameters."""
_COMMIT = re.compile(r"[0-9a-f]{40}")


def load_model(embedding: EncoderSettings, *, device: str = "", plain: bool = False) -> Any:
    """Load the SentenceTransformer of the settings.

    Args:
        embedding: Settings with the model.
        device: Name of the device in torch; when empty the GPU, or the CPU without one.
        plain: Load in float32, with eager attention, for an export.

    Returns:
        The model, in evaluation mode.

    Raises:
        MissingExtraError: The extra ``transformers`` is not installed.
        InvalidArgumentError: The model's own code is to be trusted without a pinned revision.
        UnavailableError: There is no such model, or no hub to fetch it from; or torch sees no such device.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    local = Path(embedding.model).is_dir()
    if embedding.trust_remote_code and not local and not _COMMIT.fullmatch(embedding.revision):
        raise InvalidArgumentError(
            f"{embedding.section} revision is {embedding.revision!r}, expected a commit of 40 hexadecimal digits",
            suggestion="trust a model's own code only at a revision that was read, or from a folder",
        )
    try:
        import torch
        from sentence_transformers import SentenceTransformer
    except ModuleNotFoundError as error:
        raise missing_extra(f"the model {embedding.model}", "transformers", missing=error.name) from None

    place = device or ("cuda" if torch.cuda.is_available() else "cpu")
    _require_device(torch, place, embedding)
    arguments: dict[str, Any] = {"dtype": torch.float32 if plain else _precision(torch, place)}
    if plain:
        arguments["attn_implementation"] = "eager"
    try:
        model: Any = SentenceTransformer(
            embedding.model,
            device=place,
            revision=None if local else embedding.revision or None,
            trust_remote_code=embedding.trust_remote_code,
            local_files_only=local,
            model_kwargs={**arguments, "use_safetensors": True},
        )
    except (OSError, ValueError, ImportError) as error:
        raise UnavailableError(
            f"the model {embedding.model} cannot be loaded: {str(error).strip().splitlines()[0]}",
            suggestion="give the folder of a model with safetensors, fetch it where a hub can be reached "
            "(`codequarry models fetch`), or run it behind a server and set [embedding] endpoint",
        ) from error
    model.eval()
    model.max_seq_length = min(embedding.max_tokens, model.max_seq_length or embedding.max_tokens)
    return model


class TorchEncoder:
    """Encoder of texts by a loaded model."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.dim = int(model.get_embedding_dimension())
        self.device = str(model.device)
        """Name of the device in torch."""
        self.batch = FIRST_BATCH
        """Number of texts in the next batch."""

    def encode(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> np.ndarray:
        """Encode texts that already have their prefixes.

        Args:
            texts: Texts to encode.
            progress: Called with the number of texts finished so far.

        Returns:
            Vectors (n, d) float32, unit norm, in input order.

        Raises:
            UnavailableError: A single text does not fit into the memory of the device.
        """
        vectors = np.empty((len(texts), self.dim), np.float32)
        order = sorted(range(len(texts)), key=lambda row: (-len(texts[row]), row))
        done = 0
        while done < len(order):
            rows = order[done : done + self._fitting()]
            try:
                vectors[rows] = self._run([texts[row] for row in rows])
            except (RuntimeError, MemoryError) as error:
                if not _out_of_memory(error):
                    raise
                if len(rows) == 1:
                    raise UnavailableError(
                        "a single text does not fit into the memory of the device",
                        suggestion="lower [embedding] max_tokens, or choose another device",
                    ) from error
                self.batch = len(rows) // 2
                self._free()
                continue
            done += len(rows)
            # The longest texts come first, so that later batches have room for more.
            self.batch = min(self.batch + self.batch // 4, LARGEST_BATCH)
            if progress is not None:
                progress(done)
        return vectors

    def _run(self, texts: list[str]) -> np.ndarray:
        # prompt="": some models carry prompts of their own, and the prefix is there already.
        found = self._model.encode(
            texts, batch_size=len(texts), prompt="", convert_to_numpy=True, show_progress_bar=False
        )
        vectors = np.asarray(found, np.float32)
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)

    def _fitting(self) -> int:
        """Return the number of texts that should fit into the free memory of a GPU; `batch` elsewhere."""
        import torch

        if self._model.device.type != "cuda":
            return self.batch
        free, _ = torch.cuda.mem_get_info(self._model.device)
        return max(1, min(self.batch, free // (_BYTES_PER_TOKEN * self._model.max_seq_length)))

    def _free(self) -> None:
        import torch

        if self._model.device.type == "cuda":
            torch.cuda.empty_cache()


class TorchDocuments:
    """Encoder of documents whose queries are encoded by the exported graph."""

    def __init__(self, spec: EncoderSpec, encoder: TorchEncoder) -> None:
        self._prefix = spec.document_prefix
        self._encoder = encoder
        self.device = encoder.device
        """Name of the device in torch."""

    @classmethod
    def open(cls, spec: EncoderSpec, embedding: EncoderSettings) -> Self:
        """Load the model of the settings on their device.

        Args:
            spec: Description of the encoder.
            embedding: Settings with the model.

        Returns:
            The encoder.

        Raises:
            CodequarryError: As `load_model` does.
        """
        return cls(spec, TorchEncoder(load_model(embedding, device=embedding.device)))

    def encode_documents(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> np.ndarray:
        """Encode documents; see `DocumentEncoder.encode_documents`."""
        return self._encoder.encode([self._prefix + text for text in texts], progress)


def gpu_memory_mb(torch: Any | None) -> float | None:
    """Return the most GPU memory that torch has taken so far, over all devices, in megabytes.

    Args:
        torch: The module, or None where it was not imported.

    Returns:
        Megabytes; None without a GPU of NVIDIA or AMD.
    """
    if torch is None or not torch.cuda.is_available():
        return None
    taken = [torch.cuda.max_memory_allocated(number) for number in range(torch.cuda.device_count())]
    return round(sum(taken) / 1e6, 1)


def _require_device(torch: Any, device: str, embedding: EncoderSettings) -> None:
    """Require that torch sees a device.

    Another device gives vectors that differ in the last digits, and those of the named one are kept under its name. So
    this is an error, and no reason to take the CPU instead.

    Args:
        torch: The module.
        device: Name of the device in torch.
        embedding: Settings that name it.

    Raises:
        UnavailableError: It sees no such device.
    """
    kind, _, number = device.partition(":")
    seen = torch.cuda.device_count() if torch.cuda.is_available() else 0
    missing = int(number or 0) >= seen if kind == "cuda" else kind == "mps" and not torch.backends.mps.is_available()
    if missing:
        there = f"{seen} of CUDA" if seen else "none"
        raise UnavailableError(
            f"{embedding.section} device is {device}, and torch {torch.__version__} sees no such GPU (it sees {there})",
            suggestion="check `nvidia-smi` and that torch is a build for CUDA, or name another device",
        )


def _precision(torch: Any, device: str) -> Any:
    if not device.startswith("cpu"):
        return torch.float16
    capable = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)()
    return torch.bfloat16 if capable else torch.float32


def _out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or "out of memory" in str(error).lower() or "can't allocate" in str(error)

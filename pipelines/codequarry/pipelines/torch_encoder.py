"""Models of sentence-transformers, run by torch: any id of a hub, or a local folder.

The same code for every device. On a GPU models run in half precision, on a CPU in bfloat16 where it has instructions
for that and in float32 otherwise. Texts are batched by length; a batch that does not fit into memory is halved, and
later ones start at that size.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from codequarry.schemas.embedding_settings import EmbeddingSettings
from codequarry.schemas.encoder import EncoderSpec
from codequarry.schemas.errors import InvalidArgumentError, UnavailableError
from codequarry.schemas.install_hints import missing_extra

FIRST_BATCH, LARGEST_BATCH = 32, 512
_BYTES_PER_TOKEN = 400_000
"""Of a GPU's free memory that a token of a batch may take; twice what a model of 137 million parameters was seen to."""
_COMMIT = re.compile(r"[0-9a-f]{40}")


def load_model(embedding: EmbeddingSettings, *, device: str = "", plain: bool = False) -> Any:
    """The SentenceTransformer of the settings.

    device: as torch names it; the GPU where there is one when empty. plain: in float32, with attention spelled out, as
    an export wants it.

    Raises MissingExtraError: the extra ``transformers`` is not installed. InvalidArgumentError: its own code is to be
    trusted without a pinned revision. UnavailableError: there is no such model, or no hub to fetch it from.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    local = Path(embedding.model).is_dir()
    if embedding.trust_remote_code and not local and not _COMMIT.fullmatch(embedding.revision):
        raise InvalidArgumentError(
            f"[embedding] revision is {embedding.revision!r}, expected a commit of 40 hexadecimal digits",
            suggestion="trust a model's own code only at a revision that was read, or from a folder",
        )
    try:
        import torch
        from sentence_transformers import SentenceTransformer
    except ModuleNotFoundError as error:
        raise missing_extra(f"the model {embedding.model}", "transformers", missing=error.name) from None

    place = device or ("cuda" if torch.cuda.is_available() else "cpu")
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
    """Encodes texts by a loaded model."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.dim = int(model.get_embedding_dimension())
        self.batch = FIRST_BATCH
        """Texts of the next batch."""

    def encode(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> np.ndarray:
        """Vectors (n, d) float32, unit norm, in input order, of texts with their prefixes.

        progress: called with the number of texts finished so far.

        Raises UnavailableError: not even one text fits into the memory of the device.
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
            # The longest come first: what fits now leaves room for more of those that follow.
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
        """Texts of a batch that should fit into what a GPU has free; `batch` elsewhere."""
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
    """Documents of an encoder whose queries its exported graph encodes."""

    def __init__(self, spec: EncoderSpec, encoder: TorchEncoder) -> None:
        self._prefix = spec.document_prefix
        self._encoder = encoder

    @classmethod
    def open(cls, spec: EncoderSpec, embedding: EmbeddingSettings) -> Self:
        """Load the model of the settings on their device; raises as `load_model`."""
        return cls(spec, TorchEncoder(load_model(embedding, device=embedding.device)))

    def encode_documents(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> np.ndarray:
        """See `DocumentEncoder.encode_documents`."""
        return self._encoder.encode([self._prefix + text for text in texts], progress)


def _precision(torch: Any, device: str) -> Any:
    if not device.startswith("cpu"):
        return torch.float16
    capable = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)()
    return torch.bfloat16 if capable else torch.float32


def _out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or "out of memory" in str(error).lower() or "can't allocate" in str(error)

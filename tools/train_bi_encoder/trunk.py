"""all-MiniLM-L6-v2 in torch, from the weights of its package, for training.

The weights keep the names that they have in BertModel, so that what was trained is exported as what was shipped
(`codequarry.pipelines.embed.export.bert`).
"""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from codequarry.pipelines.embed.export.minilm import MINILM

Parameters = Mapping[str, torch.Tensor]


def load_parameters(file: Path) -> dict[str, torch.Tensor]:
    """Read the weights of a safetensors file as parameters that can be trained.

    Args:
        file: The file.

    Returns:
        Parameters by name, float32. Those of the pooler, which no vector depends on, are left out.
    """
    from safetensors.numpy import load_file

    return {
        name: torch.from_numpy(values.copy()).requires_grad_()
        for name, values in sorted(load_file(file).items())
        if values.dtype == np.float32 and not name.startswith("pooler.")
    }


def unit_vectors(parameters: Parameters, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Return the vectors of texts: the mean of their tokens, of norm one.

    Args:
        parameters: See `load_parameters`.
        ids: (n, t) int64 tokens, padded with any token.
        lengths: (n,) int64 tokens of each text.

    Returns:
        (n, 384) float32.
    """
    inside = torch.arange(ids.shape[1])[None, :] < lengths[:, None]
    tokens = _last_layer(parameters, ids, inside).float()
    total = (tokens * inside[:, :, None]).sum(dim=1)
    return functional.normalize(total / lengths[:, None], dim=1)


def _last_layer(parameters: Parameters, ids: torch.Tensor, inside: torch.Tensor) -> torch.Tensor:
    """Return the output of the last layer, (n, t, 384); padding is not attended to."""
    x = functional.embedding(ids, parameters["embeddings.word_embeddings.weight"])
    x = x + parameters["embeddings.position_embeddings.weight"][: ids.shape[1]]
    x = x + parameters["embeddings.token_type_embeddings.weight"][0]
    x = _normalized(parameters, "embeddings.LayerNorm", x)
    for number in range(MINILM.layers):
        layer = f"encoder.layer.{number}"
        query, key, value = (
            _heads(_linear(parameters, f"{layer}.attention.self.{part}", x)) for part in ("query", "key", "value")
        )
        context = functional.scaled_dot_product_attention(query, key, value, attn_mask=inside[:, None, None, :])
        context = context.transpose(1, 2).flatten(2)
        attended = _linear(parameters, f"{layer}.attention.output.dense", context)
        x = _normalized(parameters, f"{layer}.attention.output.LayerNorm", attended + x)
        inner = functional.gelu(_linear(parameters, f"{layer}.intermediate.dense", x))
        outer = _linear(parameters, f"{layer}.output.dense", inner)
        x = _normalized(parameters, f"{layer}.output.LayerNorm", outer + x)
    return x


def _linear(parameters: Parameters, name: str, x: torch.Tensor) -> torch.Tensor:
    return functional.linear(x, parameters[f"{name}.weight"], parameters[f"{name}.bias"])


def _normalized(parameters: Parameters, name: str, x: torch.Tensor) -> torch.Tensor:
    gain, bias = parameters[f"{name}.weight"], parameters[f"{name}.bias"]
    return functional.layer_norm(x, gain.shape, gain, bias, MINILM.epsilon)


def _heads(x: torch.Tensor) -> torch.Tensor:
    """Return (n, heads, t, d) of (n, t, heads * d)."""
    return x.unflatten(2, (MINILM.heads, -1)).transpose(1, 2)

"""Export of a static encoder: a trained table becomes int8 rows, each with a scale in documents and one in queries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from codequarry.serving.encoders.spec import TOKENIZER_FILE, Adaptation, EncoderSpec
from codequarry.serving.encoders.static import ROWS_FILE, SCALES_FILE

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def export_static(
    directory: Path,
    tokenizer: Tokenizer,
    table: np.ndarray,
    weights: np.ndarray,
    *,
    name: str,
    source: str,
    adapted: Adaptation | None = None,
) -> EncoderSpec:
    """Write the files of a static encoder; the same arguments give the same bytes.

    Args:
        directory: Created when missing; files of the same names are replaced.
        tokenizer: Tokenizer of the encoder.
        table: (v, d) float32.
        weights: (2, v) float32 of documents and of queries, positive, or (v,) for both; they go into the scales.
        name: Name of the encoder.
        source: Origin of the encoder, for its description.
        adapted: Evaluation of the adaptation, if it is an adapted encoder.

    Returns:
        Description of the encoder.
    """
    magnitudes = np.abs(table).max(axis=1)
    scales = np.where(magnitudes > 0, magnitudes / np.float32(127), np.float32(1))
    directory.mkdir(parents=True, exist_ok=True)
    np.save(directory / ROWS_FILE, np.rint(table / scales[:, None]).astype(np.int8), allow_pickle=False)
    np.save(directory / SCALES_FILE, (scales * weights).astype(np.float32), allow_pickle=False)
    tokenizer.save(str(directory / TOKENIZER_FILE), pretty=False)
    return EncoderSpec.seal(
        directory,
        kind="static",
        name=name,
        dim=table.shape[1],
        max_tokens=0,
        license="Apache-2.0",
        source=source,
        adapted=adapted,
    )

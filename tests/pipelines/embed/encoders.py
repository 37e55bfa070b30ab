"""A small encoder of its own kind of vectors, made of the shipped one in milliseconds."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from codequarry.pipelines.embed.encoders import SHIPPED
from codequarry.serving.encoders.spec import TOKENIZER_FILE, EncoderSpec
from codequarry.serving.encoders.static import ROWS_FILE, SCALES_FILE

DIM = 64


def small_encoder(folder: Path) -> Path:
    """The first dimensions of the shipped encoder, as an encoder."""
    folder.mkdir(parents=True)
    return _sealed(folder, np.load(SHIPPED / ROWS_FILE)[:, :DIM].copy())


def garbled_encoder(folder: Path) -> Path:
    """The same, with the vectors of its words dealt out anew, and other words before each question: it finds little."""
    folder.mkdir(parents=True)
    rows = np.load(SHIPPED / ROWS_FILE)[:, :DIM]
    return _sealed(folder, rows[np.random.default_rng(0).permutation(len(rows))], query_prefix="warranty of any kind: ")


def _sealed(folder: Path, rows: np.ndarray, query_prefix: str = "") -> Path:
    np.save(folder / ROWS_FILE, rows)
    for name in (SCALES_FILE, TOKENIZER_FILE):
        shutil.copyfile(SHIPPED / name, folder / name)
    EncoderSpec.seal(
        folder,
        kind="static",
        name="small",
        dim=DIM,
        max_tokens=0,
        license="Apache-2.0",
        source="the shipped one",
        query_prefix=query_prefix,
    )
    return folder

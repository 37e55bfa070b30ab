"""Index folders with semble, for `benchmarks.indexing.footprint`: chunks, files, and what the process took.

    python benchmarks/indexing/semble_index.py MODEL FOLDER [ENCODER]

Run it with a Python that has semble (0.7.0) and nothing of this project. With ``ENCODER``, the folder of this project's
static encoder, ``MODEL`` is written, as a model of model2vec with the same vectors: semble's own comes from a hub.
Without it, ``FOLDER`` is indexed into memory, with code, documents and configuration, as this project does. One line of
JSON is printed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def write_model(model: Path, encoder: Path) -> None:
    """Write the vectors and the tokenizer of a static encoder in the form of model2vec."""
    import numpy as np
    from model2vec import StaticModel  # type: ignore[import-not-found]
    from tokenizers import Tokenizer

    rows = np.load(encoder / "rows.npy").astype(np.float32)
    scales = np.atleast_2d(np.load(encoder / "scales.npy"))[0]  # of documents: model2vec has one for both
    tokenizer = Tokenizer.from_file(str(encoder / "tokenizer.json"))
    StaticModel(rows * scales.reshape(-1, 1), tokenizer, normalize=True).save_pretrained(model)


def index(model: Path, folder: Path) -> None:
    """Index a folder into memory and print what was read."""
    from semble.index import SembleIndex  # type: ignore[import-not-found]
    from semble.types import ContentType  # type: ignore[import-not-found]

    content = (ContentType.CODE, ContentType.DOCS, ContentType.CONFIG)
    stats = SembleIndex.from_path(folder, model_path=str(model), content=content).stats
    print(json.dumps({"chunks": stats.total_chunks, "files": stats.indexed_files}))


if __name__ == "__main__":
    first, second, *encoder_folder = map(Path, sys.argv[1:])
    write_model(first, encoder_folder[0]) if encoder_folder else index(first, second)

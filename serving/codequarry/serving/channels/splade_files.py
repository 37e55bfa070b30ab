"""Mapping and checks of the files of a SPLADE index."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from codequarry.schemas.bundle.index_spec import REMEDY
from codequarry.schemas.bundle.splade import SpladeSpec
from codequarry.schemas.errors import IntegrityError
from codequarry.serving.files.mapped_index import check_offsets, map_files


def map_arrays(folder: Path, spec: SpladeSpec) -> dict[str, np.ndarray]:
    """Map every file of an index, read-only; only headers, ids and offsets are read.

    Postings are not checked here: `strange_postings` does that, and a reader checks them as it uses them.

    Args:
        folder: Folder of the index.
        spec: Description of the index.

    Returns:
        Arrays by name.

    Raises:
        IntegrityError: A file is missing or truncated, or its shape, type, ids or offsets do not match the spec.
    """
    arrays = map_files(folder, spec)
    check_offsets(folder / "offsets.npy", arrays["offsets"], spec.postings)
    if (np.diff(arrays["chunk_ids"]) <= 0).any():
        raise IntegrityError(f"{folder}/chunk_ids.npy: not ascending", suggestion=REMEDY)
    return arrays


def strange_postings(arrays: dict[str, np.ndarray], spec: SpladeSpec) -> int:
    """Count postings without a document, out of order, repeated inside their term, or without an impact."""
    documents = arrays["documents"]
    strange = int(np.count_nonzero((documents < 0) | (documents >= spec.documents)))
    starts = np.zeros(spec.postings, np.bool_)
    offsets = arrays["offsets"]
    starts[offsets[:-1][np.diff(offsets) > 0]] = True
    strange += int(np.count_nonzero((np.diff(documents) <= 0) & ~starts[1:]))
    return strange + int(np.count_nonzero(arrays["impacts"] == 0))

"""Vectors by (encoder fingerprint, sha256 of the encoded text), so that no text is embedded twice."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from codequarry.pipelines.store.content import ContentStore, open_content_store

Vector = NDArray[np.float32]
_PAGE_BYTES = 16_384
"""Bytes of a database page, which holds ten vectors of 384 dimensions; smaller pages leave more space unused."""


def text_key(text: str) -> bytes:
    """Return the sha256 (32 bytes) of a text's UTF-8 form."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


class VectorStore:
    """Vectors of one encoder, keyed by text. Use through ``open_vector_store``."""

    def __init__(self, store: ContentStore, dim: int) -> None:
        self._store = store
        self._dim = dim

    def get(self, keys: Sequence[bytes], *, rounded: bool = False) -> dict[bytes, Vector]:
        """Return the vectors that are present, (d,) float32 each; a damaged one counts as absent.

        Args:
            keys: Keys of the texts.
            rounded: Also take vectors that were rounded to float16; they are absent otherwise.

        Returns:
            Vectors by key.
        """
        kinds = {4 * self._dim: "<f4"} | ({2 * self._dim: "<f2"} if rounded else {})
        found = ((key, value, kinds.get(len(value))) for key, value in self._store.get(keys).items())
        return {key: np.frombuffer(value, kind).astype(np.float32, copy=False) for key, value, kind in found if kind}

    def put(self, entries: Iterable[tuple[bytes, Vector]], *, rounded: bool = False) -> None:
        """Add or replace vectors in one transaction.

        Args:
            entries: Keys and vectors.
            rounded: Store them as float16, which takes half.
        """
        kind = "<f2" if rounded else "<f4"
        self._store.put((key, np.ascontiguousarray(vector, kind).tobytes()) for key, vector in entries)


def vector_file(store: Path, fingerprint: str) -> Path:
    """Return the file of an encoder's vectors below the store."""
    return store / "vectors" / f"{fingerprint}.sqlite"


@contextmanager
def open_vector_store(store: Path, fingerprint: str, dim: int) -> Iterator[VectorStore]:
    """Open the stored vectors of an encoder.

    Args:
        store: Folder of the store.
        fingerprint: Fingerprint of the encoder.
        dim: Dimensions of its vectors.

    Yields:
        The open store.

    Raises:
        UnavailableError: As `open_content_store` does.
    """
    with open_content_store(vector_file(store, fingerprint), _PAGE_BYTES) as opened:
        yield VectorStore(opened, dim)

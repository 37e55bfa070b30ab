"""Impacts by text: a sparse encoder reads each text only once.

They lie in the content-addressed store, one file for each encoder, under the sha256 of the text. An entry always holds
as many terms as an index may have: keeping fewer needs no encoder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from codequarry.pipelines.store.content import ContentStore, open_content_store
from codequarry.serving.encoders.sparse import Impacts

_POSTING = 5
"""Bytes: a term (i32) and its impact (u8)."""


class ImpactStore:
    """Impacts of texts. Use through `open_impact_store`."""

    def __init__(self, store: ContentStore) -> None:
        self._store = store

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Impacts]:
        """Return the impacts that are there; a damaged entry counts as absent."""
        return {key: _unpacked(value) for key, value in self._store.get(keys).items() if len(value) % _POSTING == 0}

    def put(self, entries: Iterable[tuple[bytes, Impacts]]) -> None:
        """Add or replace impacts in one transaction."""
        self._store.put((key, _packed(impacts)) for key, impacts in entries)


def impact_file(store: Path, fingerprint: str) -> Path:
    """Return the file of an encoder's impacts below the store."""
    return store / "splade" / f"{fingerprint}.sqlite"


@contextmanager
def open_impact_store(store: Path, fingerprint: str) -> Iterator[ImpactStore]:
    """Open the impacts of an encoder.

    Args:
        store: Folder of the store.
        fingerprint: Fingerprint of the encoder.

    Yields:
        The store of impacts.

    Raises:
        CodequarryError: As `open_content_store` does.
    """
    with open_content_store(impact_file(store, fingerprint)) as opened:
        yield ImpactStore(opened)


def _packed(impacts: Impacts) -> bytes:
    return impacts.terms.astype("<i4").tobytes() + impacts.impacts.tobytes()


def _unpacked(value: bytes) -> Impacts:
    count = len(value) // _POSTING
    return Impacts(np.frombuffer(value, "<i4", count), np.frombuffer(value, np.uint8, count, 4 * count))

"""Chunker results by the contents of the file: no blob is parsed twice, wherever it lies."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from codequarry.pipelines.store.content import ContentStore, open_content_store
from codequarry.pipelines.store.library_versions import tool_versions
from codequarry.schemas.settings.load import ChunkingSettings

_LENGTH_BYTES = 8
_CODEC = "zstd"


def chunker_fingerprint(settings: ChunkingSettings) -> str:
    """Return a hash of all that decides the chunker's result besides the file: our code, the grammars, the sizes."""
    parts = [tool_versions(), settings.model_dump(mode="json")]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class SyntaxStore:
    """Answers of chunk workers, compressed. Use through `open_syntax_store`."""

    def __init__(self, store: ContentStore) -> None:
        self._store = store

    def get(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the answers that are present, as the worker wrote them."""
        return {key: _unpacked(value) for key, value in self._store.get(keys).items()}

    def put(self, entries: Sequence[tuple[bytes, bytes]]) -> None:
        """Store answers."""
        self._store.put((key, _packed(answer)) for key, answer in entries)


def syntax_file(store: Path, settings: ChunkingSettings) -> Path:
    """Return the file of the chunker's answers below the store."""
    return store / "syntax" / f"{chunker_fingerprint(settings)}.sqlite"


@contextmanager
def open_syntax_store(store: Path, settings: ChunkingSettings) -> Iterator[SyntaxStore]:
    """Open the stored answers of this chunker.

    Args:
        store: Folder of the store.
        settings: Settings of the chunker, which select the file.

    Yields:
        The open store.

    Raises:
        UnavailableError: As `open_content_store` does.
    """
    with open_content_store(syntax_file(store, settings)) as opened:
        yield SyntaxStore(opened)


def _packed(answer: bytes) -> bytes:
    return len(answer).to_bytes(_LENGTH_BYTES, "little") + pa.compress(answer, _CODEC, asbytes=True)


def _unpacked(value: bytes) -> bytes:
    return pa.decompress(value[_LENGTH_BYTES:], int.from_bytes(value[:_LENGTH_BYTES], "little"), _CODEC, asbytes=True)

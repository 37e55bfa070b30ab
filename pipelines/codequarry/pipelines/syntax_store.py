"""What the chunker made of a file, by the file's contents: no blob is parsed twice, wherever it lies."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from codequarry.pipelines.content_store import ContentStore, open_content_store
from codequarry.pipelines.tools import tool_versions
from codequarry.schemas.settings import ChunkingSettings

_LENGTH_BYTES = 8
_CODEC = "zstd"


def chunker_fingerprint(settings: ChunkingSettings) -> str:
    """Hash of everything else that decides what the chunker makes of a file: our code, the grammars, the sizes."""
    parts = [tool_versions(), settings.model_dump(mode="json")]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class SyntaxStore:
    """Answers of chunk workers, compressed. Use through `open_syntax_store`."""

    def __init__(self, store: ContentStore) -> None:
        self._store = store

    def get(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The answers that are there, as the worker wrote them."""
        return {key: _unpacked(value) for key, value in self._store.get(keys).items()}

    def put(self, entries: Sequence[tuple[bytes, bytes]]) -> None:
        """Keep answers."""
        self._store.put((key, _packed(answer)) for key, answer in entries)


def syntax_file(store: Path, settings: ChunkingSettings) -> Path:
    """The file of the chunker's answers below the store."""
    return store / "syntax" / f"{chunker_fingerprint(settings)}.sqlite"


@contextmanager
def open_syntax_store(store: Path, settings: ChunkingSettings) -> Iterator[SyntaxStore]:
    """Open what this chunker made before; raises as `open_content_store`."""
    with open_content_store(syntax_file(store, settings)) as opened:
        yield SyntaxStore(opened)


def _packed(answer: bytes) -> bytes:
    return len(answer).to_bytes(_LENGTH_BYTES, "little") + pa.compress(answer, _CODEC, asbytes=True)


def _unpacked(value: bytes) -> bytes:
    return pa.decompress(value[_LENGTH_BYTES:], int.from_bytes(value[:_LENGTH_BYTES], "little"), _CODEC, asbytes=True)

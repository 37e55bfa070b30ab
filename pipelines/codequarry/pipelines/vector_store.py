"""Vectors by (encoder fingerprint, sha256 of the encoded text): what was embedded once is never embedded again.

One SQLite file per encoder: many processes may read and write it, and a killed one leaves it whole.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from codequarry.schemas.errors import UnavailableError

_BATCH = 500
Vector = NDArray[np.float32]


def text_key(text: str) -> bytes:
    """sha256 (32 bytes) of a text's UTF-8 form."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


class VectorStore:
    """Float32 vectors of one encoder, keyed by text. Use through ``open_vector_store``."""

    def __init__(self, connection: sqlite3.Connection, dim: int) -> None:
        self._connection = connection
        self._bytes = 4 * dim

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Vector]:
        """The vectors that are there, (d,) float32 each. An entry of a wrong length counts as absent."""
        found: dict[bytes, Vector] = {}
        for start in range(0, len(keys), _BATCH):
            part = keys[start : start + _BATCH]
            marks = ",".join("?" * len(part))
            rows = self._connection.execute(f"SELECT key, vector FROM vectors WHERE key IN ({marks})", part)
            found.update((key, np.frombuffer(blob, "<f4")) for key, blob in rows if len(blob) == self._bytes)
        return found

    def put(self, entries: Iterable[tuple[bytes, Vector]]) -> None:
        """Add or replace vectors in one transaction."""
        rows = ((key, np.ascontiguousarray(vector, "<f4").tobytes()) for key, vector in entries)
        with self._connection:
            self._connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)


@contextmanager
def open_vector_store(folder: Path, fingerprint: str, dim: int) -> Iterator[VectorStore]:
    """Open the store of an encoder, creating it when missing.

    Raises UnavailableError: the file is not a usable database, or the disk refuses.
    """
    file = folder / f"{fingerprint}.sqlite"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(file, timeout=60)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID")
            yield VectorStore(connection, dim)
    except (sqlite3.OperationalError, OSError) as error:
        raise UnavailableError(
            f"the vector store {file} cannot be used: {error}",
            suggestion="free disk space or check permissions, then run again; finished vectors are kept",
        ) from error
    except sqlite3.DatabaseError as error:
        raise UnavailableError(
            f"the vector store {file} cannot be used: {error}", suggestion="delete that file; it will be rebuilt"
        ) from error

"""Stores of computed results by content: one SQLite file per kind of result and per program that computed it.

Many processes may read and write a file, and a killed one leaves it whole. Every entry carries a checksum over its key
and itself. An entry with a wrong checksum counts as absent, so that it is computed again and replaced; a file that
SQLite cannot read is replaced by an empty one. Nothing in a store is the only copy of anything.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.resources import raise_if_exhausted

_WAIT_S, _RETRY_S = 60.0, 0.02
"""Time that another process may hold a store, and how often it is asked."""
_BATCH = 500
_CHECKSUM_BYTES = 16
_DAY_S = 86_400
# With row ids: a table without them keeps no more than a quarter of a page of an entry in place, so that each vector of
# a kilobyte took pages of its own, 4.4 times its bytes.
_TABLE = "CREATE TABLE IF NOT EXISTS entries (key BLOB PRIMARY KEY, value BLOB, used INTEGER)"
PAGE_BYTES = 1_024
"""Bytes of a database page: the last one of an entry is half empty on average."""


@dataclass(frozen=True, slots=True)
class Swept:
    """Result of a sweep, or of its dry run."""

    kept: int
    damaged: int
    unused: int
    freed_bytes: int
    """Bytes of the damaged and the unused entries."""


class ContentStore:
    """Byte strings by key. Use through `open_content_store`. Safe to share between threads."""

    def __init__(self, file: Path, page_bytes: int) -> None:
        self._file = file
        self._page_bytes = page_bytes
        self._lock = threading.RLock()
        self._connection = _connected(file, page_bytes)

    def get(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the entries that are present and undamaged; each is marked as used today."""
        with self._lock:
            return self._read_entries(keys)

    def put(self, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Add or replace entries in one transaction."""
        today = _today()
        rows = [(key, _sealed(key, value), today) for key, value in entries]
        with self._lock:
            try:
                self._insert(rows)
            except sqlite3.DatabaseError as error:
                self._start_anew(error)
                self._insert(rows)

    def bytes_by_day(self, live: frozenset[bytes]) -> dict[int, int]:
        """Return the bytes of the entries that are not live, by how many days ago they were used last."""
        today, found = _today(), dict[int, int]()
        for key, size, used in self._connection.execute("SELECT key, length(value), used FROM entries"):
            if key not in live:
                days = max(today - used, 0)
                found[days] = found.get(days, 0) + len(key) + (size or 0)
        return found

    def sweep(self, live: frozenset[bytes], unused_days: int, *, dry_run: bool) -> Swept:
        """Drop damaged entries, and those that are not live and were not used recently.

        Args:
            live: Keys of what the work folder holds now; they stay however long they were not asked for.
            unused_days: Days without use after which an entry that is not live is dropped.
            dry_run: Only count, and drop nothing.

        Returns:
            Counts of what was kept and dropped.
        """
        oldest = _today() - unused_days
        damaged: list[bytes] = []
        unused: list[bytes] = []
        freed = kept = 0
        for key, value, used in self._connection.execute("SELECT key, value, used FROM entries"):
            broken = _unseal_value(key, value) is None
            if broken or (key not in live and used <= oldest):
                (damaged if broken else unused).append(key)
                freed += len(key) + len(value or b"")
            else:
                kept += 1
        if not dry_run and (damaged or unused):
            with self._connection:
                self._connection.executemany("DELETE FROM entries WHERE key = ?", ((key,) for key in damaged + unused))
            self._connection.execute("VACUUM")
        return Swept(kept, len(damaged), len(unused), freed)

    def close(self) -> None:
        """Close the connection to the file."""
        self._connection.close()

    def _read_entries(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        today = _today()
        try:
            for part, marks in _parts(keys):
                rows = self._connection.execute(f"SELECT key, value, used FROM entries WHERE key IN ({marks})", part)
                stale = []
                for key, value, used in rows:
                    if (whole := _unseal_value(key, value)) is not None:
                        found[key] = whole
                        stale += [key] if used < today else []
                if stale:
                    with self._connection:
                        self._connection.executemany(
                            "UPDATE entries SET used = ? WHERE key = ?", ((today, key) for key in stale)
                        )
        except sqlite3.DatabaseError as error:
            self._start_anew(error)
            return {}
        return found

    def _insert(self, rows: list[tuple[bytes, bytes, int]]) -> None:
        with self._connection:
            self._connection.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?)", rows)

    def _start_anew(self, error: sqlite3.DatabaseError) -> None:
        """Replace a file that cannot be read by an empty one.

        Args:
            error: Error of the last access.

        Raises:
            sqlite3.OperationalError: The error itself, when its cause is the disk and not the file.
        """
        if isinstance(error, sqlite3.OperationalError):
            raise error
        self._connection.close()
        self._connection = _connected(self._file, self._page_bytes, fresh=True)


@contextmanager
def open_content_store(file: Path, page_bytes: int = PAGE_BYTES) -> Iterator[ContentStore]:
    """Open a store, creating it when it is missing and replacing it when it is not a database.

    Args:
        file: SQLite file of the store.
        page_bytes: Bytes of its pages, a power of two from 512 to 65,536, if it has to be made.

    Yields:
        The open store.

    Raises:
        UnavailableError: The disk refuses.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        store = ContentStore(file, page_bytes)
        try:
            yield store
        finally:
            store.close()
    except (sqlite3.Error, OSError) as error:
        raise_if_exhausted(error, f"the store {file} cannot be used now")
        raise UnavailableError(
            f"the store {file} cannot be used: {error}",
            suggestion="free disk space or check permissions, then run again; what was finished is kept",
        ) from error


def stores_bytes(store: Path) -> int:
    """Return the bytes of all databases below the store."""
    sizes = 0
    for file in store.glob("*/*.sqlite*"):
        with suppress(OSError):  # SQLite removes its -wal files
            sizes += file.stat().st_size
    return sizes


def remove_store(file: Path) -> None:
    """Remove a store's file and SQLite's `-wal` and `-shm` files."""
    for suffix in ("", "-wal", "-shm"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)


def _connected(file: Path, page_bytes: int, *, fresh: bool = False) -> sqlite3.Connection:
    if fresh:
        remove_store(file)
    # The lock of `ContentStore` lets one thread at a time use it.
    connection = sqlite3.connect(file, timeout=_WAIT_S, check_same_thread=False)
    try:
        connection.execute(f"PRAGMA page_size={page_bytes}")
        _write_ahead(connection)
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute(_TABLE)
    except sqlite3.OperationalError:
        connection.close()
        raise
    except sqlite3.DatabaseError:
        connection.close()
        if fresh:
            raise
        return _connected(file, page_bytes, fresh=True)
    return connection


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch to the write-ahead log; SQLite does not wait for another process that does so with a new file."""
    until = time.monotonic() + _WAIT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(_RETRY_S)
        else:
            return


def _parts(keys: Sequence[bytes]) -> Iterator[tuple[Sequence[bytes], str]]:
    for start in range(0, len(keys), _BATCH):
        part = keys[start : start + _BATCH]
        yield part, ",".join("?" * len(part))


def _sealed(key: bytes, value: bytes) -> bytes:
    return hashlib.blake2b(value, key=key[:64], digest_size=_CHECKSUM_BYTES).digest() + value


def _unseal_value(key: bytes, value: object) -> bytes | None:
    """Return the stored value of a key without its checksum, or None when the entry is damaged."""
    if not isinstance(key, bytes) or not isinstance(value, bytes):
        return None
    whole = value[_CHECKSUM_BYTES:]
    return whole if _sealed(key, whole) == value else None


def _today() -> int:
    return int(time.time()) // _DAY_S

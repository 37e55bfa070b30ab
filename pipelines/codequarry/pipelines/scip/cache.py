"""Cache of indexes: an unchanged tree is not indexed again."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from codequarry.pipelines.scip.tools import Installed
from codequarry.pipelines.store.workspace import replacing
from codequarry.schemas.errors import ScipIndexError

if TYPE_CHECKING:
    from codequarry.pipelines.scip.index_file import ScipIndex

KEPT = 3
"""Number of last used indexes that are kept per repository and indexer."""


def cache_file(store: Path, name: str, tree_sha256: str, installed: Installed) -> Path:
    """Return the file of the index of this tree by this indexer; the repository's name is part of every symbol."""
    key = hashlib.sha256(f"{tree_sha256}\0{installed.version}".encode()).hexdigest()[:32]
    return store / "scip" / name / installed.indexer.name / f"{key}.scip.zst"


def read_kept(kept: Path) -> ScipIndex | None:
    """Return a cached index; None when it is missing or damaged."""
    if not kept.is_file():
        return None
    from codequarry.pipelines.scip.index_file import read_scip

    try:
        with pa.input_stream(str(kept), compression="zstd") as stream:
            index = read_scip(stream.read())
        os.utime(kept)
    except (OSError, ScipIndexError):  # the indexer runs again
        return None
    return index


def keep(kept: Path, data: bytes) -> None:
    """Cache an index, and remove those beside it that were not used last.

    Args:
        kept: File of the cache.
        data: Bytes of the index.

    Raises:
        UnavailableError: The file cannot be written.
    """
    with replacing(kept) as temporary:
        with pa.output_stream(str(temporary), compression="zstd") as stream:
            stream.write(data)
    others = sorted(kept.parent.glob("*.scip.zst"), key=lambda file: (file.stat().st_mtime_ns, file.name))
    for old in [file for file in others if file != kept][: -(KEPT - 1)]:
        old.unlink()

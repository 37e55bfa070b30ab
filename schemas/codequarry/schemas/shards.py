"""How a bundle is divided: by file, so that a commit changes the shards of the files it touches and no other.

Which shard a file belongs to depends on its name alone and on how much there is in all, never on what was built before:
building from nothing and building on the last version give the same files, and equal files of two versions are stored
once. A shard is small enough that rebuilding it costs a few percent of the whole, and there are few enough of them that
an index in as many segments answers as one does.
"""

from __future__ import annotations

import hashlib

MAX_SHARDS = 32
_SHARD_BYTES = 128 << 10
"""From 4 MB of source on there are as many shards as there may be."""

OWN_TABLES = ("chunks", "ast_nodes", "cst_nodes")
"""Tables whose rows follow from their own file alone: a shard's key decides them, and the vectors' tables."""

SHARDED_TABLES = (*OWN_TABLES, "embeddings", "embeddings2", "ast_references")
"""Tables in a file for each shard. References depend on what other files define, and rarely change with it."""


def shard_count(size_bytes: int) -> int:
    """How many shards that much source is divided into: a power of two, 1 to `MAX_SHARDS`.

    >>> [shard_count(size) for size in (0, 131_072, 131_073, 1 << 20, 1 << 40)]
    [1, 1, 2, 8, 32]
    """
    count = 1
    while count < MAX_SHARDS and size_bytes > count * _SHARD_BYTES:
        count *= 2
    return count


def shard_of(repo: str, path: str, count: int) -> int:
    """The shard of a file, 0 to count - 1. Doubling the count splits every shard and mixes none.

    >>> [shard_of("app", "src/a.py", count) for count in (1, 2, 4, 8)]
    [0, 1, 3, 7]
    >>> shard_of("app", "src/b.py", 8) % 4 == shard_of("app", "src/b.py", 4)
    True
    """
    digest = hashlib.blake2b(f"{repo}\0{path}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") & (count - 1)


def shard_file(name: str, suffix: str, number: int, count: int) -> str:
    """Name of a shard's file; without a number where there is one shard.

    >>> shard_file("chunks", "parquet", 3, 32), shard_file("chunks", "parquet", 0, 1)
    ('chunks.03.parquet', 'chunks.parquet')
    """
    return f"{name}.{suffix}" if count == 1 else f"{name}.{number:02}.{suffix}"

"""Division of a bundle into shards: by file, so that a commit changes only the shards of the files it touches.

The shard of a file depends on its name and on the total size alone, never on what was built before. Building from
nothing and building on the last version give the same files, and equal files of two versions are stored once. A shard
is small: rebuilding it costs a few percent of the whole. There are few of them: an index in that number of segments
answers as one in a single segment does.
"""

from __future__ import annotations

import hashlib

MAX_SHARDS = 32
_SHARD_BYTES = 1 << 20
"""Source bytes for each shard; above 16 MB of source the number of shards is the largest."""

OWN_TABLES = ("chunks", "ast_nodes", "ast_members", "cst_nodes")
"""Tables whose rows follow from their own file alone: a shard's key decides them, and the tables of vectors."""

SHARDED_TABLES = (*OWN_TABLES, "embeddings", "embeddings2", "ast_references")
"""Tables in a file for each shard. References depend on what other files define, and rarely change with it."""


def shard_count(size_bytes: int) -> int:
    """Return the number of shards for a source size: a power of two, 1 to `MAX_SHARDS`.

    >>> [shard_count(size) for size in (0, 1 << 20, (1 << 20) + 1, 8 << 20, 1 << 40)]
    [1, 1, 2, 8, 32]
    """
    count = 1
    while count < MAX_SHARDS and size_bytes > count * _SHARD_BYTES:
        count *= 2
    return count


def shard_of(repo: str, path: str, count: int) -> int:
    """Return the shard of a file, 0 to count - 1. Doubling the count splits every shard and mixes none.

    >>> [shard_of("app", "src/a.py", count) for count in (1, 2, 4, 8)]
    [0, 1, 3, 7]
    >>> shard_of("app", "src/b.py", 8) % 4 == shard_of("app", "src/b.py", 4)
    True
    """
    digest = hashlib.blake2b(f"{repo}\0{path}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") & (count - 1)


def shard_file(name: str, suffix: str, number: int, count: int) -> str:
    """Return the name of a shard's file; without a number when there is only one shard.

    >>> shard_file("chunks", "parquet", 3, 32), shard_file("chunks", "parquet", 0, 1)
    ('chunks.03.parquet', 'chunks.parquet')
    """
    return f"{name}.{suffix}" if count == 1 else f"{name}.{number:02}.{suffix}"
